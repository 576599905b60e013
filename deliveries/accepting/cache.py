"""Part of accept: what a process remembers of consumers and event types, so that an emit need not look them up.

Only what may be accepted is remembered: a living consumer, and a type that is in use and not archived. No event relies
on it alone: the statement that stores events looks at it again (insert.py), and `forget` follows where it was stale.
"""

from collections.abc import Iterable, Sequence

from deliveries.accepting import catalogue
from deliveries.accepting.catalogue import CatalogueEntry, Name

# Entries that a process remembers.
_MAX_ENTRIES = 10_000
# The schemas that go with them, compiled (bytes).
_MAX_SCHEMA_BYTES = 128 << 20

_entries: dict[Name, CatalogueEntry] = {}
# By the hash of a schema in there: about what it takes (bytes).
_schema_bytes: dict[str, int] = {}


def find(names: Sequence[Name]) -> list[CatalogueEntry | None]:
    """The entry of each name, None where there is no such consumer. One statement looks up what is not remembered."""
    entries = list(map(_entries.get, names))
    if None not in entries:
        return entries
    missing = {name for name, entry in zip(names, entries, strict=True) if entry is None}
    looked_up = catalogue.look_up(missing)
    _remember(looked_up)
    return [entry or looked_up.get(name) for name, entry in zip(names, entries, strict=True)]


def forget(names: Iterable[Name]) -> None:
    """Something may have changed: the next `find` looks them up."""
    for name in names:
        _entries.pop(name, None)


def clear() -> None:
    _entries.clear()
    _schema_bytes.clear()


def _remember(looked_up: dict[Name, CatalogueEntry]) -> None:
    if len(_entries) + len(looked_up) > _MAX_ENTRIES or sum(_schema_bytes.values()) > _MAX_SCHEMA_BYTES:
        clear()
    for name, entry in looked_up.items():
        if entry.is_used and not entry.is_archived and entry.schema_problem is None:
            _entries[name] = entry
            if entry.validator is not None and entry.schema_hash is not None:
                _schema_bytes[entry.schema_hash] = entry.validator.size
