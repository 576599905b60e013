"""An endpoint as a form: what people type, turned into what the API's own shape checks. No rule lives here."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from deliveries.api.endpoints import EndpointIn
from subscriptions.models import Endpoint, EventType

# A page is no catalogue.
_KNOWN_TYPES = 60
_NUMBERS = ("max_in_flight", "rate_limit_per_second", "timeout_seconds")


@dataclass(frozen=True)
class Form:
    # As typed, to be shown again.
    values: Mapping[str, str]
    # As understood, once there are no errors.
    fields: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def refused(self, why: str) -> "Form":
        return replace(self, errors={"": why})


def blank() -> Form:
    return Form(
        {
            "event_types": "*",
            "signature_scheme": settings.DELIVERY_SIGNATURE_SCHEME,
            "max_in_flight": str(settings.DELIVERY_MAX_IN_FLIGHT),
            "timeout_seconds": str(settings.DELIVERY_TIMEOUT_SECONDS),
        }
    )


def of(endpoint: Endpoint) -> Form:
    return Form(
        {
            "url": endpoint.url,
            "event_types": "\n".join(endpoint.event_types),
            "description": endpoint.description,
            "signature_scheme": endpoint.signature_scheme,
            **{name: _shown(getattr(endpoint, name)) for name in _NUMBERS},
        }
    )


def read(posted: Mapping[str, str]) -> Form:
    values = {name: str(posted.get(name, "")).strip() for name in (*blank().values, "url", "description", *_NUMBERS)}
    shape = EndpointIn(
        data={
            "url": values["url"],
            "event_types": values["event_types"].replace(",", " ").split(),
            "description": values["description"],
            "signature_scheme": values["signature_scheme"],
            **{name: number(values[name]) for name in _NUMBERS},
        }
    )
    if shape.is_valid():
        return Form(values, fields=shape.validated_data)
    return Form(values, errors={name: _first(detail) for name, detail in shape.errors.items()})


def number(text: str) -> Any:
    """A number where it is one, nothing where nothing was typed; whatever else, the shape will refuse."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text


def known_types() -> list[str]:
    living = EventType.objects.filter(archived_at__isnull=True)
    return list(living.order_by("name").values_list("name", flat=True)[:_KNOWN_TYPES])


def _shown(value: int | None) -> str:
    return "" if value is None else str(value)


def _first(detail: Any) -> str:
    while isinstance(detail, dict | list):
        detail = next(iter(detail.values() if isinstance(detail, dict) else detail), "")
    return str(detail)
