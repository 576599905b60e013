"""The URL map as tests walk it: every route under /api/v1/, its methods, and a good body for each of them.

A new route is walked from the moment it is in `webhooks_platform.urls`; tests fail until it is described here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from django.urls import URLPattern, URLResolver

from subscriptions.api.known_names import Names
from subscriptions.api.views import ApiView
from subscriptions.models import Role
from webhooks_platform.urls import urlpatterns

# Outside the API: pages and probes, with rules and tests of their own.
ELSEWHERE = ("admin/", "portal/", "api/schema", "api/docs", "metrics", "healthz", "readyz")
# They lead to the documents.
ENTRANCES = ("", "api", "api/")

# What a good request sends, by the route's name and method. The consumer is `acme`, as everywhere in the tests.
GOOD_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("consumers", "POST"): {"uid": "newcomer", "name": "New", "contact_email": "a@example.com", "metadata": {"a": "b"}},
    ("consumer", "PATCH"): {"uid": "renamed", "name": "New", "contact_email": "a@example.com", "metadata": {"a": "b"}},
    ("keys", "POST"): {"name": "laptop", "expires_at": "2999-01-01T00:00:00Z"},
    ("key-rotate", "POST"): {"overlap_seconds": 60},
    ("portal-link", "POST"): {},
    ("endpoints", "POST"): {"url": "http://127.0.0.1:9/hook", "event_types": ["invoice.*"]},
    ("endpoint", "PATCH"): {"url": "http://127.0.0.1:9/moved", "description": "Moved"},
    ("rotate-secret", "POST"): {"overlap_seconds": 60},
    ("pause", "POST"): {},
    ("resume", "POST"): {},
    ("test", "POST"): {},
    ("check-up", "POST"): {},
    ("event-types", "POST"): {
        "name": "order.made",
        "description": "An order was made.",
        "versions": [{"api_version": "1", "schema": {"type": "object"}, "example": {"total": 1}}],
    },
    ("signature-profiles", "POST"): {"name": "new-way", "signed": "{timestamp}.{body}", "hash": "sha512"},
    ("signature-profile", "PATCH"): {"description": "As our old sender signed."},
    ("event-type", "PATCH"): {"description": "An invoice was paid.", "archived": False},
    ("events", "POST"): {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 1}},
    ("event-batch", "POST"): {"events": [{"consumer": "acme", "type": "invoice.paid", "data": {"amount": 1}}]},
    ("delivery-replay", "POST"): {},
    ("replays", "POST"): {"state": "dead", "all": True, "rate_per_second": 5},
    ("replay-cancel", "POST"): {},
}
# POSTs that send requests at once and change nothing: doing them twice is what somebody asked for.
SEND_AT_ONCE = {"test", "check-up"}


@dataclass(frozen=True)
class Route:
    name: str
    # Below /api/v1/, with a name in braces for each id: `consumers/{consumer}/keys`.
    template: str
    roles: Mapping[str, tuple[Role, ...]]
    scopes: Mapping[str, str] = field(default_factory=dict)
    # None for a route made up by a test.
    view: type[ApiView] | None = None

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.template)

    def path(self, things: Mapping[str, str]) -> str:
        return f"{self.template.format_map(things)}/" if self.template else ""

    def query_parameters(self, method: str) -> tuple[str, ...]:
        return self.view.known_parameters(method) if self.view else ()

    def fields(self, method: str) -> Names:
        return self.view.known_fields(method) if self.view else {}

    def good_body(self, method: str) -> dict[str, Any] | None:
        if method in ("GET", "DELETE"):
            return None
        assert (self.name, method) in GOOD_BODIES, f"Say in GOOD_BODIES what a good {method} to {self.template} sends."
        return GOOD_BODIES[self.name, method]


def api_routes() -> list[Route]:
    routes = []
    for pattern in cast(list[URLPattern | URLResolver], urlpatterns):
        text = str(pattern.pattern).removeprefix("^")
        if text in ENTRANCES or text.startswith(ELSEWHERE):
            continue
        assert isinstance(pattern, URLPattern), f"{text}: neither an API route nor in ELSEWHERE"
        template = re.fullmatch(r"api/v1/(.*?)/?\?\$", re.sub(r"\(\?P<(\w+)>\[\^/\]\+\)", r"{\1}", text))
        assert template, f"{text}: neither an API route nor in ELSEWHERE"
        view: Any = pattern.callback
        assert issubclass(view.cls, ApiView), f"{text}: its view is no ApiView, so nothing refuses unknown names"
        routes.append(
            Route(
                name=str(pattern.name),
                template=template[1],
                roles=view.cls.roles,
                scopes=view.cls.scopes,
                view=view.cls,
            )
        )
    return routes


def calls(*methods: str) -> list[tuple[Route, str]]:
    """Every route with each of the methods it serves."""
    return [(route, method) for route in api_routes() for method in route.roles if method in methods]


def call_name(value: object) -> str:
    """How pytest names a parameter taken from `calls`."""
    return value.template if isinstance(value, Route) else str(value)
