"""Replays: a preview before, a page to watch and cancel it after. What an endpoint missed goes the same way."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from deliveries.actions import replays as actions
from deliveries.browse import criteria
from deliveries.browse.filter import FIELDS, Filter
from deliveries.browse.matched import Matched
from deliveries.pages import keyset
from deliveries.portal import endpoints, forms, words
from deliveries.portal.page import actor, back_to, missing, render
from deliveries.replaying.missed import Missed
from deliveries.replaying.models import Replay, ReplayStatus
from deliveries.replaying.preview import preview as matched
from deliveries.replaying.results import Results, results
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.models import Consumer, Endpoint

_HIGHEST_RATE = 10_000
# How often the page of a job asks anew (seconds): while it runs, and while what it sent still waits.
_EVERY, _EVERY_WHILE_WAITING = 2, 10
_SOON = timedelta(minutes=2)
SPANS = {
    "1h": gettext_noop("the last hour"),
    "24h": gettext_noop("the last 24 hours"),
    "7d": gettext_noop("the last 7 days"),
    "30d": gettext_noop("the last 30 days"),
}


def index(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    page = keyset.page(request, Replay.objects.filter(consumer=consumer))
    return render(request, consumer, "replays.html", title=_("Replays"), section="Deliveries", page=page)


def new(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    """What would go, and to whom; a POST starts it."""
    asked = criteria.read_own(_given(request), consumer)
    wanted = _replayable(asked)
    if request.method == "POST" and not asked.problems:
        again = f"{request.path}?{asked.query}"
        rate, refused = _rate(request)
        if refused:
            return back_to(request, again, refused=refused)
        if not asked.may_be_replayed:
            return back_to(request, again, refused=_("Say which: an endpoint, a type, a time, or tick some of them."))
        return _start(request, consumer, wanted, rate=rate, again=again)
    found = Matched([], False) if asked.problems else matched(wanted)
    known = Endpoint.objects.select_related("lane").in_bulk([each for each, _ in found.by_endpoint])
    return render(
        request,
        consumer,
        "replay_preview.html",
        title=_("Replay"),
        section="Deliveries",
        asked=asked,
        matched=found,
        shown=[(known[endpoint_id], count) for endpoint_id, count in found.by_endpoint if endpoint_id in known],
        fields=asked.fields(),
        is_held=endpoints.is_held(consumer),
        status=400 if request.method == "POST" else 200,
    )


def missed(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    """Events from before an endpoint wanted them: how many there are, and a POST sends them."""
    found = endpoints.find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    given = request.POST if request.method == "POST" else request.GET
    within = given.get("within", "7d")
    if within not in criteria.WITHIN:
        return back_to(
            request, request.path, refused=_("Say one of %(spans)s.") % {"spans": ", ".join(criteria.WITHIN)}
        )
    now = datetime.now(UTC)
    wanted = Missed(consumer.id, found.id, since=now - criteria.WITHIN[within], until=now)
    if request.method == "POST":
        again = f"{request.path}?within={within}"
        rate, refused = _rate(request)
        if refused:
            return back_to(request, again, refused=refused)
        return _start(request, consumer, wanted, rate=rate, again=again)
    return render(
        request,
        consumer,
        "missed.html",
        title=_("Send what it missed"),
        section="Endpoints",
        endpoint=found,
        matched=matched(wanted),
        within=within,
        spans=SPANS,
    )


def show(request: HttpRequest, consumer: Consumer, replay: str) -> HttpResponse:
    job = _find(consumer, replay)
    if job is None:
        return missing(request, consumer, "replay")
    found = results(job)
    return render(
        request,
        consumer,
        "replay.html",
        title=_("Replay"),
        section="Deliveries",
        job=job,
        is_running=job.status == ReplayStatus.RUNNING,
        missed=Missed.read(job.filter),
        sentence=words.replay_outcome(job, found),
        results=found,
        shares=_shares(job, found),
        left=max(0, job.matched - job.replayed),
        described=_described(Filter.read(job.filter)),
        every=_every(job, found),
    )


def cancel(request: HttpRequest, consumer: Consumer, replay: str) -> HttpResponse:
    job = _find(consumer, replay)
    if job is None:
        return missing(request, consumer, "replay")
    here = reverse("portal:replay", args=[job.public_id])
    if not actions.cancel(job, actor=actor(request), why=""):
        return back_to(request, here, refused=_("It is over already; nothing is left to cancel."))
    return back_to(request, here, done=_("Cancelled. What was sent is sent; the rest is what it was before."))


def _start(
    request: HttpRequest, consumer: Consumer, wanted: Filter | Missed, *, rate: int | None, again: str
) -> HttpResponse:
    try:
        job = actions.start(wanted, consumer=consumer, rate_per_second=rate, actor=actor(request), why="")
    except actions.TooManyReplays as error:
        return back_to(request, again, refused=str(error))
    return back_to(request, reverse("portal:replay", args=[job.public_id]))


def _replayable(asked: criteria.Criteria) -> Filter:
    """A replay takes what is over: dead letters, unless delivered ones are asked for."""
    state: str | None = asked.values["state"] or DeliveryState.DEAD
    if state not in (DeliveryState.DEAD, DeliveryState.DELIVERED):
        asked.problems.append(_("Only what is dead or delivered can be replayed; the rest is still being sent."))
    if asked.chosen or asked.values["q"]:
        # Ticked one by one, or one event: of whatever state that is over.
        state = asked.values["state"] or None
    stored = asked.filter.stored() | {"state": state and str(state)}
    return Filter.read(stored)


def _given(request: HttpRequest) -> QueryDict:
    return request.GET if request.method != "POST" else criteria.carried(request.POST, criteria.PORTAL_NAMES)


def _rate(request: HttpRequest) -> tuple[int | None, str]:
    """None for no limit, and why it was refused."""
    rate = forms.number(request.POST.get("rate", "").strip())
    if rate is None or (isinstance(rate, int) and 1 <= rate <= _HIGHEST_RATE):
        return rate, ""
    return None, _("A rate is a number from 1 to %(most)s, or nothing for no limit.") % {"most": _HIGHEST_RATE}


def _every(job: Replay, found: Results | None) -> int | None:
    """How often the page asks anew (seconds); None when nothing changes any more."""
    if job.finished_at is None or (found and found.waiting and timezone.now() - job.finished_at < _SOON):
        return _EVERY
    return _EVERY_WHILE_WAITING if found and found.waiting else None


def _shares(job: Replay, found: Results | None) -> list[tuple[str, int, int]]:
    """The bar: each part's tone, where it begins, and its width, in thousandths."""
    shares, start, whole = [], 0, max(1, job.matched, job.replayed)
    parts = (("good", found.delivered), ("bad", found.dead_again), ("wait", found.waiting)) if found else ()
    for tone, count in parts:
        width = 1000 * count // whole
        shares.append((tone, start, width))
        start += width
    return shares


def _described(wanted: Filter) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = []
    if wanted.endpoint_id:
        parts.append((gettext_noop("Endpoint"), ids.show("ep", wanted.endpoint_id)))
    if wanted.event_id:
        parts.append((gettext_noop("Event"), ids.show("evt", wanted.event_id)))
    if wanted.delivery_ids is not None:
        parts.append((gettext_noop("Selected"), len(wanted.delivery_ids)))
    names = {each.name: each.label for each in FIELDS} | {"state": gettext_noop("State")}
    return parts + [(label, getattr(wanted, name)) for name, label in names.items() if getattr(wanted, name)]


def _find(consumer: Consumer, public_id: str) -> Replay | None:
    uuid = ids.parse("rpl", public_id)
    return Replay.objects.filter(id=uuid, consumer=consumer).first() if uuid else None
