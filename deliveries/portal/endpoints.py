"""A consumer's endpoints: all of them with their health, one in full, changed, and looked after."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from deliveries.actions import NothingDone, manual_sends, replays
from deliveries.actions import endpoints as actions
from deliveries.browse.filter import Filter
from deliveries.browse.last_failures import last_failures
from deliveries.endpoint_tests import check_up, test_event
from deliveries.endpoint_tests.models import CheckUp
from deliveries.health.models import Hold
from deliveries.pages import chart
from deliveries.portal import catalogue, first_steps, forms, words
from deliveries.portal.lines import newest
from deliveries.portal.page import actor, back_to, missing, render
from deliveries.portal.words import Load
from deliveries.statistics import figures
from subscriptions import endpoints
from subscriptions.guards import targets
from subscriptions.guards.urls import RefusedTarget
from subscriptions.limits import rate_limit
from subscriptions.models import AuditEntry, Consumer, Endpoint
from subscriptions.secrets.own_secrets import Unfit
from subscriptions.signing import schemes

COUNTED_UP_TO = 1000
# How often an endpoint's state refreshes itself on its page (seconds).
_EVERY = 5
# Spans of the charts, the first one unless another is asked for.
CHARTS = ("24h", "7d", "30d")
# How often a consumer's people may ask about a URL that they type.
_URLS_PER_SECOND, _URLS_AT_ONCE = 4, 20

COUNT_LOADS = """
    SELECT endpoint.id, (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery WHERE endpoint_id = endpoint.id AND state = 'dead' LIMIT %(up_to)s
        ) dead
    ), (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = endpoint.id AND state = 'pending' AND NOT blocked AND due_at <= now() LIMIT %(up_to)s
        ) due
    ), (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = endpoint.id AND state = 'pending' AND NOT blocked LIMIT %(up_to)s
        ) pending
    ), (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery WHERE endpoint_id = endpoint.id AND blocked LIMIT %(up_to)s
        ) blocked
    ), (
        SELECT count(*) FROM deliveries_delivery WHERE endpoint_id = endpoint.id AND state = 'in_flight'
    ), EXISTS (
        SELECT FROM (
            SELECT state FROM deliveries_delivery WHERE endpoint_id = endpoint.id ORDER BY event_id DESC LIMIT 100
        ) newest WHERE state = 'delivered'
    )
    FROM subscriptions_endpoint endpoint WHERE endpoint.id = ANY (%(ids)s::uuid[])
