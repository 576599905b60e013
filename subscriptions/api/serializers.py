"""Shapes of what comes in and goes out. Rules that need the database live in the functions below the views."""

import re
from typing import Any

from rest_framework import serializers

from subscriptions import ids
from subscriptions.access.scopes import held
from subscriptions.audit import LONGEST_WHY
from subscriptions.consumers import UID_RULE, is_uid
from subscriptions.event_types import is_name, is_pattern
from subscriptions.guards import targets
from subscriptions.guards.headers import RefusedHeader, check_headers
from subscriptions.guards.urls import RefusedTarget
from subscriptions.models import ApiKey, Consumer, Endpoint, EventType, PayloadMode, SignatureScheme

_API_VERSION = re.compile(r"[A-Za-z0-9._\-]+")
_METADATA_ENTRIES = 50
_LONGEST_WAIT = 7 * 86_400
_LONGEST_SCHEDULE = 20


class _Typed:
    """Takes a JSON value of its own type and no other. Django REST framework would read 5 as "5" and "yes" as true."""

    json_type: type

    def to_internal_value(self, data: Any) -> Any:
        if type(data) is not self.json_type:
            self.fail("invalid")  # type: ignore[attr-defined]
        return super().to_internal_value(data)  # type: ignore[misc]


class Text(_Typed, serializers.CharField):
    json_type = str

    def __init__(self, **options: Any) -> None:
        # Kept as it came: a name that is trimmed here would not be found by whoever sent it.
        super().__init__(trim_whitespace=False, **options)


class Whole(_Typed, serializers.IntegerField):
    json_type = int


class Flag(_Typed, serializers.BooleanField):
    json_type = bool


class Why(Text):
    """The reason for a change, for the audit log."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, "allow_blank": True, "max_length": LONGEST_WHY, **options})


class WhyIn(serializers.Serializer[Any]):
    """Of a change that takes no other field."""

    why = Why()


class Metadata(serializers.DictField):
    """A flat object of strings for the caller's own use."""

    child = Text(max_length=500, allow_blank=True)

    def to_internal_value(self, data: Any) -> dict[Any, Any]:
        if isinstance(data, dict) and len(data) > _METADATA_ENTRIES:
            raise serializers.ValidationError(f"At most {_METADATA_ENTRIES} entries.")
        if isinstance(data, dict) and any(len(str(name)) > 64 or "\0" in str(name) for name in data):
            raise serializers.ValidationError("A name is at most 64 characters.")
        return super().to_internal_value(data)


class ConsumerIn(serializers.Serializer[Any]):
    uid = Text(required=False, allow_null=True, max_length=255)
    name = Text(required=False, allow_blank=True, max_length=255)
    contact_email = serializers.EmailField(required=False, allow_blank=True, max_length=254)
    metadata = Metadata(required=False)
    why = Why()

    def validate_uid(self, uid: str | None) -> str | None:
        if uid is not None and not is_uid(uid):
            raise serializers.ValidationError(UID_RULE)
        return uid


def show_consumer(consumer: Consumer) -> dict[str, Any]:
    return {
        "id": consumer.public_id,
        "uid": consumer.uid,
        "name": consumer.name,
        "contact_email": consumer.contact_email,
        "metadata": consumer.metadata,
        "created_at": consumer.created_at,
    }


class KeyIn(serializers.Serializer[Any]):
    name = Text(required=False, allow_blank=True, max_length=255)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    scopes = serializers.ListField(
        child=Text(max_length=64), required=False, allow_null=True, allow_empty=False, max_length=50
    )
    why = Why()


class KeyRotateIn(serializers.Serializer[Any]):
    overlap_seconds = Whole(required=False, default=86_400, min_value=0, max_value=604_800)
    why = Why()


