"""The shape of an event as producers send it. By hand: a thousand of these come in one request."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from deliveries.ingest import PRODUCER_ID, NewEvent
from subscriptions.event_types import is_name

_API_VERSION = re.compile(r"[A-Za-z0-9._\-]{1,64}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

Errors = list[dict[str, str]]


def read_event(item: Any, *, traceparent: str | None) -> NewEvent | Errors:
    """The event, or everything that is wrong with it."""
    if not isinstance(item, dict):
        return [{"pointer": "", "detail": "An event is a JSON object."}]
    errors: Errors = []

    def field(name: str, fits: Callable[[Any], bool], expected: str, *, required: bool = False) -> Any:
        value = item.get(name)
        if value is None and not required and name not in item:
            return None
        if not fits(value):
            errors.append({"pointer": f"/{name}", "detail": expected if name in item else f"Required. {expected}"})
        return value

    new = NewEvent(
        consumer=field("consumer", _is_text, "The consumer's uid or id.", required=True),
        type=field("type", _is_type, "An event type such as `invoice.paid`.", required=True),
        data=field("data", lambda value: isinstance(value, dict), "A JSON object.", required=True),
        producer_id=field(
            "id",
            _is_own_id,
            "1 to 255 letters, digits and _ : @ ~ = + - (no dot: signatures use it).",
        ),
        api_version=field("api_version", _matches(_API_VERSION), "1 to 64 letters, digits and . _ -"),
        occurred_at=_time(field("occurred_at", _is_time, "A time with its zone, such as 2026-01-31T12:00:00Z.")),
        ordering_key=field("ordering_key", _is_text, "1 to 255 characters."),
        traceparent=traceparent,
    )
    return errors or new


def read_traceparent(header: str | None) -> str | None:
    """Kept when it is one; a broken one is not worth refusing an event for."""
    return header if header and _TRACEPARENT.fullmatch(header) else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 255


def _is_type(value: Any) -> bool:
    return isinstance(value, str) and is_name(value)


def _is_own_id(value: Any) -> bool:
    # `events/batch/` is a place of its own.
    return _matches(PRODUCER_ID)(value) and value != "batch"


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    return _time(value) is not None


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        at = parse_datetime(value)
        # Beyond these years a zone's offset could leave what a datetime can hold.
        if at is None or at.tzinfo is None or not 1 < at.year < 9999:
            return None
        # In UTC: PostgreSQL refuses offsets of 16 hours and more.
        return at.astimezone(UTC)
    except ValueError:
        return None
