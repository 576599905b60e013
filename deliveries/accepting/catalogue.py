"""Part of accept: are the consumer and the event type known, and does the data match the type's schema?"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection

from deliveries.accepting.insert import EventKind
from subscriptions import ids
from subscriptions.schemas.compiled import SchemaCache, SchemaRefused, Validator
from subscriptions.schemas.work import Work

LOOK_UP = """
    WITH given AS MATERIALIZED (SELECT %(asked)s::json AS asked)
    SELECT json_build_array((
        SELECT json_agg(json_build_array(id, uid)) FROM subscriptions_consumer
        WHERE deleted_at IS NULL AND (
            uid = ANY (ARRAY(SELECT json_array_elements_text(asked -> 'uids') FROM given))
            OR id = ANY (ARRAY(SELECT json_array_elements_text(asked -> 'ids')::uuid FROM given))
        )
    ), (
        SELECT json_agg(json_build_array(
            type.name, type.archived_at IS NOT NULL, type.used_at IS NOT NULL, version.api_version, version.schema::text
        ))
        FROM subscriptions_eventtype type
        LEFT JOIN subscriptions_eventtypeversion version
            ON version.event_type_id = type.name AND version.schema IS NOT NULL
            AND version.api_version = ANY (ARRAY(SELECT json_array_elements_text(asked -> 'versions') FROM given))
        WHERE type.name = ANY (ARRAY(SELECT json_array_elements_text(asked -> 'names') FROM given))
    ))::text
"""
"""The living consumers named by uid or id, and the catalogue's entries, one per version asked for that has a schema.
Asked for as one JSON document: that costs the web process less than four arrays."""

USE_TYPES = """
    INSERT INTO subscriptions_eventtype AS known (name, description, used_at)
    SELECT name, '', now() FROM unnest(%(names)s::text[]) AS given (name) ORDER BY name
    ON CONFLICT (name) DO UPDATE SET used_at = now() WHERE known.used_at IS NULL
"""
"""Notes the first use of event types, adding those that are not in the catalogue yet."""


_TOO_MUCH = (
    "Checking this data could take too long: the event type's schema may look at each value many times, and the data"
    " has many. Send less in one event and fewer events in a batch, or simplify the schema."
)


# A consumer as the producer named it, an event type, and its version.
Name = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class EventRefusal:
    code: str
    detail: str
    pointer: str


@dataclass(frozen=True, slots=True, eq=False)
class CatalogueEntry(EventKind):
    """A living consumer and an event type in one version: all it takes to judge an event."""

    # Whether the type is in the catalogue at all.
    is_registered: bool
    is_archived: bool
    # Whether the type had an event before.
    is_used: bool
    # Of the type's schema, if it has one; or why that schema cannot be used.
    validator: Validator | None
    schema_problem: str | None

    @property
    def consumer(self) -> str:
        """As it is shown."""
        return self.consumer_uid or ids.show("con", self.consumer_id)

    def refusal(self, data: dict[str, Any], work: Work) -> EventRefusal | None:
        """Why an event with this data may not be accepted. `work` is what checking may still cost this request."""
        if not self.is_registered and settings.UNKNOWN_EVENT_TYPES != "register":
            return EventRefusal("event_type_unknown", f"The event type {self.type!r} is not in the catalogue.", "/type")
        if self.is_archived:
            return EventRefusal("event_type_archived", f"The event type {self.type!r} is archived.", "/type")
        if self.schema_problem is not None:
            detail = f"The event type's schema has to be registered anew. {self.schema_problem}"
            return EventRefusal("schema_refused", detail, "/type")
        return None if self.validator is None else _mismatch(self.validator, data, work)


def look_up(names: Collection[Name]) -> dict[Name, CatalogueEntry]:
    """An entry for each name whose consumer lives. One statement, however many names there are."""
    uuids = {consumer: uuid for consumer, _, _ in names if (uuid := ids.parse("con", consumer))}
    asked = {
        "uids": sorted({consumer for consumer, _, _ in names if consumer not in uuids}),
        "ids": list(uuids.values()),
        "names": sorted({type for _, type, _ in names}),
        "versions": sorted({version for _, _, version in names}),
    }
    with connection.cursor() as cursor:
        cursor.execute(LOOK_UP, {"asked": orjson.dumps(asked).decode()})
        [[answer]] = cursor.fetchall()
    consumers, types = (rows or [] for rows in orjson.loads(answer))
    uids: dict[UUID, str | None] = {UUID(uuid): uid for uuid, uid in consumers}
    consumer_ids = {uid: uuid for uuid, uid in uids.items()} | {
        consumer: uuid for consumer, uuid in uuids.items() if uuid in uids
    }
    states = {name: (True, archived, used) for name, archived, used, *_ in types}
    schemas = {(name, version): schema for name, _, _, version, schema in types if version is not None}
    return {
        (consumer, type, version): _entry(
            (consumer_id, uids[consumer_id], type, version),
            states.get(type, (False, False, False)),
            schemas.get((type, version)),
        )
        for consumer, type, version in names
        if (consumer_id := consumer_ids.get(consumer)) is not None
    }


def note_use(types: Collection[str]) -> None:
    """Writes down the first use of types that passed the check; unknown ones join the catalogue with it."""
    if types:
        with connection.cursor() as cursor:
            cursor.execute(USE_TYPES, {"names": sorted(types)})


def _entry(
    kind: tuple[UUID, str | None, str, str], state: tuple[bool, bool, bool], schema: str | None
) -> CatalogueEntry:
    if schema is None:
        return CatalogueEntry(*kind, None, *state, None, None)
    schema_hash = hashlib.md5(schema.encode(), usedforsecurity=False).hexdigest()
    try:
        return CatalogueEntry(*kind, schema_hash, *state, _validators.get(schema), None)
    except SchemaRefused as refused:
        # It was registered before its cost was looked at, and would be too high.
        return CatalogueEntry(*kind, schema_hash, *state, None, str(refused))


def _mismatch(validator: Validator, data: dict[str, Any], work: Work) -> EventRefusal | None:
    if not work.allows(validator, data):
        return EventRefusal("schema_refused", _TOO_MUCH, "/data")
    found = validator.mismatch(data)
    return None if found is None else EventRefusal("schema_mismatch", found.message, f"/data{found.pointer}")


# A process's own: schemas are compiled once, and seldom change.
_validators = SchemaCache(max_bytes=128 << 20)
