"""Ids as people have them: the end of one, as lists show it (`dlv_…4h2k9x`), or a whole one without its prefix.

No index knows the end of an id, so the newest rows of each table are looked at, through its primary key.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from deliveries.browse.source import fetch
from subscriptions import ids

# What each prefix names, and its table.
TABLES = {
    "dlv": "deliveries_delivery",
    "evt": "deliveries_event",
    "ep": "subscriptions_endpoint",
    "con": "subscriptions_consumer",
    "rpl": "deliveries_replay",
}
LOOKED_AT = 20_000
_LIMIT = 20
# The last group of a UUID as text is 48 bits: nine letters of an id lie in it. More are compared afterwards.
_LETTERS = 9
_LETTER = "[0-9a-hjkmnp-tv-z]"
_WHOLE = re.compile(f"{_LETTER}{{26}}")
_END = re.compile(rf"(?:({'|'.join(TABLES)})_)?(…|\.\.\.)?({_LETTER}{{4,25}})")
# Without a prefix or dots, fewer letters are a word: `acme`.
_BARE_FROM = 6

FIND_WHOLE = "SELECT id FROM {table} WHERE id = %(id)s"

FIND_ENDING = """
    SELECT id FROM (SELECT id FROM {table} ORDER BY id DESC LIMIT %(looked_at)s) newest
    WHERE ('x' || right(id::text, 12))::bit(48)::bigint & %(mask)s = %(ending)s
    ORDER BY id DESC LIMIT %(limit)s
"""
"""Of a table's newest rows, those whose ids end so."""


@dataclass(frozen=True)
class Found:
    prefix: str
    id: UUID

    @property
    def public_id(self) -> str:
        return ids.show(self.prefix, self.id)


def find(text: str) -> list[Found]:
    """Everything that goes by this id, or whose id ends so; nothing if the text is no such thing."""
    text = text.strip().lower()
    if uuid := _whole(text):
        return [
            Found(prefix, uuid)
            for prefix, table in TABLES.items()
            if fetch(FIND_WHOLE.format(table=table), {"id": uuid})
        ]
    matched = _END.fullmatch(text)
    if matched is None:
        return []
    prefix, dots, ending = matched.groups()
    if not prefix and not dots and len(ending) < _BARE_FROM:
        return []
    return [found for each in ([prefix] if prefix else TABLES) for found in _ending(each, ending)]


def _whole(text: str) -> UUID | None:
    if _WHOLE.fullmatch(text):
        return ids.parse("any", f"any_{text}")
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def _ending(prefix: str, ending: str) -> Iterator[Found]:
    letters = ending[-_LETTERS:]
    value = ids.parse("any", "any_" + letters.rjust(26, "0"))
    assert value is not None
    given = {
        "looked_at": LOOKED_AT,
        "mask": (1 << 5 * len(letters)) - 1,
        "ending": value.int,
        "limit": _LIMIT,
    }
    for (uuid,) in fetch(FIND_ENDING.format(table=TABLES[prefix]), given):
        found = Found(prefix, uuid)
        if found.public_id.endswith(ending):
            yield found
