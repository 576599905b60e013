"""event-types/: the catalogue."""

import re
from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions import event_types
from subscriptions.access.scopes import EVENT_TYPES_READ, EVENT_TYPES_WRITE
from subscriptions.actions import event_types as actions
from subscriptions.api.authentication import actor, caller
from subscriptions.api.describe import Operation, Page, Parameter
from subscriptions.api.fields import Flag, Text, Why
from subscriptions.api.pagination import PAGE, flag_of, invalid_cursor, limit_of, next_url, read_cursor
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.views import (
    EVERYONE,
    PRODUCERS,
    ApiView,
    body_object,
    fields_and_why,
    setting_error,
    why_of_delete,
)
from subscriptions.event_types import NAME, is_name
from subscriptions.models import EventType

_API_VERSION = re.compile(r"[A-Za-z0-9._\-]+")
_NAME_RULE = "Dot-separated words of letters, digits, _ and -, like `invoice.paid`."
_ARCHIVED = Parameter("archived", "`true`: archived ones too.", {"type": "boolean", "default": False})
_UNDECLARED = Parameter(
    "undeclared",
    "`true`: also those that were emitted and never declared. Not for consumers.",
    {"type": "boolean", "default": False},
)


class VersionOut(TypedDict):
    """What the data of an event looks like in one version."""

    api_version: str
    schema: Annotated[Any, "A JSON Schema that `data` is checked against when an event is emitted; null: anything."]
    example: Annotated[Any, "An example of `data`."]


class EventTypeOut(TypedDict):
    """An entry of the catalogue."""

    name: Annotated[str, {"pattern": f"^{NAME.pattern}$"}]
    description: str
    versions: list[VersionOut]
    declared: Annotated[bool, "False for one that was emitted and never declared: consumers do not see it."]
    deprecated: Annotated[bool, "Still sent, and not for new receivers."]
    archived: Annotated[bool, "Events of an archived type are refused."]
    created_at: datetime


def show_event_type(event_type: EventType) -> EventTypeOut:
    return {
        "name": event_type.name,
        "description": event_type.description,
        "versions": [
            {"api_version": version.api_version, "schema": version.schema, "example": version.example}
            for version in sorted(event_type.versions.all(), key=lambda version: version.api_version)
        ],
        "declared": event_type.declared_at is not None,
        "deprecated": event_type.deprecated_at is not None,
        "archived": event_type.archived_at is not None,
        "created_at": event_type.created_at,
    }


class VersionIn(serializers.Serializer[Any]):
    """One version of an event type."""

    api_version = Text(max_length=64, keywords={"pattern": f"^{_API_VERSION.pattern}$"})
    schema = serializers.JSONField(
        required=False, allow_null=True, help_text="A JSON Schema that the data of events is checked against, or null."
    )
    example = serializers.JSONField(
        required=False, allow_null=True, help_text="An example of the data. It must match the schema."
    )

    def validate_api_version(self, api_version: str) -> str:
        if _API_VERSION.fullmatch(api_version) is None:
            raise serializers.ValidationError("Letters, digits and . _ - only.")
        return api_version

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        # A PATCH of the event type asks for no field by itself, yet a version without its name is none.
        if "api_version" not in attrs:
            raise serializers.ValidationError({"api_version": "This field is required."})
        return attrs

    def validate_schema(self, schema: Any) -> Any:
        if schema is not None and not isinstance(schema, dict):
            raise serializers.ValidationError("A JSON Schema is an object.")
        return schema


