"""Public ids: a UUIDv7 shown as a TypeID (`evt_01jcx…`), so an id says what it names and sorts by time."""

from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID, SafeUUID

import uuid_utils

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
# Two and three letters at a time: fewer steps, on a path that runs several times per event.
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_TRIPLES = [high + low for high in _PAIRS for low in _ALPHABET]
_UNKNOWN = SafeUUID.unknown
_set = object.__setattr__


def new_uuid() -> UUID:
    # What `UUID(int=…)` does after its checks, which take three times as long.
    made = UUID.__new__(UUID)
    _set(made, "int", uuid_utils.uuid7().int)
    _set(made, "is_safe", _UNKNOWN)
    return made


def new_text() -> str:
    """A new one as it is written, where nothing else is done with it."""
    return str(uuid_utils.uuid7())


def show(prefix: str, uuid: UUID) -> str:
    high, low = divmod(uuid.int, 1 << 60)
    t = _TRIPLES
    return (
        f"{prefix}_{_PAIRS[high >> 60]}"
        f"{t[high >> 45 & 0x7FFF]}{t[high >> 30 & 0x7FFF]}{t[high >> 15 & 0x7FFF]}{t[high & 0x7FFF]}"
        f"{t[low >> 45]}{t[low >> 30 & 0x7FFF]}{t[low >> 15 & 0x7FFF]}{t[low & 0x7FFF]}"
    )


@lru_cache(maxsize=16_384)
def show_often(prefix: str, uuid: UUID) -> str:
    """The same, for ids that are shown again and again: a consumer's, an endpoint's."""
    return show(prefix, uuid)


def parse(prefix: str, text: str) -> UUID | None:
    """The UUID behind a public id, or None when the text is no id of that kind."""
    head, _, tail = text.rpartition("_")
    # 26 letters carry 130 bits; a first letter above 7 would overflow 128.
    if head != prefix or len(tail) != 26 or tail[0] > "7":
        return None
    value = 0
    for letter in tail:
        digit = _VALUES.get(letter)
        if digit is None:
            return None
        value = value << 5 | digit
    return UUID(int=value)


def first_at(at: datetime) -> UUID:
    """The smallest id of that millisecond: ids are time-ordered, so a range of times is a range of ids."""
    return UUID(int=int(at.timestamp() * 1000) << 80)


def made_at(uuid: UUID) -> datetime:
    """When an id was made, to the millisecond."""
    return datetime.fromtimestamp((uuid.int >> 80) / 1000, UTC)