def show_key(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.public_id,
        "role": key.role,
        "name": key.name,
        "hint": key.hint,
        "scopes": sorted(held(key.role, key.scopes)),
        "issued_by": ids.show("key", key.issued_by) if key.issued_by else None,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


class VersionIn(serializers.Serializer[Any]):
    api_version = Text(max_length=64)
    schema = serializers.JSONField(required=False, allow_null=True)
    example = serializers.JSONField(required=False, allow_null=True)

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
    name = Text(max_length=255)
    description = Text(required=False, allow_blank=True, max_length=10_000)
    versions = VersionIn(many=True, required=False)
    why = Why()

    def validate_name(self, name: str) -> str:
        if not is_name(name):
            raise serializers.ValidationError("Dot-separated words of letters, digits, _ and -, like `invoice.paid`.")
        return name

    def validate_versions(self, versions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = [version["api_version"] for version in versions]
        if len(names) > 50 or len(set(names)) != len(names):
            raise serializers.ValidationError("At most 50 versions, each api_version once.")
        return versions


class EventTypeIn(NewEventTypeIn):
    archived = Flag(required=False)


def show_event_type(event_type: EventType) -> dict[str, Any]:
    return {
        "name": event_type.name,
        "description": event_type.description,
        "versions": [
            {"api_version": version.api_version, "schema": version.schema, "example": version.example}
            for version in sorted(event_type.versions.all(), key=lambda version: version.api_version)
        ],
        "archived": event_type.archived_at is not None,
        "created_at": event_type.created_at,
    }


class EndpointIn(serializers.Serializer[Any]):
    url = Text(max_length=4096)
    event_types = serializers.ListField(child=Text(), required=False, allow_empty=False, max_length=100)
    description = Text(required=False, allow_blank=True, max_length=2000)
    metadata = Metadata(required=False)
    headers = serializers.DictField(child=Text(), required=False)
    signature_scheme = serializers.ChoiceField(SignatureScheme.choices, required=False)
    payload_mode = serializers.ChoiceField(PayloadMode.choices, required=False)
    ordered = Flag(required=False)
    max_in_flight = Whole(required=False, min_value=1, max_value=1000)
    rate_limit_per_second = Whole(required=False, allow_null=True, min_value=1, max_value=10_000)
    timeout_seconds = Whole(required=False, min_value=1, max_value=30)
    retry_schedule = serializers.ListField(
        child=Whole(min_value=0, max_value=_LONGEST_WAIT),
        required=False,
        allow_null=True,
        allow_empty=False,
        max_length=_LONGEST_SCHEDULE,
    )
    why = Why()

    def validate_url(self, url: str) -> str:
        try:
            return targets.check_url(url)
        except RefusedTarget as refused:
            raise serializers.ValidationError(str(refused), code=refused.code) from None

    def validate_event_types(self, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if not is_pattern(pattern):
                raise serializers.ValidationError(
                    f"{pattern!r} is no event type: write `invoice.paid`, `invoice.*` or `*`."
                )
        return list(dict.fromkeys(patterns))

    def validate_headers(self, headers: dict[str, str]) -> dict[str, str]:
        try:
            check_headers(headers)
        except RefusedHeader as refused:
            raise serializers.ValidationError(str(refused), code=refused.code) from None
        return headers


class RotateIn(serializers.Serializer[Any]):
    overlap_seconds = Whole(required=False, default=86_400, min_value=0, max_value=604_800)
    force = Flag(required=False, default=False)
    why = Why()


def show_endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint.public_id,
        "consumer": endpoint.consumer.uid or endpoint.consumer.public_id,
        "url": endpoint.url,
        "event_types": endpoint.event_types,
        "description": endpoint.description,
        "metadata": endpoint.metadata,
        "headers": endpoint.header_names,
        "signature_scheme": endpoint.signature_scheme,
        "payload_mode": endpoint.payload_mode,
        "ordered": endpoint.ordered,
        "max_in_flight": endpoint.max_in_flight,
        "rate_limit_per_second": endpoint.rate_limit_per_second,
        "timeout_seconds": endpoint.timeout_seconds,
        "retry_schedule": endpoint.retry_schedule,
        "status": endpoint.status,
        "disabled_reason": endpoint.disabled_reason or None,
        "created_at": endpoint.created_at,
    }
