"""The catalogue of event types, and the patterns by which endpoints ask for them."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
from django.db import transaction
from django.utils import timezone

from subscriptions.models import Endpoint, EventType, EventTypeVersion

_SEGMENT = r"[A-Za-z0-9_\-]+"
NAME = re.compile(rf"{_SEGMENT}(\.{_SEGMENT})*")
PATTERN = re.compile(rf"\*|{_SEGMENT}(\.{_SEGMENT})*(\.\*)?")
MAX_NAME_LENGTH = 255
# How large a schema may be with each reference written out each time. As many steps take some milliseconds.
MAX_SCHEMA_STEPS = 2_000_000


def is_name(text: str) -> bool:
    return len(text) <= MAX_NAME_LENGTH and _is_spelled_like_a_name(text)


@lru_cache(maxsize=4096)
def _is_spelled_like_a_name(text: str) -> bool:
    """Asked of every event, and there are few types."""
    return NAME.fullmatch(text) is not None


def is_pattern(text: str) -> bool:
    return len(text) <= MAX_NAME_LENGTH and PATTERN.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def patterns_for(name: str) -> tuple[str, ...]:
    """Every pattern that takes in this event type: `a.b.c` is matched by `a.b.c`, `a.b.*`, `a.*` and `*`."""
    segments = name.split(".")
    wider = [".".join(segments[:count]) + ".*" for count in range(len(segments) - 1, 0, -1)]
    return name, *wider, "*"


class NameTaken(Exception):
    """The catalogue has an event type of this name."""


class SchemaInvalid(ValueError):
    """Not a JSON Schema we can check data against."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def compiled(schema: Any) -> Any:
    """A validator that fetches nothing (a $ref must not reach the network) and whose patterns run in linear time."""
    return jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions())


@transaction.atomic
def create(*, name: str, description: str = "", versions: list[dict[str, Any]] | None = None) -> EventType:
    check_schemas(versions or [])
    event_type, created = EventType.objects.get_or_create(name=name, defaults={"description": description})
    if not created:
        raise NameTaken
    _replace_versions(event_type, versions or [])
    return find(name) or event_type


@transaction.atomic
def update(event_type: EventType, changes: dict[str, Any]) -> EventType:
    """Versions given replace those of the same api_version and leave the others alone."""
    check_schemas(changes.get("versions", []))
    fields: dict[str, Any] = {}
    if "description" in changes:
        fields["description"] = changes["description"]
    if "archived" in changes:
        fields["archived_at"] = (event_type.archived_at or timezone.now()) if changes["archived"] else None
    if fields:
        EventType.objects.filter(name=event_type.name).update(**fields)
    _replace_versions(event_type, changes.get("versions", []))
    return find(event_type.name) or event_type


@transaction.atomic
def delete(event_type: EventType) -> bool:
    """True if it is gone; a type with events, or that an endpoint asks for by name, is archived instead."""
    # Locked: an event that comes at this moment waits to note its use, and then adds the type again.
    locked = EventType.objects.select_for_update().filter(name=event_type.name).first()
    wanted = Endpoint.objects.filter(event_types__contains=[event_type.name], deleted_at__isnull=True).exists()
    if locked is None or (not wanted and locked.used_at is None):
        EventType.objects.filter(name=event_type.name).delete()
        return True
    EventType.objects.filter(name=event_type.name, archived_at__isnull=True).update(archived_at=timezone.now())
    return False


def find(name: str) -> EventType | None:
    return EventType.objects.prefetch_related("versions").filter(name=name).first()


def check_schemas(versions: list[dict[str, Any]]) -> None:
    for index, version in enumerate(versions):
        schema = version.get("schema")
        if schema is None:
            continue
        if _steps(schema) > MAX_SCHEMA_STEPS:
            raise SchemaInvalid(
                index, "The schema's references lead to each other too often: checking would take ages."
            )
        try:
            validator = compiled(schema)
        except ValueError as error:
            raise SchemaInvalid(index, f"Not a usable JSON Schema: {str(error).splitlines()[0][:300]}") from None
        example = version.get("example")
        if example is not None and not validator.is_valid(example):
            raise SchemaInvalid(index, "The example does not match the schema.")


def _replace_versions(event_type: EventType, versions: list[dict[str, Any]]) -> None:
    for version in versions:
        EventTypeVersion.objects.update_or_create(
            event_type=event_type,
            api_version=version["api_version"],
            defaults={"schema": version.get("schema"), "example": version.get("example")},
        )


def _refuse(uri: str) -> Any:
    raise ValueError("References to other documents are not followed.")


def _steps(schema: Any) -> int:
    """How large a schema is with every reference written out: forty lines that name each other twice are 2^40 steps.

    More than a check would take, since most references are about different parts of the data; so the limit is wide. One
    that leads back to itself counts nothing more: the validator sees to those.
    """
    named: dict[Any, Any] = {}
    counted: dict[int, int] = {}

    def learn(node: Any) -> None:
        if isinstance(node, dict):
            named.update(
                {f"#{node[key]}": node for key in ("$anchor", "$dynamicAnchor") if isinstance(node.get(key), str)}
            )
            if isinstance(node.get("$id"), str):
                named[node["$id"]] = node
        for inner in _inner(node):
            learn(inner)

    def count(node: Any) -> int:
        if id(node) not in counted:
            counted[id(node)] = 0
            parts = list(_inner(node))
            if isinstance(node, dict):
                references = [node[key] for key in ("$ref", "$dynamicRef") if isinstance(node.get(key), str)]
                parts += [_pointed_to(schema, reference, named) for reference in references]
            counted[id(node)] = 1 + sum(count(part) for part in parts if isinstance(part, dict | list))
        return counted[id(node)]

    try:
        learn(schema)
        return count(schema)
    except RecursionError:
        return MAX_SCHEMA_STEPS + 1


def _inner(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _pointed_to(schema: Any, reference: str, named: Mapping[str, Any]) -> Any:
    """What a reference means inside the schema; None for one that leads outside it."""
    if not reference.startswith("#/"):
        return named.get(reference)
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict):
            schema = schema.get(name)
        elif isinstance(schema, list) and name.isdecimal() and len(name) < 9 and int(name) < len(schema):
            schema = schema[int(name)]
        else:
            return None
    return schema
