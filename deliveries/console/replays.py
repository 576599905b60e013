"""Replays: a preview before, a page to watch and cancel it after."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone

from deliveries.actions import replays as actions
from deliveries.browse.filter import Filter
from deliveries.browse.matched import Matched, matched
from deliveries.console import criteria, keyset, statistics
from deliveries.console.page import actor_of, back_to, missing, render, why_of
from deliveries.models import Replay, ReplayStatus
from subscriptions import ids
from subscriptions.models import Endpoint

DEFAULT_RATE = 50
HIGHEST_RATE = 10_000
_AFTERMATH = timedelta(minutes=2)


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
        fields=[(name, value) for name in request.GET for value in request.GET.getlist(name) if value],
        query=request.GET.urlencode(),
        rate=DEFAULT_RATE,
        now=timezone.now(),
    )


def start(request: HttpRequest) -> HttpResponse:
    given = QueryDict(mutable=True)
    for name in (*criteria.NAMES, "delivery"):
        given.setlist(name, request.POST.getlist(name))
    again = f"{reverse('admin:replay-preview')}?{given.urlencode()}"
    asked, rate, why = criteria.read(given), _rate(request.POST.get("rate", "")), why_of(request)
    if asked.problems or rate is False:
        problems = asked.problems or [f"A rate is a number from 1 to {HIGHEST_RATE}, or nothing for no limit."]
        return back_to(request, again, refused=" ".join(problems))
    if not why:
        return back_to(request, again, refused="Say why: the reason goes into the audit log.")
    job = actions.start(
        asked.filter, consumer=asked.consumer, rate_per_second=rate or None, actor=actor_of(request), why=why
    )
    return back_to(request, reverse("admin:replay", args=[job.public_id]))


def index(request: HttpRequest) -> HttpResponse:
    return render(request, "replays.html", title="Replays", page=keyset.page(request, Replay.objects.all()))


def show(request: HttpRequest, public_id: str) -> HttpResponse:
    job = _find(public_id)
    if job is None:
        return missing(request, "replay")
    left, wanted = max(0, job.matched - job.replayed), Filter.read(job.filter)
    return render(
        request,
        "replay.html",
        title="Replay",
        job=job,
        is_running=job.status == ReplayStatus.RUNNING,
        # The figures follow for a while after the last one was put back.
        is_live=job.finished_at is None or timezone.now() - job.finished_at < _AFTERMATH,
        endpoint_id=ids.show("ep", wanted.endpoint_id) if wanted.endpoint_id else "",
        permille=1000 if job.status == ReplayStatus.DONE else min(1000, 1000 * job.replayed // max(1, job.matched)),
        left=left,
        eta_seconds=left / job.rate_per_second if job.rate_per_second and left else None,
        described=_described(wanted),
        since=statistics.since(job.created_at, endpoint_id=wanted.endpoint_id, consumer_id=wanted.consumer_id),
        dead_letters=f"{reverse('admin:dead-letters')}?{_query(wanted)}",
    )


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
        parts.append(("selected by hand", len(wanted.delivery_ids)))
    names = ("event_type", "dead_reason", "error_kind", "ordering_key", "since", "until")
    return parts + [(name.replace("_", " "), getattr(wanted, name)) for name in names if getattr(wanted, name)]


def _query(wanted: Filter) -> str:
    given = {
        "consumer": wanted.consumer_id and ids.show("con", wanted.consumer_id),
        "endpoint": wanted.endpoint_id and ids.show("ep", wanted.endpoint_id),
        "event_type": wanted.event_type,
        "reason": wanted.dead_reason,
        "error": wanted.error_kind,
    }
    return urlencode({name: value for name, value in given.items() if value})
