"""One endpoint, with its health, its limits, its failures, and what can be done about them."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries.actions import NothingDone, manual_sends
from deliveries.actions import endpoints as actions
from deliveries.api.show import show_trial
from deliveries.browse.backlog import Backlog, Owed, read_owed
from deliveries.browse.causes import causes
from deliveries.browse.filter import Filter
from deliveries.console import secrets, waiting
from deliveries.console.page import actor_of, back_to, missing, render, visitor, why_of
from deliveries.endpoint_tests import check_up, test_event
from deliveries.health.models import Hold, NoticeKind
from deliveries.models import Delivery
from deliveries.pages import chart, story
from deliveries.statistics import figures
from subscriptions import endpoints, ids
from subscriptions.models import AuditEntry, Endpoint
from subscriptions.secrets import handover

COUNTED_UP_TO = 10_000

COUNT_ERRORS = """
    SELECT attempt.error_kind, count(*)
    FROM (
        SELECT id, attempt_count FROM deliveries_delivery
        WHERE endpoint_id = %(endpoint_id)s AND attempt_count > 0 ORDER BY event_id DESC LIMIT 500
    ) newest
    JOIN deliveries_attempt attempt ON attempt.delivery_id = newest.id AND attempt.number = newest.attempt_count
    WHERE attempt.error_kind IS NOT NULL
    GROUP BY attempt.error_kind ORDER BY count(*) DESC
"""
"""How the last attempts of an endpoint's newest deliveries failed."""

ACTIONS: dict[str, tuple[Callable[..., None], str, bool]] = {
    "pause": (actions.pause, "Paused. What comes for it waits.", False),
    "resume": (actions.resume, "Active again. What waited goes out.", False),
    "disable": (actions.disable, "Disabled. What it is owed stays parked.", True),
    "probe": (actions.probe_now, "A probe may go out now; its answer shows here in a moment.", False),
}


def show(request: HttpRequest, public_id: str) -> HttpResponse:
    endpoint = _find(public_id)
    if endpoint is None:
        return missing(request, "endpoint")
    span = figures.RANGES.get(request.GET.get("range", ""), figures.RANGES["24h"])
    entries = figures.series(span, endpoint.id)
    total = figures.total(entries)
    owed = read_owed(endpoint.id, up_to=COUNTED_UP_TO)
    is_slow = (total.duration(0.5) or 0) >= waiting.SLOW_FROM_MS
    dead = causes(Filter(endpoint_id=endpoint.id))
    held = Hold.objects.filter(Q(consumer__isnull=True) | Q(consumer_id=endpoint.consumer_id)).first()
    return render(
        request,
        "endpoint.html",
        title="Endpoint",
        endpoint=endpoint,
        lane=endpoint.lane,
        now=timezone.now(),
        span=span,
        ranges=figures.RANGES.values(),
        total=total,
        p50=total.duration(0.5),
        p95=total.duration(0.95),
        p99=total.duration(0.99),
        traffic=chart.traffic(entries, span),
        times=chart.times(entries, span, of="duration"),
        owed=owed,
        late=_late(owed, slow=[endpoint.id] if is_slow else []),
        cap=COUNTED_UP_TO,
        dead=dead,
        held=held,
        schedule=endpoint.retry_schedule or settings.DELIVERY_RETRY_SCHEDULE,
        errors=_errors(endpoint),
        notices=_notices(endpoint),
        newest=Delivery.objects.filter(endpoint=endpoint).select_related("event").order_by("-event_id")[:10],
        entries=AuditEntry.objects.filter(target=endpoint.public_id).order_by("-id")[:10],
        until=endpoints.overlap_until(endpoint, now=timezone.now()),
        **_tested(request, public_id),
    )


def _late(owed: Owed | None, *, slow: Sequence[UUID]) -> waiting.WaitAdvice | None:
    """Why its deliveries have been due for long, where they have."""
    is_late = owed is not None and waiting.late(Backlog([owed], is_more=False), now=timezone.now())
    return waiting.advise(owed, slow=slow) if owed is not None and is_late else None


def _tested(request: HttpRequest, public_id: str) -> dict[str, Any]:
    """The result of a test that was sent from this page moments ago."""
    token = request.GET.get("tested", "")
    shown = handover.look(token, visitor=visitor(request), about=public_id) if token else None
    if shown is None:
        return {}
    answer = shown["response_body"]
    return {"tested": shown, "answer": None if answer is None else story.body_of(answer.encode())}


def act(request: HttpRequest, public_id: str, action: str) -> HttpResponse:
    endpoint = _find(public_id)
    if endpoint is None or endpoint.deleted_at is not None:
        return missing(request, "endpoint")
    here, why = reverse("admin:endpoint", args=[public_id]), why_of(request)
    if action == "rotate":
        return secrets.rotate(request, endpoint)
    if action not in ACTIONS:
        return missing(request, "action")
    run, done, wants_reason = ACTIONS[action]
    if wants_reason and not why:
        return back_to(request, here, refused="Say why: the consumer and the audit log are told.")
    try:
        run(endpoint, actor=actor_of(request), why=why)
    except NothingDone as error:
        return back_to(request, here, refused=str(error))
    return back_to(request, here, done=done)


def send_test(request: HttpRequest, public_id: str) -> HttpResponse:
    endpoint = _find(public_id)
    if endpoint is None or endpoint.deleted_at is not None:
        return missing(request, "endpoint")
    here = reverse("admin:endpoint", args=[public_id])
    try:
        trial, _ = manual_sends.send_test(endpoint, actor=actor_of(request), why=why_of(request))
        shown = dict(show_trial(trial))
    except test_event.TooManyTests as error:
        return back_to(request, here, refused=str(error))
    except test_event.Held:
        return back_to(request, here, refused="A kill switch is on, so nothing goes out.")
    token = handover.put(shown, visitor=visitor(request), about=public_id)
    return back_to(request, f"{here}?tested={token}", stay=True)


def run_check_up(request: HttpRequest, public_id: str) -> HttpResponse:
    endpoint = _find(public_id)
    if endpoint is None or endpoint.deleted_at is not None:
        return missing(request, "endpoint")
    here = reverse("admin:endpoint", args=[public_id])
    try:
        manual_sends.run_check_up(endpoint, actor=actor_of(request), why=why_of(request))
    except test_event.TooManyTests as error:
        return back_to(request, here, refused=str(error))
    except check_up.TooSoon:
        return back_to(request, here, refused="One is under way, or was a moment ago. Try again in a moment.")
    except test_event.Held:
        return back_to(request, here, refused="A kill switch is on, so nothing goes out.")
    return back_to(request, f"{here}#check-up", done="Checked. The report is below.")


def _find(public_id: str) -> Endpoint | None:
    uuid = ids.parse("ep", public_id)
    return Endpoint.objects.select_related("consumer", "lane", "check_up").filter(id=uuid).first() if uuid else None


def _errors(endpoint: Endpoint) -> list[tuple[str, int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(COUNT_ERRORS, {"endpoint_id": endpoint.id})
        rows = cursor.fetchall()
    most = max([count for _, count in rows] or [1])
    return [(kind, count, max(1, 100 * count // most)) for kind, count in rows]


def _notices(endpoint: Endpoint) -> list[Any]:
    # Dead letters have their own place; here is what happened to the endpoint.
    return list(endpoint.notices.exclude(kind=NoticeKind.DEAD).order_by("-id")[:15])
