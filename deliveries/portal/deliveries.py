"""What was sent: a list that says why, and one delivery's story. A consumer replays its own failures from here."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from deliveries.actions import NothingDone
from deliveries.actions import deliveries as actions
from deliveries.browse import criteria
from deliveries.models import Delivery
from deliveries.pages import keyset, story
from deliveries.portal import endpoints, words
from deliveries.portal.catalogue import MOST_TYPES
from deliveries.portal.lines import lines
from deliveries.portal.page import actor, back_to, missing, render
from deliveries.states import DeliveryState
from subscriptions import event_types, ids
from subscriptions.models import Consumer, Endpoint

# How often a list refreshes itself (seconds).
_EVERY = 5
# As many endpoints as a filter offers.
_MOST_ENDPOINTS = 200
_MOST_SIBLINGS = 20


def index(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    asked = criteria.read_own(request.GET, consumer)
    page = keyset.ListPage[Delivery]([], None, None) if asked.problems else keyset.deliveries(request, asked.filter)
    own = list(Endpoint.objects.filter(consumer=consumer, deleted_at__isnull=True).order_by("id")[:_MOST_ENDPOINTS])
    is_mixed = len(own) > 1 and asked.endpoint is None
    return render(
        request,
        consumer,
        "deliveries.html",
        title=_("Dead letters") if asked.values["state"] == "dead" else _("Deliveries"),
        section="Deliveries",
        asked=asked,
        own=own,
        states=DeliveryState.values,
        spans=criteria.WITHIN,
        page=page,
        lines=lines(page.rows, {each.id: each.url.partition("://")[2] for each in own} if is_mixed else {}),
        types=event_types.published().order_by("name").values_list("name", flat=True)[:MOST_TYPES],
        # Older pages do not change.
        every=None if "before" in request.GET or "after" in request.GET else _EVERY,
    )


def of_endpoint(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    """An address from before: the list has a filter for it."""
    found = endpoints.find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    query = request.GET.copy()
    query["endpoint"] = found.public_id
    return back_to(request, f"{reverse('portal:deliveries')}?{query.urlencode()}")


def show(request: HttpRequest, consumer: Consumer, delivery: str) -> HttpResponse:
    found = _find(consumer, delivery)
    if found is None:
        return missing(request, consumer, "delivery")
    endpoint, event, now = found.endpoint, found.event, timezone.now()
    sent = story.sent_body(bytes(event.body) if event.body is not None else None, endpoint)
    chapters = story.chapters(found, list(found.attempts.order_by("number")), sent=sent)
    held = endpoints.is_held(consumer)
    is_final = found.state in (DeliveryState.DELIVERED, DeliveryState.DEAD)
    replayable = is_final and endpoint.deleted_at is None and event.body is not None
    last = chapters[-1] if chapters else None
    schedule = endpoint.retry_schedule or settings.DELIVERY_RETRY_SCHEDULE
    return render(
        request,
        consumer,
        "delivery.html",
        title=_("Delivery"),
        section="Deliveries",
        delivery=found,
        endpoint=endpoint,
        event=event,
        chapters=chapters,
        body=story.body_of(sent) if sent is not None else None,
        dead=words.why_dead(found.dead_reason, replayable=replayable) if found.dead_reason else None,
        next=story.what_next(found, held=held, now=now),
        forgotten=found.attempt_count - len(chapters) if found.state != DeliveryState.IN_FLIGHT else 0,
        replayable=replayable,
        took=_took(found),
        attempts_left=max(0, len(schedule) - (found.attempt_count - found.round_base)),
        siblings=_siblings(found, consumer),
        advice=words.what_to_do(last.attempt.status_code, last.attempt.error_kind) if last else "",
        has_failed=last is not None and not last.succeeded,
        every=None if is_final else _EVERY,
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
    return back_to(request, here, done=_("It goes out again, with the same id and body, %(how)s.") % {"how": how})


def _took(delivery: Delivery) -> float | None:
    """Seconds from when it was accepted, or replayed, until it arrived."""
    if delivery.state != DeliveryState.DELIVERED or delivery.finished_at is None:
        return None
    return (delivery.finished_at - delivery.round_started_at).total_seconds()


def _siblings(delivery: Delivery, consumer: Consumer) -> list[Delivery]:
    own = list(Endpoint.objects.filter(consumer=consumer).values_list("id", flat=True)[:_MOST_ENDPOINTS])
    rows = Delivery.objects.filter(event_id=delivery.event_id, endpoint_id__in=own).exclude(id=delivery.id)
    return list(rows.select_related("endpoint").order_by("id")[:_MOST_SIBLINGS])


def _find(consumer: Consumer, public_id: str) -> Delivery | None:
    uuid = ids.parse("dlv", public_id)
    rows = Delivery.objects.select_related("event", "endpoint__lane").filter(endpoint__consumer=consumer)
    return rows.filter(id=uuid).first() if uuid else None
