"""A consumer's endpoints: all of them with their health, one in full, made, changed, and looked after."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries import check_up, trial
from deliveries.actions import NothingDone, manual_sends, replays
from deliveries.actions import endpoints as actions
from deliveries.browse.filter import Filter
from deliveries.models import Delivery
from deliveries.portal import forms, words
from deliveries.portal.page import actor, back_to, missing, render
from deliveries.replay import TooManyReplays
from subscriptions import endpoints
from subscriptions.actions.endpoints import create
from subscriptions.api.serializers import RotateIn
from subscriptions.models import Consumer, Endpoint, Hold

COUNTED_UP_TO = 1000

COUNT_DEAD = """
    SELECT endpoint.id, (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery WHERE endpoint_id = endpoint.id AND state = 'dead' LIMIT %(up_to)s
        ) counted
    )
    FROM subscriptions_endpoint endpoint WHERE endpoint.id = ANY (%(ids)s::uuid[])
"""
"""The dead letters of each endpoint, counted up to a limit."""


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def index(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    found = list(_living(consumer).order_by("id"))
    dead = _dead([endpoint.id for endpoint in found])
    held, now = _held(consumer), timezone.now()
    rows = [(endpoint, words.health(endpoint, held=held, now=now), dead[endpoint.id]) for endpoint in found]
    return render(request, consumer, "endpoints.html", title="Endpoints", rows=rows, cap=COUNTED_UP_TO)


def show(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    return render(
        request,
        consumer,
        "endpoint.html",
        title="Endpoint",
        endpoint=found,
        health=words.health(found, held=_held(consumer), now=timezone.now()),
        dead=_dead([found.id])[found.id],
        cap=COUNTED_UP_TO,
        report=check_up.last_report(found),
        now=timezone.now(),
        newest=Delivery.objects.filter(endpoint=found).select_related("event").order_by("-event_id")[:10],
        notices=found.notices.exclude(kind="dead").order_by("-id")[:10],
    )


def new(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    form = forms.read(request.POST) if request.method == "POST" else forms.blank()
    if request.method == "POST" and not form.errors:
        try:
            made, secret = create(consumer=consumer, **form.fields, actor=actor(request), why="")
        except endpoints.TooManyEndpoints:
            form = form.refused("You have as many endpoints as you may have. Delete one first.")
        except endpoints.TooManyNewEndpoints:
            form = form.refused("You have made as many endpoints as you may within a day. Change one instead, or wait.")
        else:
            return _secret(request, consumer, made, secret, title="Your endpoint and its secret")
    return _form(request, consumer, form, title="New endpoint")


def edit(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    form = forms.read(request.POST) if request.method == "POST" else forms.of(found)
    if request.method == "POST" and not form.errors:
        actions.update(found, dict(form.fields), actor=actor(request), why="")
        return back_to(request, _page_of(found), done="Saved. It holds for everything that goes out from now on.")
    return _form(request, consumer, form, title="Change endpoint", endpoint=found)


# ── deeds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def pause(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    return _do(request, consumer, endpoint, actions.pause, done="Paused. What comes for it waits.")


def resume(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    return _do(request, consumer, endpoint, actions.resume, done="Active again. What waited goes out now.")


def rotate_secret(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    shape = RotateIn(data={"overlap_seconds": forms.number(request.POST.get("overlap_seconds", "86400"))})
    if not shape.is_valid():
        return back_to(request, _page_of(found), refused="The old secret may sign for 0 to 604,800 seconds more.")
    rotated = actions.rotate_secret(found, actor=actor(request), why="", **shape.validated_data)
    until = rotated.previous_expires_at if shape.validated_data["overlap_seconds"] else None
    return _secret(request, consumer, found, rotated.secret, title="Your new secret", rotated=True, until=until)


def check(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    try:
        manual_sends.run_check_up(found, actor=actor(request), why="")
    except trial.Busy as error:
        return back_to(request, _page_of(found), refused=str(error))
    except check_up.TooSoon:
        return back_to(request, _page_of(found), refused="A check-up ran moments ago. Try again in a few seconds.")
    except trial.Held:
        return back_to(request, _page_of(found), refused="An operator holds everything back: nothing goes out.")
    return back_to(request, _page_of(found) + "#check-up", done="Checked. The findings are below.")


def replay_dead(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    """Every dead letter of one endpoint, as a job: it goes on when this session has long ended."""
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    wanted = Filter(consumer_id=consumer.id, endpoint_id=found.id)
    try:
        job = replays.start(wanted, consumer=consumer, rate_per_second=None, actor=actor(request), why="")
    except TooManyReplays as error:
        return back_to(request, _page_of(found), refused=str(error))
    many = f"{job.matched:,}{' or more' if job.matched_is_minimum else ''}"
    goes = "goes" if many == "1" else "go"
    return back_to(request, _page_of(found), done=f"{many} {goes} out again, as fast as the endpoint's limits allow.")


def delete(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    actions.delete(found, actor=actor(request), why="")
    return back_to(request, reverse("portal:home"), done=f"{found.url} was deleted.")


# ── what they share ──────────────────────────────────────────────────────────────────────────────────────────────────


def find(consumer: Consumer, public_id: str) -> Endpoint | None:
    return endpoints.find(public_id, consumer_id=consumer.id)


def _living(consumer: Consumer) -> Any:
    return Endpoint.objects.select_related("lane").filter(consumer=consumer, deleted_at__isnull=True)


def _held(consumer: Consumer) -> bool:
    return Hold.objects.filter(Q(consumer__isnull=True) | Q(consumer=consumer)).exists()


def _dead(endpoint_ids: list[UUID]) -> dict[UUID, int]:
    with connection.cursor() as cursor:
        cursor.execute(COUNT_DEAD, {"ids": endpoint_ids, "up_to": COUNTED_UP_TO})
        return dict(cursor.fetchall())


def _do(
    request: HttpRequest, consumer: Consumer, endpoint: str, deed: Callable[..., None], *, done: str
) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    try:
        deed(found, actor=actor(request), why="")
    except NothingDone as error:
        return back_to(request, _page_of(found), refused=str(error))
    return back_to(request, _page_of(found), done=done)


def _form(request: HttpRequest, consumer: Consumer, form: forms.Form, **context: Any) -> HttpResponse:
    return render(
        request,
        consumer,
        "form.html",
        form=form,
        known=forms.known_types(),
        status=400 if form.errors else 200,
        **context,
    )


def _secret(
    request: HttpRequest, consumer: Consumer, endpoint: Endpoint, secret: str, *, title: str, **context: Any
) -> HttpResponse:
    """The only answers that hold a secret: shown once, to who asked, stored by no browser."""
    return render(request, consumer, "secret.html", title=title, endpoint=endpoint, secret=secret, **context)


def _page_of(endpoint: Endpoint) -> str:
    return reverse("portal:endpoint", args=[endpoint.public_id])
