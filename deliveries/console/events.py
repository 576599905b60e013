"""Events: the newest ones, and one with its body and what it became."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from deliveries.actions import NothingDone
from deliveries.actions import deliveries as actions
from deliveries.console.page import actor_of, back_to, missing, render, why_of
from deliveries.models import Delivery, Event
from deliveries.pages import keyset, story
from subscriptions import consumers
from subscriptions.models import AuditEntry


def index(request: HttpRequest) -> HttpResponse:
    name, type_name = request.GET.get("consumer", "").strip(), request.GET.get("type", "").strip()
    consumer = consumers.find(name) if name else None
    missing_consumer = bool(name) and consumer is None
    none = keyset.ListPage[Event]([], None, None)
    return render(
        request,
        "events.html",
        title="Events",
        page=none if missing_consumer else keyset.events(request, consumer=consumer, type=type_name or None),
        consumer=name,
        type=type_name,
        problem=f"There is no consumer {name}." if missing_consumer else "",
    )


def show(request: HttpRequest, event_id: UUID) -> HttpResponse:
    event = _find(event_id)
    if event is None:
        return missing(request, "event")
    deliveries = _deliveries(event)
    return render(
        request,
        "event.html",
        title="Event",
        event=event,
        body=story.body_of(bytes(event.body)) if event.body is not None else None,
        deliveries=deliveries,
        finished=sum(delivery.is_finished for delivery in deliveries),
        entries=AuditEntry.objects.filter(target=event.public_id).order_by("-id")[:20],
    )


def resend(request: HttpRequest, event_id: UUID) -> HttpResponse:
    """To all of its endpoints, or to the one that is named."""
    event = _find(event_id)
    if event is None:
        return missing(request, "event")
    wanted: list[Any] = _deliveries(event)
    if only := request.POST.get("delivery"):
        wanted = [delivery for delivery in wanted if delivery.public_id == only]
    here = reverse("admin:event", args=[event_id])
    try:
        count = actions.resend_event(event, wanted, actor=actor_of(request), why=why_of(request))
    except NothingDone as error:
        return back_to(request, here, refused=str(error))
    return back_to(request, here, done=f"{count} of its deliveries go out again.")


def _find(event_id: UUID) -> Event | None:
    return Event.objects.select_related("consumer").filter(id=event_id).first()


def _deliveries(event: Event) -> list[Delivery]:
    # Endpoint by endpoint of its consumer: that is the order of the index.
    rows = Delivery.objects.filter(endpoint__consumer_id=event.consumer_id, event=event)
    return list(rows.select_related("endpoint").order_by("id")[:200])
