"""Part of accept: are the consumer and the event type known, and does the data match the type's schema?"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

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


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    detail: str
    pointer: str


@dataclass(frozen=True, slots=True)
class Types:
    known: set[str]
    archived: set[str]
    # Had an event before.
    used: set[str]
    schemas: dict[tuple[str, str], str]
    # Whether unknown ones join the catalogue.
    register: bool
    # What checking may still cost: types are looked up once for a request.
    work: Work = field(default_factory=Work)

    def check(self, name: str, api_version: str, data: dict[str, Any]) -> Refusal | None:
        if name not in self.known and not self.register:
            return Refusal("event_type_unknown", f"The event type {name!r} is not in the catalogue.", "/type")
        if name in self.archived:
            return Refusal("event_type_archived", f"The event type {name!r} is archived.", "/type")
        schema = self.schemas.get((name, api_version))
        return None if schema is None else _mismatch(schema, data, self.work)

    def note_use(self, names: set[str]) -> None:
        """Writes down the first use of types that passed the check; unknown ones join the catalogue with it."""
        first = sorted(names - self.used)
        if first:
            with connection.cursor() as cursor:
                cursor.execute(USE_TYPES, {"names": first})


@dataclass(frozen=True, slots=True)
class Known:
    # By the name they were asked for.
    consumer_ids: dict[str, UUID]
    uids: dict[UUID, str | None]
    types: Types

    @property
    def shown(self) -> dict[UUID, str]:
        """The uid of each, or its id where it has none."""
        return {uuid: uid or ids.show("con", uuid) for uuid, uid in self.uids.items()}


def look_up(consumer_names: set[str], wanted: set[tuple[str, str]], *, register: bool) -> Known:
    """Both in one statement. `wanted` are (event type, api_version)."""
    uuids = {name: uuid for name in consumer_names if (uuid := ids.parse("con", name))}
    asked = {
        "uids": [name for name in consumer_names if name not in uuids],
        "ids": list(uuids.values()),
        "names": sorted({name for name, _ in wanted}),
        "versions": sorted({version for _, version in wanted}),
    }
    with connection.cursor() as cursor:
        cursor.execute(LOOK_UP, {"asked": orjson.dumps(asked).decode()})
        [[answer]] = cursor.fetchall()
    consumers, types = orjson.loads(answer)
    by_uid = {uid: UUID(uuid) for uuid, uid in consumers or [] if uid in consumer_names}
    uids = {UUID(uuid): uid for uuid, uid in consumers or []}
    return Known(
        uids=uids,
        consumer_ids=by_uid | {name: uuid for name, uuid in uuids.items() if uuid in uids},
        types=Types(
            known={row[0] for row in types or []},
            archived={name for name, archived, *_ in types or [] if archived},
            used={name for name, _, used, *_ in types or [] if used},
            schemas={(name, version): schema for name, _, _, version, schema in types or [] if version is not None},
            register=register,
        ),
    )


def validator(schema: str) -> Validator:
    """`SchemaRefused` where it was registered before its cost was looked at, and would be too high."""
    return _validators.get(schema)


def _mismatch(schema: str, data: dict[str, Any], work: Work) -> Refusal | None:
    try:
        checker = validator(schema)
    except SchemaRefused as refusal:
        return Refusal("schema_refused", f"The event type's schema has to be registered anew. {refusal}", "/type")
    if not work.allows(checker, data):
        return Refusal("schema_refused", _TOO_MUCH, "/data")
    found = checker.mismatch(data)
    return None if found is None else Refusal("schema_mismatch", found.message, f"/data{found.pointer}")


# A process's own: schemas are compiled once, and seldom change.
_validators = SchemaCache(max_bytes=128 << 20)
