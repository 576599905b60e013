"""Part of accept: what a web process remembers of consumers and event types, so that an emit need not look them up.

Remembered is only what may be accepted as it is: a living consumer, a type that is in use and not archived. It is never
relied on alone: the statement that stores an event looks at it again, so what has changed since stores nothing.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from deliveries.accepting import catalogue
from deliveries.accepting.insert import Kind
from subscriptions import ids
from subscriptions.schemas.compiled import SchemaRefused, Validator
from subscriptions.schemas.work import Work

# Consumers and types that a process remembers.
_MOST_REMEMBERED = 10_000
# The schemas that go with them, compiled (bytes).
_MOST_SCHEMA_BYTES = 128 << 20

# A consumer as the producer named it, an event type, and its version.
Name = tuple[str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Known(Kind):
    # Of the type's schema.
    validator: Validator | None

    @property
    def consumer(self) -> str:
        """As it is shown."""
        return self.consumer_uid or ids.show("con", self.consumer_id)

    def fits(self, data: dict[str, Any], work: Work) -> bool:
        return self.validator is None or (work.allows(self.validator, data) and self.validator.is_valid(data))


_memory: dict[Name, Known] = {}
# By the hash of a schema in there: about what it takes (bytes).
_schema_bytes: dict[str, int] = {}


def recall(names: Iterable[Name]) -> list[Known | None]:
    """None for those that are not remembered."""
    return list(map(_memory.get, names))


def forget(name: Name) -> None:
    """Something has changed: next time we look anew."""
    _memory.pop(name, None)


def learn(names: Iterable[Name]) -> None:
    """Looks up those that are not remembered, all with one statement."""
    unknown = {name for name in names if name not in _memory}
    if not unknown:
        return
    found = catalogue.look_up(
        {consumer for consumer, _, _ in unknown},
        {(type, version) for _, type, version in unknown},
        register=settings.UNKNOWN_EVENT_TYPES == "register",
    )
    if len(_memory) + len(unknown) > _MOST_REMEMBERED or sum(_schema_bytes.values()) > _MOST_SCHEMA_BYTES:
        _memory.clear()
        _schema_bytes.clear()
    for consumer, type, version in unknown:
        consumer_id = found.consumer_ids.get(consumer)
        if consumer_id is not None and type in found.types.used and type not in found.types.archived:
            with suppress(SchemaRefused):  # said to each who emits it, by the catalogue
                _memory[consumer, type, version] = _known(
                    consumer_id, found.uids[consumer_id], type, version, found.types.schemas.get((type, version))
                )


def _known(consumer_id: UUID, consumer_uid: str | None, type: str, version: str, schema: str | None) -> Known:
    validator = None if schema is None else catalogue.validator(schema)
    schema_hash = schema and hashlib.md5(schema.encode(), usedforsecurity=False).hexdigest()
    if validator is not None and schema_hash:
        _schema_bytes[schema_hash] = validator.size
    return Known(
        consumer_id=consumer_id,
        consumer_uid=consumer_uid,
        type=type,
        api_version=version,
        schema_hash=schema_hash,
        validator=validator,
    )
