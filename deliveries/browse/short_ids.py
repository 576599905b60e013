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
    "key": "subscriptions_apikey",
}
LOOKED_AT = 20_000
# Of one consumer: its rows lie apart from each other, so each costs more.
_OWN_LOOKED_AT = 5_000
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


FIND_OWN = """
    SELECT d.id, d.event_id
    FROM (SELECT id, %(looked_at)s / greatest(1, count(*) OVER ()) AS share FROM subscriptions_endpoint
        WHERE consumer_id = %(consumer_id)s) owner
    CROSS JOIN LATERAL (
        SELECT id, event_id FROM deliveries_delivery
        WHERE endpoint_id = owner.id ORDER BY event_id DESC LIMIT owner.share
    ) d
    WHERE ('x' || right(d.id::text, 12))::bit(48)::bigint & %(mask)s = %(ending)s
        OR ('x' || right(d.event_id::text, 12))::bit(48)::bigint & %(mask)s = %(ending)s
    ORDER BY d.id DESC LIMIT %(limit)s
"""
"""Of a consumer's newest deliveries, as many of each endpoint, those whose id ends so, or whose event's does."""

FIND_OWN_WHOLE = """
    SELECT d.id FROM deliveries_delivery d JOIN subscriptions_endpoint endpoint ON endpoint.id = d.endpoint_id
    WHERE endpoint.consumer_id = %(consumer_id)s AND d.id = %(id)s
    UNION ALL
    SELECT d.id FROM subscriptions_endpoint endpoint JOIN deliveries_delivery d
        ON d.endpoint_id = endpoint.id AND d.event_id = %(id)s
    WHERE endpoint.consumer_id = %(consumer_id)s
    UNION ALL
    SELECT d.id FROM deliveries_attempt attempt JOIN deliveries_delivery d ON d.id = attempt.delivery_id
    JOIN subscriptions_endpoint endpoint ON endpoint.id = d.endpoint_id
    WHERE endpoint.consumer_id = %(consumer_id)s AND attempt.id = %(id)s
"""
"""A consumer's deliveries that go by this id: of a delivery, of an event, of an attempt."""


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


def find_own(text: str, *, consumer_id: UUID) -> tuple[UUID, ...]:
    """A consumer's deliveries with this id or this end of one, their own, their event's or an attempt's."""
    text = text.strip().lower()
    if uuid := _whole(text.removeprefix("att_")):
        return tuple(row[0] for row in fetch(FIND_OWN_WHOLE, {"consumer_id": consumer_id, "id": uuid}))
    matched = _END.fullmatch(text)
    if matched is None or matched[1] not in (None, "dlv", "evt"):
        return ()
    if not matched[1] and not matched[2] and len(matched[3]) < _BARE_FROM:
        return ()
    given = {"consumer_id": consumer_id, "looked_at": _OWN_LOOKED_AT, **_ending_of(matched[3])}
    pairs = fetch(FIND_OWN, given)
    return tuple(
        delivery
        for delivery, event in pairs
        if any(ids.show(prefix, uuid).endswith(matched[3]) for prefix, uuid in (("dlv", delivery), ("evt", event)))
    )


def _whole(text: str) -> UUID | None:
    if _WHOLE.fullmatch(text):
        return ids.parse("any", f"any_{text}")
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def _ending(prefix: str, ending: str) -> Iterator[Found]:
    given = {"looked_at": LOOKED_AT, **_ending_of(ending)}
    for (uuid,) in fetch(FIND_ENDING.format(table=TABLES[prefix]), given):
        found = Found(prefix, uuid)
        if found.public_id.endswith(ending):
            yield found


def _ending_of(ending: str) -> dict[str, int]:
    letters = ending[-_LETTERS:]
    value = ids.parse("any", "any_" + letters.rjust(26, "0"))
    assert value is not None
    return {"mask": (1 << 5 * len(letters)) - 1, "ending": value.int, "limit": _LIMIT}
