"""Part of accept: is this event type known, and does the data match its schema?"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from django.db import connection

from subscriptions.event_types import compiled

FIND_TYPES = """
    SELECT type.name, type.archived_at IS NOT NULL, type.used_at IS NOT NULL, version.api_version, version.schema::text
    FROM subscriptions_eventtype type
    LEFT JOIN subscriptions_eventtypeversion version
        ON version.event_type_id = type.name AND version.schema IS NOT NULL AND version.api_version = ANY (%(versions)s)
    WHERE type.name = ANY (%(names)s)
"""
"""The catalogue's entries of these names, a row per version asked for that has a schema."""

USE_TYPES = """
    INSERT INTO subscriptions_eventtype AS known (name, description, used_at)
    SELECT name, '', now() FROM unnest(%(names)s::text[]) AS given (name) ORDER BY name
    ON CONFLICT (name) DO UPDATE SET used_at = now() WHERE known.used_at IS NULL
"""
"""Notes the first use of event types, adding those that are not in the catalogue yet."""


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    detail: str
    pointer: str


@dataclass(frozen=True, slots=True)
class Types:
    known: set[str]
    archived: set[str]
    schemas: dict[tuple[str, str], str]

    def check(self, name: str, api_version: str, data: dict[str, Any]) -> Refusal | None:
        if name not in self.known:
            return Refusal("event_type_unknown", f"The event type {name!r} is not in the catalogue.", "/type")
        if name in self.archived:
            return Refusal("event_type_archived", f"The event type {name!r} is archived.", "/type")
        schema = self.schemas.get((name, api_version))
        error = None if schema is None else next(iter(validator(schema).iter_errors(data)), None)
        if error is None:
            return None
        pointer = "".join(f"/{_escaped(step)}" for step in error.instance_path)
        return Refusal("schema_mismatch", error.message[:500], f"/data{pointer}")


def look_up(wanted: Iterable[tuple[str, str]], *, register: bool) -> Types:
    """What the catalogue says about these (name, api_version); unknown ones are added to it where that is allowed."""
    pairs = list(wanted)
    names = sorted({name for name, _ in pairs})
    with connection.cursor() as cursor:
        cursor.execute(FIND_TYPES, {"names": names, "versions": sorted({version for _, version in pairs})})
        rows = cursor.fetchall()
        known = {row[0] for row in rows}
        used = {name for name, archived, is_used, *_ in rows if is_used or archived}
        unused = [name for name in names if name not in used and (register or name in known)]
        if unused:
            cursor.execute(USE_TYPES, {"names": unused})
            known.update(unused)
    return Types(
        known=known,
        archived={name for name, archived, *_ in rows if archived},
        schemas={(name, version): schema for name, _, _, version, schema in rows if version is not None},
    )


@lru_cache(maxsize=512)
def validator(schema: str) -> Any:
    """Compiled once per schema text, so a changed schema is a new entry and no cache needs telling."""
    return compiled(orjson.loads(schema))


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")
