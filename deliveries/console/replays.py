"""Replays: a preview before, a page to watch and cancel it after."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries.actions import replays as actions
from deliveries.browse import criteria
from deliveries.browse.filter import FIELDS, Filter
from deliveries.browse.matched import Matched, matched
from deliveries.console.page import actor_of, back_to, missing, render, why_of
from deliveries.pages import keyset
from deliveries.replaying.models import Replay, ReplayStatus
from deliveries.replaying.results import Results, results
from subscriptions import ids
from subscriptions.models import Endpoint

DEFAULT_RATE = 50
HIGHEST_RATE = 10_000
# How often the page of a job asks anew (seconds): while it runs, and while what it put back still waits.
_EVERY, _EVERY_WHILE_WAITING = 1, 10
_SOON = timedelta(minutes=2)


def preview(request: HttpRequest) -> HttpResponse:
    """What would go, to whom, for how long; nothing is done yet."""
    asked = criteria.read(request.GET)
    found = Matched([], False) if asked.problems else matched(asked.filter)
    shown = found.by_endpoint[:100]
    endpoints = Endpoint.objects.select_related("consumer", "lane").in_bulk([each for each, _ in shown])
    return render(
        request,
        "replay_preview.html",
        title="Replay: preview",
        asked=asked,
        matched=found.count,
        is_more=found.is_more,
        shown=[(endpoints[endpoint_id], count) for endpoint_id, count in shown],
        hidden_count=len(found.by_endpoint) - len(shown),
        fields=asked.fields(),
        query=request.GET.urlencode(),
        rate=DEFAULT_RATE,
        now=timezone.now(),
    )


def start(request: HttpRequest) -> HttpResponse:
    given = criteria.carried(request.POST, criteria.CONSOLE_NAMES)
    again = f"{reverse('admin:replay-preview')}?{given.urlencode()}"
    asked, rate, why = criteria.read(given), _rate(request.POST.get("rate", "")), why_of(request)
    if asked.problems or rate is False:
        problems = asked.problems or [f"A rate is a number from 1 to {HIGHEST_RATE}, or nothing for no limit."]
        return back_to(request, again, refused=" ".join(problems))
    if not (asked.is_narrowed or request.POST.get("all") == "yes"):
        return back_to(request, again, refused="No filter is set: tick that all dead letters are meant, of everybody.")
    if not why:
        return back_to(request, again, refused="Say why: the reason goes into the audit log.")
    try:
        job = actions.start(
            asked.filter, consumer=asked.consumer, rate_per_second=rate or None, actor=actor_of(request), why=why
        )
    except actions.TooManyReplays as error:
        return back_to(request, again, refused=str(error))
    return back_to(request, reverse("admin:replay", args=[job.public_id]))


def index(request: HttpRequest) -> HttpResponse:
    return render(request, "replays.html", title="Replays", page=keyset.page(request, Replay.objects.all()))


def show(request: HttpRequest, public_id: str) -> HttpResponse:
    job = _find(public_id)
    if job is None:
        return missing(request, "replay")
    left, wanted = max(0, job.matched - job.replayed), Filter.read(job.filter)
    found = results(job)
    return render(
        request,
        "replay.html",
        title="Replay",
        job=job,
        is_running=job.status == ReplayStatus.RUNNING,
        results=found,
        shares=_shares(job, found),
        every=_every(job, found),
        endpoint_id=ids.show("ep", wanted.endpoint_id) if wanted.endpoint_id else "",
        permille=1000 if job.status == ReplayStatus.DONE else min(1000, 1000 * job.replayed // max(1, job.matched)),
        left=left,
        eta_seconds=left / job.rate_per_second if job.rate_per_second and left else None,
        described=_described(wanted),
        dead_letters=f"{reverse('admin:dead-letters')}?{_query(wanted)}",
    )


def _every(job: Replay, found: Results) -> int | None:
    """How often the page asks anew (seconds); None when nothing changes any more."""
    if job.finished_at is None or (found.waiting and timezone.now() - job.finished_at < _SOON):
        return _EVERY
    return _EVERY_WHILE_WAITING if found.waiting else None


def _shares(job: Replay, found: Results) -> list[tuple[str, int, int]]:
    """The bar of what became of them: each part's name, where it begins, and its width, in thousandths."""
    shares, start = [], 0
    for name, count in (("delivered", found.delivered), ("dead", found.dead_again)):
        width = 1000 * count // max(1, job.replayed)
        shares.append((name, start, width))
        start += width
    return shares


def cancel(request: HttpRequest, public_id: str) -> HttpResponse:
    job = _find(public_id)
    if job is None:
        return missing(request, "replay")
    here = reverse("admin:replay", args=[public_id])
    if not actions.cancel(job, actor=actor_of(request), why=why_of(request)):
        return back_to(request, here, refused=f"It is {job.status} already; nothing is left to cancel.")
    return back_to(request, here, done="Cancelled. What was sent is sent; the rest is what it was before.")


def _find(public_id: str) -> Replay | None:
    uuid = ids.parse("rpl", public_id)
    return Replay.objects.filter(id=uuid).first() if uuid else None


def _rate(text: str) -> int | bool | None:
    """None for no limit, False for nonsense."""
    text = text.strip()
    if not text:
        return None
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= HIGHEST_RATE else False


def _described(wanted: Filter) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = [("state", wanted.state)]
    if wanted.consumer_id:
        parts.append(("consumer", ids.show("con", wanted.consumer_id)))
    if wanted.endpoint_id:
        parts.append(("endpoint", ids.show("ep", wanted.endpoint_id)))
    if wanted.event_id:
        parts.append(("event", ids.show("evt", wanted.event_id)))
    if wanted.delivery_ids is not None:
        parts.append(("selected one by one", len(wanted.delivery_ids)))
    names = (*(each.name for each in FIELDS), "since", "until")
    return parts + [(name.replace("_", " "), getattr(wanted, name)) for name in names if getattr(wanted, name)]


def _query(wanted: Filter) -> str:
    given = {
        "consumer": wanted.consumer_id and ids.show("con", wanted.consumer_id),
        "endpoint": wanted.endpoint_id and ids.show("ep", wanted.endpoint_id),
        **{name: getattr(wanted, declared.name) for name, declared in criteria.CONSOLE_FIELDS},
    }
    return urlencode({name: value for name, value in given.items() if value})
