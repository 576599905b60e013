"""Limits: what this deployment allows, how much of it a consumer uses, and an endpoint's own limits with their form."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries.actions import endpoints as actions
from deliveries.api.endpoints import EndpointIn
from deliveries.console.page import actor_of, back_to, first_error, missing, render, why_of
from deliveries.replaying.models import Replay, ReplayStatus
from subscriptions import consumers, endpoints, ids
from subscriptions.access import key_tree
from subscriptions.models import AuditEntry, Consumer, Endpoint

_OWN_SHOWN = 50
# (what, setting, unit); an operator reads the value here and changes it where the platform is started.
DEPLOYMENT: dict[str, list[tuple[str, str, str]]] = {
    "Each consumer": [
        ("Endpoints", "MAX_ENDPOINTS_PER_CONSUMER", ""),
        ("New endpoints", "MAX_NEW_ENDPOINTS_PER_DAY", "a day"),
        ("Keys in use", "MAX_KEYS_PER_CONSUMER", ""),
        ("Changes by its keys and in its portal", "MAX_CHANGES_PER_DAY", "a day"),
        ("Replays at the same time", "MAX_RUNNING_REPLAYS_PER_CONSUMER", ""),
        ("Readers of its feed that wait", "FEED_MAX_WAITING_PER_CONSUMER", "per process"),
    ],
    "Each owner of keys": [
        ("Requests", "API_RATE_PER_SECOND", "a second"),
        ("In a burst", "API_RATE_BURST", "requests"),
    ],
    "Each request": [
        ("Body", "MAX_BODY_BYTES", "bytes"),
        ("Body of a batch", "MAX_BATCH_BODY_BYTES", "bytes"),
        ("Events of a batch", "MAX_BATCH_EVENTS", ""),
        ("Form of a page", "MAX_PAGE_BODY_BYTES", "bytes"),
    ],
    "Each endpoint, unless it says otherwise": [
        ("Requests at the same time", "DELIVERY_MAX_IN_FLIGHT", ""),
        ("One attempt takes at most", "DELIVERY_TIMEOUT_SECONDS", "seconds"),
        ("Waits before each attempt", "DELIVERY_RETRY_SCHEDULE", "seconds"),
    ],
}
_NUMBERS = ("max_in_flight", "rate_limit_per_second", "timeout_seconds")


def index(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("consumer", "").strip()
    consumer = consumers.find(name) if name else None
    return render(
        request,
        "limits.html",
        title="Limits",
        deployment={
            title: [(what, setting, _value(setting), unit) for what, setting, unit in rows]
            for title, rows in DEPLOYMENT.items()
        },
        name=name,
        consumer=consumer,
        used=_used(consumer) if consumer else [],
        own=_with_own_limits(consumer)[:_OWN_SHOWN],
        shown=_OWN_SHOWN,
        problem=f"There is no consumer {name}." if name and consumer is None else "",
    )


def show(request: HttpRequest, public_id: str) -> HttpResponse:
    endpoint = endpoints.find(public_id)
    if endpoint is None:
        return missing(request, "endpoint")
    typed = {name: _text(getattr(endpoint, name)) for name in _NUMBERS}
    typed["retry_schedule"] = ", ".join(map(str, endpoint.retry_schedule or []))
    return _form(request, endpoint, typed)


def change(request: HttpRequest, public_id: str) -> HttpResponse:
    endpoint = endpoints.find(public_id)
    if endpoint is None:
        return missing(request, "endpoint")
    typed = {name: request.POST.get(name, "").strip() for name in (*_NUMBERS, "retry_schedule", "why")}
    shape = EndpointIn(data=_given(typed), partial=True)
    if not shape.is_valid():
        return _form(request, endpoint, typed, problem=first_error(shape.errors))
    actions.update(endpoint, dict(shape.validated_data), actor=actor_of(request), why=why_of(request))
    return back_to(request, reverse("admin:endpoint", args=[public_id]), done="Its limits hold from the next request.")


def _form(request: HttpRequest, endpoint: Endpoint, typed: Mapping[str, str], *, problem: str = "") -> HttpResponse:
    return render(
        request,
        "endpoint_limits.html",
        title="Limits of an endpoint",
        status=400 if problem else 200,
        endpoint=endpoint,
        typed=typed,
        problem=problem,
        default_schedule=_value("DELIVERY_RETRY_SCHEDULE"),
    )


def _given(typed: Mapping[str, str]) -> dict[str, Any]:
    """Empty: no rate, the deployment's schedule. Whatever is no whole number is left for the shape to refuse."""
    given: dict[str, Any] = {name: _number(typed[name]) for name in _NUMBERS}
    waits = typed["retry_schedule"].replace(",", " ").split()
    return {**given, "retry_schedule": [_number(wait) for wait in waits] or None}


def _number(text: str) -> int | str | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    return int(text) if is_number else text or None


def _used(consumer: Consumer) -> list[tuple[str, int, int]]:
    """Of each of a consumer's limits, how much it uses now. Each is counted no further than the limit itself."""
    a_day_ago = ids.first_at(timezone.now() - timedelta(days=1))
    mine = Endpoint.objects.filter(consumer=consumer)
    changes = AuditEntry.objects.filter(consumer_id=consumer.id, id__gte=a_day_ago)
    running = Replay.objects.filter(consumer=consumer, status=ReplayStatus.RUNNING)
    rows = [
        ("Endpoints", mine.filter(deleted_at__isnull=True), settings.MAX_ENDPOINTS_PER_CONSUMER),
        ("New endpoints within a day", mine.filter(id__gte=a_day_ago), settings.MAX_NEW_ENDPOINTS_PER_DAY),
        ("Keys in use", key_tree.living().filter(consumer=consumer), settings.MAX_KEYS_PER_CONSUMER),
        ("Changes within a day", changes, settings.MAX_CHANGES_PER_DAY),
        ("Running replays", running, settings.MAX_RUNNING_REPLAYS_PER_CONSUMER),
    ]
    return [(what, len(found.values_list("id")[:limit]), limit) for what, found, limit in rows]


def _with_own_limits(consumer: Consumer | None) -> Any:
    """Endpoints whose limits are not the deployment's, the newest first."""
    own = (
        ~Q(max_in_flight=settings.DELIVERY_MAX_IN_FLIGHT)
        | Q(rate_limit_per_second__isnull=False)
        | ~Q(timeout_seconds=settings.DELIVERY_TIMEOUT_SECONDS)
        | Q(retry_schedule__isnull=False)
    )
    living = Endpoint.objects.select_related("consumer").filter(own, deleted_at__isnull=True).order_by("-id")
    return living.filter(consumer=consumer) if consumer else living


def _value(setting: str) -> str:
    value = getattr(settings, setting)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else f"{value:,}"


def _text(value: object) -> str:
    return "" if value is None else str(value)
