"""events/: emit one or a thousand, and read them back."""

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.api import emit
from deliveries.api.shape import BATCH_FIELDS, EVENT_FIELDS, BatchIn, EventIn
from deliveries.api.show import BatchOut, DeliveryOut, EventOut, show_delivery, show_event
from deliveries.browse.events import EventFilter, EventPosition, events_by_producer_id, walk_events
from deliveries.models import Delivery, Event
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.access.scopes import DELIVERIES_READ, EVENTS_READ, EVENTS_WRITE
from subscriptions.api.authentication import caller
from subscriptions.api.describe import Operation, Page, Parameter, choices
from subscriptions.api.pagination import PAGE, invalid_cursor, limit_of, next_url, page, read_cursor
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.views import EVERYONE, PRODUCERS, ApiView, as_response, consumer_or_404
from subscriptions.models import Consumer
from subscriptions.reading.times import BadTime, read_time

_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_CONSUMER = Parameter("consumer", "Of which consumer: its uid or id.", _TEXT)
# Of what an event may be refused for.
_REFUSED = (
    "consumer_not_found", "event_id_reused", "event_id_in_progress", "event_type_unknown", "event_type_archived",
    "schema_mismatch", "schema_refused",
)  # fmt: skip


class EventList(ApiView):
    roles = {"GET": EVERYONE, "POST": PRODUCERS}
    scopes = {"GET": EVENTS_READ, "POST": EVENTS_WRITE}
    parameters = {
        "GET": (
            _CONSUMER,
            Parameter("type", "Of which event type.", _TEXT),
            Parameter("ordering_key", "With this ordering key.", _TEXT),
            Parameter("state", "With a delivery in this state.", {"type": "string", **choices(*DeliveryState.values)}),
            Parameter("since", "Accepted at this moment or later.", _TIME),
            Parameter("until", "Accepted before this moment.", _TIME),
            *PAGE,
        )
    }
    fields = {"POST": EVENT_FIELDS}
    operations = {
        "GET": Operation("list_events", Page[EventOut], problems=("not_found",)),
        "POST": Operation("emit_event", EventOut, status=202, body=EventIn, problems=_REFUSED),
    }

    def post(self, request: Request) -> HttpResponse:
        """Emit an event.

        It is stored, and owed to every endpoint that wants it, before this answers: what was answered with 202 is
        delivered at least once, or becomes a visible dead letter.
        """
        return _emit(request, emit.emit_one)

    def get(self, request: Request) -> Response:
        """List events, newest first.

        A page may hold fewer than its limit and still have a next one: what no index knows is looked for in so many
        events at a time.
        """
        wanted = _filtered(request)
        found = walk_events(wanted, size=limit_of(request), after=_position(request, wanted), with_bodies=True)
        end = found.following
        following = next_url(request, [end.key, end.id.hex]) if end else None
        shown = [show_event(row, consumer=str(row.consumer)) for row in found.rows]
        return Response({"results": shown, "next": following})


class EventBatch(ApiView):
    roles = {"POST": PRODUCERS}
    scopes = {"POST": EVENTS_WRITE}
    fields = {"POST": BATCH_FIELDS}
    operations = {"POST": Operation("emit_events", BatchOut, status=202, body=BatchIn)}
    max_body_bytes = settings.MAX_BATCH_BODY_BYTES

    def post(self, request: Request) -> HttpResponse:
        """Emit up to 1,000 events.

        The answer has one result per event, in order. Each is accepted, a duplicate, or refused by itself.
        """
        return _emit(request, emit.emit_batch)


class EventDetail(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": EVENTS_READ}
    parameters = {"GET": (_CONSUMER,)}
    operations = {"GET": Operation("get_event", EventOut, problems=("ambiguous_id",))}

    def get(self, request: Request, event: str) -> Response:
        """Read an event, by our id or your own."""
        found = event_or_404(request, event)
        return Response(show_event(found, consumer=str(found.consumer)))


class EventDeliveries(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}
    parameters = {"GET": (_CONSUMER, *PAGE)}
    operations = {"GET": Operation("list_event_deliveries", Page[DeliveryOut], problems=("ambiguous_id",))}

    def get(self, request: Request, event: str) -> Response:
        """List an event's deliveries: one for each endpoint that wanted it."""
        found = event_or_404(request, event)
        # Endpoint by endpoint of its consumer: that is the order of the index.
        deliveries = Delivery.objects.select_related("event").filter(
            endpoint__consumer_id=found.consumer_id, event=found
        )
        rows, following = page(request, deliveries)
        return Response({"results": [show_delivery(row) for row in rows], "next": following})


def event_or_404(request: Request, name: str, *, of: Consumer | None = None) -> Event:
    """By our id or by the producer's own. The latter is unique per consumer only: ?consumer= or `of` says which."""
    events = Event.objects.select_related("consumer").filter(consumer__deleted_at__isnull=True)
    own = caller(request).consumer_id or (of.id if of else None)
    if "consumer" in request.query_params:
        own = consumer_or_404(request, request.query_params["consumer"]).id
    if own is not None:
        events = events.filter(consumer_id=own)
    uuid = ids.parse("evt", name)
    found = list(events.filter(id=uuid)) if uuid else []
    if not found and own is not None:
        found = list(events.filter(producer_id=name))
    elif not found:
        named = events_by_producer_id(name, limit=2, of_deleted_consumers=False)
        found = list(events.filter(id__in=[event_id for event_id, _ in named]))
    if not found:
        raise not_found("event")
    if len(found) > 1:
        raise Problem(
            409, "ambiguous_id", "Several consumers have an event of this id; add ?consumer= to say which one you mean."
        )
    return found[0]


def _emit(request: Request, emit_body: emit.EmitBody) -> HttpResponse:
    # What happened before Django, perhaps after the commit: nothing is stored twice.
    if failed := request.META.get(emit.FAILED):
        raise failed
    return as_response(emit_body(request.META, caller(request), request.data))


def _filtered(request: Request) -> EventFilter:
    query, own = request.query_params, caller(request).consumer_id
    if "consumer" in query:
        own = consumer_or_404(request, query["consumer"]).id
    return EventFilter(
        consumer_id=own,
        type=query.get("type"),
        ordering_key=query.get("ordering_key"),
        state=state_of(query["state"]) if "state" in query else None,
        since=time_of(query["since"], "since") if "since" in query else None,
        until=time_of(query["until"], "until") if "until" in query else None,
        of_deleted_consumers=False,
    )


def _position(request: Request, wanted: EventFilter) -> EventPosition | None:
    cursor = read_cursor(request)
    if cursor is None:
        return None
    try:
        key, event_id = cursor
        position = wanted.position(key, UUID(hex=event_id))
    except (ValueError, TypeError, AttributeError):
        raise invalid_cursor() from None
    if position is None:
        raise invalid_cursor()
    return position


def state_of(value: str) -> str:
    if value not in DeliveryState.values:
        raise Problem(400, "invalid_parameter", f"`state` is one of {', '.join(DeliveryState.values)}.")
    return value


def time_of(value: str, name: str) -> datetime:
    try:
        return read_time(value, zone=True)
    except BadTime as error:
        raise Problem(400, "invalid_parameter", f"`{name}`: {error}") from None
