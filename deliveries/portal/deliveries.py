"""What was sent to one endpoint, and one delivery's story. A consumer replays its own failures here."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries.actions import NothingDone
from deliveries.actions import deliveries as actions
from deliveries.browse.filter import Filter
from deliveries.console import keyset, story
from deliveries.models import Delivery
from deliveries.portal import endpoints, words
from deliveries.portal.page import actor, back_to, missing, render
from subscriptions import ids
from subscriptions.models import Consumer


def index(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    """All of them or the dead letters: an index has either in the order of the page."""
    found = endpoints.find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    only_dead = request.GET.get("state") == "dead"
    wanted = Filter(state="dead" if only_dead else None, consumer_id=consumer.id, endpoint_id=found.id)
    return render(
        request,
        consumer,
        "deliveries.html",
        title="Dead letters" if only_dead else "Deliveries",
        endpoint=found,
        only_dead=only_dead,
        page=keyset.deliveries(request, wanted),
    )


def show(request: HttpRequest, consumer: Consumer, delivery: str) -> HttpResponse:
    found = _find(consumer, delivery)
    if found is None:
        return missing(request, consumer, "delivery")
    endpoint, event = found.endpoint, found.event
    sent = story.sent_body(bytes(event.body) if event.body is not None else None, endpoint)
    chapters = story.chapters(found, list(found.attempts.order_by("number")), sent=sent)
    held = endpoints.is_held(consumer)
    replayable = found.state in ("delivered", "dead") and endpoint.deleted_at is None and event.body is not None
    return render(
        request,
        consumer,
        "delivery.html",
        title="Delivery",
        delivery=found,
        endpoint=endpoint,
        event=event,
        chapters=chapters,
        body=story.body_of(sent) if sent is not None else None,
        dead=words.why_dead(found.dead_reason, replayable=replayable) if found.dead_reason else None,
        next=story.what_next(found, held=held, now=timezone.now()),
        forgotten=found.attempt_count - len(chapters) if found.state != "in_flight" else 0,
        replayable=replayable,
    )


def replay(request: HttpRequest, consumer: Consumer, delivery: str) -> HttpResponse:
    found = _find(consumer, delivery)
    if found is None:
        return missing(request, consumer, "delivery")
    here = reverse("portal:delivery", args=[found.public_id])
    try:
        actions.replay_one(found, actor=actor(request), why="")
    except NothingDone as error:
        return back_to(request, here, refused=str(error))
    how = words.how_it_goes_out(found.endpoint, held=endpoints.is_held(consumer))
    return back_to(request, here, done=f"It goes out again, with the same id and body, {how}.")


def _find(consumer: Consumer, public_id: str) -> Delivery | None:
    uuid = ids.parse("dlv", public_id)
    rows = Delivery.objects.select_related("event", "endpoint__lane").filter(endpoint__consumer=consumer)
    return rows.filter(id=uuid).first() if uuid else None