class NewEventTypeIn(serializers.Serializer[Any]):
    """A new entry of the catalogue."""

    name = Text(max_length=255, keywords={"pattern": f"^{NAME.pattern}$"}, help_text=_NAME_RULE)
    description = Text(required=False, allow_blank=True, max_length=10_000, help_text="For the readers of your docs.")
    versions = VersionIn(many=True, required=False, help_text="At most 50, each `api_version` once.")
    why = Why()

    def validate_name(self, name: str) -> str:
        if not is_name(name):
            raise serializers.ValidationError(_NAME_RULE)
        return name

    def validate_versions(self, versions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = [version["api_version"] for version in versions]
        if len(names) > 50 or len(set(names)) != len(names):
            raise serializers.ValidationError("At most 50 versions, each api_version once.")
        return versions


class EventTypeIn(NewEventTypeIn):
    """What changes. Versions replace those of the same `api_version` and leave others alone; the name stays."""

    deprecated = Flag(required=False, help_text="True: it is still sent, and not for new receivers.")
    archived = Flag(required=False)


class EventTypeList(ApiView):
    roles = {"GET": EVERYONE, "POST": PRODUCERS}
    scopes = {"GET": EVENT_TYPES_READ, "POST": EVENT_TYPES_WRITE}
    parameters = {"GET": (*PAGE, _ARCHIVED, _UNDECLARED)}
    fields = {"POST": NewEventTypeIn}
    operations = {
        "GET": Operation("list_event_types", Page[EventTypeOut]),
        "POST": Operation("create_event_type", EventTypeOut, status=201, problems=("event_type_exists",)),
    }

    def get(self, request: Request) -> Response:
        """List the catalogue, by name. Consumers see what was declared."""
        limit = limit_of(request)
        types = EventType.objects.prefetch_related("versions").order_by("name")
        if not flag_of(request, "undeclared") or caller(request).consumer_id is not None:
            types = types.filter(declared_at__isnull=False)
        if not flag_of(request, "archived"):
            types = types.filter(archived_at__isnull=True)
        cursor = read_cursor(request)
        if cursor is not None:
            if len(cursor) != 1 or not isinstance(cursor[0], str) or "\0" in cursor[0]:
                raise invalid_cursor()
            types = types.filter(name__gt=cursor[0])
        rows = list(types[: limit + 1])
        following = next_url(request, [rows[limit - 1].name]) if len(rows) > limit else None
        return Response({"results": [show_event_type(row) for row in rows[:limit]], "next": following})

    def post(self, request: Request) -> HttpResponse:
        """Add an event type to the catalogue."""
        fields, why = fields_and_why(NewEventTypeIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                return 201, show_event_type(actions.create(**fields, actor=actor(request), why=why))
            except event_types.NameTaken:
                raise Problem(409, "event_type_exists", "The catalogue has an event type of this name.") from None
            except event_types.SchemaInvalid as error:
                raise setting_error(error.pointer, str(error)) from None

        return self.once(request, work)


class EventTypeDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": PRODUCERS, "DELETE": PRODUCERS}
    scopes = {"GET": EVENT_TYPES_READ, "PATCH": EVENT_TYPES_WRITE, "DELETE": EVENT_TYPES_WRITE}
    fields = {"PATCH": EventTypeIn}
    operations = {
        "GET": Operation("get_event_type", EventTypeOut),
        "PATCH": Operation("update_event_type", EventTypeOut),
        "DELETE": Operation("delete_event_type", status=204),
    }

    def get(self, request: Request, name: str) -> Response:
        """Read an event type."""
        found = _found(name)
        if found.declared_at is None and caller(request).consumer_id is not None:
            raise not_found("event type")
        return Response(show_event_type(found))

    def patch(self, request: Request, name: str) -> Response:
        """Change an event type. Fields that are not sent stay as they are."""
        found = _found(name)
        fields, why = fields_and_why(EventTypeIn(data=body_object(request), partial=True))
        if fields.get("name", found.name) != found.name:
            raise setting_error("/name", "An event type keeps its name. Create another one, and archive this one.")
        try:
            return Response(show_event_type(actions.update(found, fields, actor=actor(request), why=why)))
        except event_types.SchemaInvalid as error:
            raise setting_error(error.pointer, str(error)) from None

    def delete(self, request: Request, name: str) -> Response:
        """Delete an event type. One in use is archived instead; reading it says so."""
        actions.delete(_found(name), actor=actor(request), why=why_of_delete(request))
        return Response(status=204)


def _found(name: str) -> EventType:
    found = event_types.find(name)
    if found is None:
        raise not_found("event type")
    return found
