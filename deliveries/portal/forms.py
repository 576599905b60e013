"""An endpoint as a form: what people type, turned into what the API's own shape checks.

Where the catalogue publishes types, a form takes those, families of those, and what the endpoint asks for already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext as _

from deliveries.api.endpoints import EndpointIn
from deliveries.portal.catalogue import Family
from subscriptions.event_types import unknown_pattern
from subscriptions.models import Endpoint
from subscriptions.secrets.endpoint_secrets import unseal
from subscriptions.secrets.vault import vault

_NUMBERS = ("max_in_flight", "rate_limit_per_second", "timeout_seconds")
_TEXTS = ("url", "description", "signature_scheme", "payload_mode", *_NUMBERS, "retry_schedule", "headers")
# What stands in the form for a header's value, which is a secret: left as it is, the value stays.
KEPT = "••••••••"


@dataclass(frozen=True)
class EndpointForm:
    # As typed, to be shown again.
    values: Mapping[str, str]
    # Patterns of event types that are chosen.
    event_types: Sequence[str] = ()
    ordered: bool = False
    # As understood, once there are no errors.
    fields: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def refused(self, why: str) -> "EndpointForm":
        return replace(self, errors={"": why})

    @property
    def typed_patterns(self) -> str:
        """One per line, where there is no picker."""
        return "\n".join(self.event_types)

    @property
    def has_advanced_errors(self) -> bool:
        return any(name not in ("", "url", "event_types") for name in self.errors)

    def others(self, families: Sequence[Family]) -> str:
        """Chosen patterns that the picker does not offer."""
        offered = {"*", *(family.pattern for family in families)}
        offered |= {each.name for family in families for each in family.types}
        return ", ".join(each for each in self.event_types if each not in offered)


def blank(event_types: Sequence[str] = ("*",)) -> EndpointForm:
    return EndpointForm(
        {
            "signature_scheme": settings.DELIVERY_SIGNATURE_SCHEME,
            "payload_mode": "full",
            "max_in_flight": str(settings.DELIVERY_MAX_IN_FLIGHT),
            "timeout_seconds": str(settings.DELIVERY_TIMEOUT_SECONDS),
        },
        event_types=event_types,
    )


def of(endpoint: Endpoint) -> EndpointForm:
    return EndpointForm(
        {
            "url": endpoint.url,
            "description": endpoint.description,
            "signature_scheme": endpoint.signature_scheme,
            "payload_mode": endpoint.payload_mode,
            "retry_schedule": ", ".join(map(str, endpoint.retry_schedule or [])),
            "headers": "\n".join(f"{name}: {KEPT}" for name in endpoint.header_names),
            **{name: _shown(getattr(endpoint, name)) for name in _NUMBERS},
        },
        event_types=endpoint.event_types,
        ordered=endpoint.ordered,
    )


def read(posted: QueryDict, *, endpoint: Endpoint | None = None) -> EndpointForm:
    """`advanced` says that the form held the fields behind "Advanced": without it they stay as they are."""
    values = {name: posted.get(name, "").strip() for name in _TEXTS}
    patterns = [each for given in posted.getlist("event_types") for each in given.replace(",", " ").split()]
    has_advanced, ordered = posted.get("advanced") == "yes", posted.get("ordered") == "yes"
    data: dict[str, Any] = {
        "url": values["url"],
        "event_types": patterns,
        "description": values["description"],
        "signature_scheme": values["signature_scheme"],
        **{name: number(values[name]) for name in _NUMBERS},
    }
    if has_advanced:
        data |= {"payload_mode": values["payload_mode"], "ordered": ordered}
        data["retry_schedule"] = [number(each) for each in values["retry_schedule"].replace(",", " ").split()] or None
        data["headers"] = _headers(values["headers"], endpoint)
    shape = EndpointIn(data=data)
    form = EndpointForm(values, event_types=patterns, ordered=ordered)
    if not shape.is_valid():
        return replace(form, errors={name: _first(detail) for name, detail in shape.errors.items()})
    if nobodys := unknown_pattern(patterns, kept=endpoint.event_types if endpoint else ()):
        name, near = nobodys
        unknown = _("There is no event type %(name)s.") % {"name": name}
        advice = _("Did you mean %(name)s?") % {"name": near} if near else _("Pick from those below.")
        return replace(form, errors={"event_types": f"{unknown} {advice}"})
    fields = dict(shape.validated_data)
    if endpoint is not None and "headers" in fields and fields["headers"] == _old_headers(endpoint):
        del fields["headers"]
    return replace(form, fields=fields)


def number(text: str) -> Any:
    """A number where it is one, nothing where nothing was typed; whatever else, the shape will refuse."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text


def _headers(text: str, endpoint: Endpoint | None) -> dict[str, str]:
    """`Name: value`, one per line. Where the value was left as it is shown, it stays what it was."""
    old = _old_headers(endpoint) if endpoint else {}
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, value = (part.strip() for part in line.partition(":")[::2])
        found[name] = old.get(name, "") if value == KEPT else value
    return found


def _old_headers(endpoint: Endpoint) -> dict[str, str]:
    if not endpoint.headers_encrypted:
        return {}
    sealed = bytes(endpoint.headers_encrypted)
    opened: dict[str, str] = orjson.loads(unseal(vault(), sealed, endpoint_id=endpoint.id, column="headers_encrypted"))
    return opened


def _shown(value: int | None) -> str:
    return "" if value is None else str(value)


def _first(detail: Any) -> str:
    while isinstance(detail, dict | list):
        detail = next(iter(detail.values() if isinstance(detail, dict) else detail), "")
    return str(detail)
