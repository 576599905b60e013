"""Deliveries: the newest ones, and one of them in full."""

from collections.abc import Callable

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries.actions import NothingDone
from deliveries.actions import deliveries as actions
from deliveries.browse import words
from deliveries.browse.filter import Filter
from deliveries.console.page import actor_of, back_to, missing, render, why_of
from deliveries.health.models import Hold
from deliveries.models import Delivery
from deliveries.pages import keyset, story
from deliveries.states import DeliveryState
from subscriptions import endpoints, ids
from subscriptions.models import AuditEntry

ACTIONS: dict[str, tuple[Callable[..., None], str]] = {
    "replay": (actions.replay_one, "It goes out again: a new round has begun."),
    "retry-now": (actions.retry_now, "It is due now."),
    "give-up": (actions.give_up, "It is a dead letter now, and can still be replayed."),
}


def index(request: HttpRequest) -> HttpResponse:
    """Of one endpoint in the order of its events (an index has that order), or of everybody by age."""
    state, name = request.GET.get("state", ""), request.GET.get("endpoint", "").strip()
    endpoint = endpoints.find(name) if name else None
    unknown_state = bool(state) and state not in DeliveryState.values
    wanted = Filter(state=state or None, endpoint_id=endpoint.id if endpoint else None)
    missing_endpoint = bool(name) and endpoint is None
    problem = f"There is no endpoint {name}." if missing_endpoint else ""
    if unknown_state:
        problem = f"There is no state {state}. Say one of {', '.join(DeliveryState.values)}."
    return render(
        request,
        "deliveries.html",
        title="Deliveries",
        page=keyset.ListPage[Delivery]([], None, None) if problem else keyset.deliveries(request, wanted),
        state=state,
        states=DeliveryState.values,
        endpoint=endpoint,
        endpoint_name=name,
        problem=problem,
    )


def show(request: HttpRequest, public_id: str) -> HttpResponse:
    delivery = _find(public_id)
    if delivery is None:
        return missing(request, "delivery")
    now = timezone.now()
    endpoint, event = delivery.endpoint, delivery.event
    sent = story.sent_body(bytes(event.body) if event.body is not None else None, endpoint)
    chapters = story.chapters(delivery, list(delivery.attempts.order_by("number")), sent=sent)
    held = Hold.objects.filter(Q(consumer__isnull=True) | Q(consumer_id=endpoint.consumer_id)).exists()
    schedule = endpoint.retry_schedule or settings.DELIVERY_RETRY_SCHEDULE
    return render(
        request,
        "delivery.html",
        title="Delivery",
        delivery=delivery,
        endpoint=endpoint,
        event=event,
        chapters=chapters,
        body=story.body_of(sent) if sent is not None else None,
        advice=words.advice(delivery.dead_reason) if delivery.dead_reason else None,
        next=story.what_next(delivery, held=held, now=now),
        took=(delivery.finished_at - delivery.round_started_at).total_seconds() if delivery.finished_at else None,
        attempts_left=max(0, len(schedule) - (delivery.attempt_count - delivery.round_base)),
        forgotten=delivery.attempt_count - len(chapters) if delivery.state != DeliveryState.IN_FLIGHT else 0,
        is_finished=delivery.is_finished,
        replayable=delivery.is_finished and endpoint.deleted_at is None and event.body is not None,
        entries=AuditEntry.objects.filter(target=delivery.public_id).order_by("-id")[:20],
    )


def act(request: HttpRequest, public_id: str, action: str) -> HttpResponse:
    delivery = _find(public_id)
    if delivery is None or action not in ACTIONS:
        return missing(request, "delivery")
    run, done = ACTIONS[action]
    here = reverse("admin:delivery", args=[public_id])
    try:
        run(delivery, actor=actor_of(request), why=why_of(request))
    except NothingDone as error:
        return back_to(request, here, refused=str(error))
    return back_to(request, here, done=done)


def _find(public_id: str) -> Delivery | None:
    uuid = ids.parse("dlv", public_id)
    rows = Delivery.objects.select_related("event", "endpoint__consumer", "endpoint__lane")
    return rows.filter(id=uuid).first() if uuid else None
