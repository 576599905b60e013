"""The catalogue of event types, and the patterns by which endpoints ask for them."""

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from subscriptions.models import Endpoint, EventType, EventTypeVersion, MailKind
from subscriptions.schemas.compiled import SchemaRefused, compiled

_SEGMENT = r"[A-Za-z0-9_\-]+"
NAME = re.compile(rf"{_SEGMENT}(\.{_SEGMENT})*")
PATTERN = re.compile(rf"\*|{_SEGMENT}(\.{_SEGMENT})*(\.\*)?")
MAX_NAME_LENGTH = 255
# What the platform itself tells of (deliveries/upkeep/announce.py), whatever the catalogue holds.
PLATFORM_TYPES = ("endpoint.warning", "endpoint.disabled", "endpoint.recovered", "delivery.dead")
# What a consumer hears of its own endpoints, only where an endpoint asks for it by name: `*` does not take these in.
NOTIFICATION_TYPES = {
    MailKind.FAILING: "notification.endpoint_failing",
    MailKind.DISABLING: "notification.endpoint_disabling",
    MailKind.DISABLED: "notification.endpoint_disabled",
    MailKind.RECOVERED: "notification.endpoint_recovered",
}
_NAMED_ONLY = frozenset(NOTIFICATION_TYPES.values())
# A misspelt name is compared with so many, so that no catalogue makes a refusal slow.
_MOST_COMPARED = 1000


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
    return (name, *wider) if name in _NAMED_ONLY else (name, *wider, "*")


class NameTaken(Exception):
    """The catalogue has an event type of this name."""


class SchemaInvalid(ValueError):
    """Not a JSON Schema we can check data against, or an example that does not match. `pointer` leads to the place."""

    def __init__(self, message: str, *, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


@transaction.atomic
def create(*, name: str, description: str = "", versions: list[dict[str, Any]] | None = None) -> EventType:
    """Declares it: from now on it is published. One that was only emitted so far has no entry yet."""
    check_schemas(versions or [])
    fields = {"description": description, "declared_at": timezone.now()}
    event_type, created = EventType.objects.get_or_create(name=name, defaults=fields)
    if not created and not EventType.objects.filter(name=name, declared_at__isnull=True).update(**fields):
        raise NameTaken
    _replace_versions(event_type, versions or [])
    return find(name) or event_type


@transaction.atomic
def update(event_type: EventType, changes: dict[str, Any]) -> EventType:
    """Versions given replace those of the same api_version and leave the others alone. Declares it if nobody has."""
    check_schemas(changes.get("versions", []))
    fields: dict[str, Any] = {}
    if "description" in changes:
        fields["description"] = changes["description"]
    for name in ("deprecated", "archived"):
        if name in changes:
            fields[f"{name}_at"] = (getattr(event_type, f"{name}_at") or timezone.now()) if changes[name] else None
    if event_type.declared_at is None:
        fields["declared_at"] = timezone.now()
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


def published() -> QuerySet[EventType]:
    """What consumers may know of."""
    return EventType.objects.filter(declared_at__isnull=False, archived_at__isnull=True)


def unknown_pattern(patterns: Sequence[str], *, kept: Collection[str] = ()) -> tuple[str, str | None] | None:
    """The first pattern that would match no event type, and the nearest name. `kept` ones are known already.

    Where nothing is published there is no catalogue to go by, and every name may be right.
    """
    asked = [pattern for pattern in patterns if pattern != "*" and pattern not in kept]
    if not asked or not published().exists():
        return None
    names = [*published().order_by("name").values_list("name", flat=True), *PLATFORM_TYPES, *_NAMED_ONLY]
    taken_in = {pattern for name in names for pattern in patterns_for(name)}
    unknown = next((pattern for pattern in asked if pattern not in taken_in), None)
    if unknown is None:
        return None
    near = get_close_matches(unknown.removesuffix(".*"), names[:_MOST_COMPARED], n=1)
    return unknown, near[0] if near else None


def newest_example(event_type: EventType) -> dict[str, Any]:
    """The newest version's example; where there is none, an empty object."""
    versions = sorted(event_type.versions.all(), key=lambda each: each.api_version, reverse=True)
    return next((each.example for each in versions if isinstance(each.example, dict)), {})


def find(name: str) -> EventType | None:
    return EventType.objects.prefetch_related("versions").filter(name=name).first()


def check_schemas(versions: list[dict[str, Any]]) -> None:
    for index, version in enumerate(versions):
        schema = version.get("schema")
        if schema is None:
            continue
        example = version.get("example")
        try:
            validator = compiled(schema)
            mismatch = None if example is None else validator.mismatch(example)
        except SchemaRefused as refusal:
            raise SchemaInvalid(str(refusal), pointer=f"/versions/{index}/schema{refusal.pointer}") from None
        if mismatch is not None:
            raise SchemaInvalid(
                f"The example does not match the schema: {mismatch.message}",
                pointer=f"/versions/{index}/example{mismatch.pointer}",
            )


def _replace_versions(event_type: EventType, versions: list[dict[str, Any]]) -> None:
    for version in versions:
        EventTypeVersion.objects.update_or_create(
            event_type=event_type,
            api_version=version["api_version"],
            defaults={"schema": version.get("schema"), "example": version.get("example")},
        )