"""
"""Of each endpoint: dead letters, what is due, what waits and what waits behind an earlier one, counted up to a limit;
what is in flight, and whether one of the newest was delivered."""


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def index(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    found = list(_living(consumer).order_by("id"))
    loads = _loads([endpoint.id for endpoint in found])
    held, now = is_held(consumer), timezone.now()
    causes = last_failures([endpoint.id for endpoint in found if words.is_failing(endpoint)])
    rows = [
        (endpoint, words.health(endpoint, loads[endpoint.id], held=held, now=now), loads[endpoint.id].dead,
         words.cause(causes.get(endpoint.id)))
        for endpoint in found
    ]  # fmt: skip
    reports = CheckUp.objects.filter(endpoint__in=found, report__isnull=False).values_list("report", flat=True)
    has_received = any(load.has_received for load in loads.values())
    return render(
        request,
        consumer,
        "endpoints.html",
        title=_("Endpoints"),
        section="Endpoints",
        rows=rows,
        cap=COUNTED_UP_TO,
        steps=first_steps.steps(found, [report for report in reports if report], has_received=has_received, now=now),
    )


def show(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    load, now, report = _loads([found.id])[found.id], timezone.now(), check_up.last_report(found)
    span = figures.RANGES[request.GET["range"] if request.GET.get("range") in CHARTS else CHARTS[0]]
    entries = figures.series(span, found.id, now=now)
    return render(
        request,
        consumer,
        "endpoint.html",
        title=_("Endpoint"),
        section="Endpoints",
        endpoint=found,
        health=words.health(found, load, held=is_held(consumer), now=now),
        dead=load.dead,
        cap=COUNTED_UP_TO,
        report=report,
        verified=first_steps.is_verified(report),
        until=endpoints.overlap_until(found, now=now),
        secrets_since=secrets_since(found),
        ranges=[figures.RANGES[name] for name in CHARTS],
        span=span,
        sums=figures.total(entries),
        durations=[figures.total(entries).duration(share) for share in (0.5, 0.95)],
        cause=words.cause(last_failures([found.id]).get(found.id)) if words.is_failing(found) else None,
        schedule=found.retry_schedule or settings.DELIVERY_RETRY_SCHEDULE,
        day_ago=f"{now - timedelta(days=1):%Y-%m-%dT%H:%M}",
        every=_EVERY,
        traffic=chart.traffic(entries, span),
        times=chart.times(entries, span, of="duration"),
        backlog=load.owed,
        lines=newest(found),
        notices=found.notices.exclude(kind="dead").order_by("-id")[:10],
    )


def secrets_since(endpoint: Endpoint) -> list[datetime]:
    """When the current secret and the one before it were made: by a rotation, the first one with the endpoint."""
    rotated = AuditEntry.objects.filter(target=endpoint.public_id, action="endpoint.secret_rotated")
    return [*rotated.order_by("-id").values_list("at", flat=True)[:2], *[endpoint.created_at] * 2][:2]


def edit(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    families = catalogue.families()
    form = forms.read(request.POST, endpoint=found) if request.method == "POST" else forms.of(found)
    if request.method == "POST" and not form.errors:
        try:
            actions.update(found, dict(form.fields), actor=actor(request), why="")
        except Unfit as unfit:
            form.errors[unfit.pointer.removeprefix("/") or "signature_scheme"] = str(unfit)
            return form_page(request, consumer, form, families, title=_("Change endpoint"), endpoint=found)
        return back_to(request, page_of(found), done=_("Saved. It holds for everything that goes out from now on."))
    return form_page(request, consumer, form, families, title=_("Change endpoint"), endpoint=found)


def check_url(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    """What the guard says of a URL while somebody types it: of its shape, and nothing of the network."""
    allowance = rate_limit.take(f"portal-url:{consumer.id}", rate=_URLS_PER_SECOND, burst=_URLS_AT_ONCE)
    if allowance is not None and allowance.retry_after_seconds is not None:
        return JsonResponse({"ok": False, "text": _("Saving it will tell.")}, status=429, headers=allowance.headers)
    try:
        targets.check_shape(request.GET.get("url", "")[:4096].strip())
    except RefusedTarget as refused:
        return JsonResponse({"ok": False, "text": str(refused)})
    return JsonResponse({"ok": True, "text": _("Looks right. The check-up tells whether it answers.")})


# ── actions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def pause(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    return _do(request, consumer, endpoint, actions.pause, done=_("Paused. What comes for it waits."))


def resume(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    held = _("Active again. What waited goes out once the operator lets go.")
    done = held if is_held(consumer) else _("Active again. What waited goes out now.")
    return _do(request, consumer, endpoint, actions.resume, done=done)


def expire_secret(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    return _do(request, consumer, endpoint, actions.expire_previous_secret, done=_("The old secret no longer signs."))


def check(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    try:
        manual_sends.run_check_up(found, actor=actor(request), why="")
    except check_up.TooSoon:
        return back_to(request, page_of(found), refused=_("A check-up ran moments ago. Try again in a few seconds."))
    except test_event.TooManyTests as error:
        return back_to(request, page_of(found), refused=str(error))
    except test_event.Held:
        return back_to(request, page_of(found), refused=_("An operator holds deliveries back: nothing goes out."))
    return back_to(request, page_of(found) + "#check-up", done=_("Checked. The findings are below."))


def replay_dead(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    """Every dead letter of one endpoint, as a job: it goes on when this session has long ended."""
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    wanted, held = Filter(consumer_id=consumer.id, endpoint_id=found.id), is_held(consumer)
    try:
        job = replays.start(wanted, consumer=consumer, rate_per_second=None, actor=actor(request), why="")
    except replays.TooManyReplays as error:
        return back_to(request, page_of(found), refused=str(error))
    if not job.matched:
        return back_to(request, page_of(found), done=_("There was no dead letter left to replay."))
    return back_to(
        request,
        reverse("portal:replay", args=[job.public_id]),
        done=words.replayed(job.matched, is_more=job.matched_is_minimum, how=words.how_it_goes_out(found, held=held)),
    )


def delete(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    actions.delete(found, actor=actor(request), why="")
    return back_to(request, reverse("portal:home"), done=_("%(url)s was deleted.") % {"url": found.url})


# ── what they share ──────────────────────────────────────────────────────────────────────────────────────────────────


def find(consumer: Consumer, public_id: str) -> Endpoint | None:
    return endpoints.find(public_id, consumer_id=consumer.id)


def _living(consumer: Consumer) -> Any:
    return Endpoint.objects.select_related("lane").filter(consumer=consumer, deleted_at__isnull=True)


def is_held(consumer: Consumer) -> bool:
    return Hold.objects.filter(Q(consumer__isnull=True) | Q(consumer=consumer)).exists()


def _loads(endpoint_ids: list[UUID]) -> dict[UUID, Load]:
    with connection.cursor() as cursor:
        cursor.execute(COUNT_LOADS, {"ids": endpoint_ids, "up_to": COUNTED_UP_TO})
        return {endpoint_id: Load(*counts) for endpoint_id, *counts in cursor.fetchall()}


def _do(
    request: HttpRequest, consumer: Consumer, endpoint: str, action: Callable[..., None], *, done: str
) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    try:
        action(found, actor=actor(request), why="")
    except NothingDone as error:
        return back_to(request, page_of(found), refused=str(error))
    return back_to(request, page_of(found), done=done)


def form_page(
    request: HttpRequest, consumer: Consumer, form: forms.EndpointForm, families: list[catalogue.Family], **context: Any
) -> HttpResponse:
    return render(
        request,
        consumer,
        "form.html",
        section="Endpoints",
        form=form,
        families=families,
        others=form.others(families),
        schemes=schemes.meanings(),
        usual_schedule=", ".join(map(str, settings.DELIVERY_RETRY_SCHEDULE)),
        status=400 if form.errors else 200,
        **context,
    )


def page_of(endpoint: Endpoint) -> str:
    return reverse("portal:endpoint", args=[endpoint.public_id])
