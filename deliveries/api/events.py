"""events/: emit one or a thousand, and read them back."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries import bell, ingest
from deliveries.api.emit import FAILED
from deliveries.api.shape import BATCH_FIELDS, EVENT_FIELDS, BatchIn, EventIn, read_event, read_traceparent
from deliveries.api.show import BatchOut, DeliveryOut, EventOut, show_delivery, show_event
from deliveries.browse.events import EventFilter, EventPosition, events_by_producer_id, walk_events
from deliveries.browse.times import BadTime, read_time
from deliveries.ingest import Accepted, Duplicate, NewEvent, Outcome, Refused
from deliveries.models import Delivery, DeliveryState, Event
from deliveries.statistics import counters
from subscriptions import fail_points, ids
from subscriptions.access.scopes import DELIVERIES_READ, EVENTS_READ, EVENTS_WRITE
from subscriptions.api.authentication import caller
from subscriptions.api.describe import Operation, Page, Parameter, choices
from subscriptions.api.pagination import PAGE, invalid_cursor, limit_of, next_url, page, read_cursor
from subscriptions.api.problems import Problem, invalid, not_found
from subscriptions.api.views import EVERYONE, PRODUCERS, ApiView, body_object, consumer_or_404
from subscriptions.models import Consumer

_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_CONSUMER = Parameter("consumer", "Of which consumer: its uid or id.", _TEXT)
# Of what an event may be refused for.
_REFUSED = (
    "consumer_not_found", "event_id_reused", "event_id_in_progress", "event_type_unknown", "event_type_archived",
    "schema_mismatch", "schema_refused",
)  # fmt: skip
# A producer id taken by somebody else between look-up and insert is found by the next try.
_TRIES = 5


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
        _raise_failed(request)
        shape = read_event(request.data, traceparent=read_traceparent(request.headers.get("traceparent")))
        if not isinstance(shape, NewEvent):
            raise shape

        def work(outcome: Outcome) -> tuple[int, Any]:
            result = outcome.results[0]
            if isinstance(result, Refused):
                raise _problem(result)
            return 202, _shown(result, outcome, shape)

        return _emit(self, request, [shape], work)

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
        _raise_failed(request)
        items = body_object(request).get("events")
        if not isinstance(items, list) or not 1 <= len(items) <= settings.MAX_BATCH_EVENTS:
            raise invalid([{"pointer": "/events", "detail": f"A list of 1 to {settings.MAX_BATCH_EVENTS} events."}])
        traceparent = read_traceparent(request.headers.get("traceparent"))
        shapes: list[NewEvent | Problem] = [read_event(item, traceparent=traceparent) for item in items]
        # No part is larger than the whole.
        if int(request.META["CONTENT_LENGTH"]) > settings.MAX_BODY_BYTES:
            shapes = [_sized(shape, item) for shape, item in zip(shapes, items, strict=True)]
        good = [shape for shape in shapes if isinstance(shape, NewEvent)]

        def work(outcome: Outcome) -> tuple[int, Any]:
            results = iter(outcome.results)
            return 202, {
                "results": [
                    _show_result(next(results), outcome, shape) if isinstance(shape, NewEvent) else _show_refusal(shape)
                    for shape in shapes
                ]
            }

        return _emit(self, request, good, work)


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


def _raise_failed(request: Request) -> None:
    """What the short way met. It may have happened after the commit, so the events are not stored again."""
    if failed := request.META.get(FAILED):
        raise failed


def _emit(
    view: ApiView, request: Request, new_events: Sequence[NewEvent], show: Callable[[Outcome], tuple[int, Any]]
) -> HttpResponse:
    for tries_left in reversed(range(_TRIES)):
        try:
            return view.once(
                request, lambda: _accepted(new_events, show), one_statement=ingest.takes_one_statement(new_events)
            )
        except ingest.Raced:
            if not tries_left:
                break
    raise Problem(409, "event_id_in_progress", "An event of this id is being accepted right now. Send it again.")


def _accepted(new_events: Sequence[NewEvent], show: Callable[[Outcome], tuple[int, Any]]) -> tuple[int, Any]:
    """Inside the transaction that also stores the answer; the bell rings only once that has committed."""
    outcome = ingest.accept(new_events, now=timezone.now())
    transaction.on_commit(lambda: fail_points.reach("accept.after_commit"))
    transaction.on_commit(lambda: bell.ring_members(outcome.ready))
    transaction.on_commit(lambda: _count(outcome))
    return show(outcome)


def _sized(shape: NewEvent | Problem, item: Any) -> NewEvent | Problem:
    if isinstance(shape, NewEvent) and len(orjson.dumps(item)) > settings.MAX_BODY_BYTES:
        limit = settings.MAX_BODY_BYTES // 1024
        return Problem(413, "payload_too_large", f"This event is larger than {limit} KiB.")
    return shape


def _shown(result: Accepted | Duplicate, outcome: Outcome, new: NewEvent) -> EventOut:
    data = new.data if isinstance(result, Accepted) else None
    return show_event(result.event, consumer=outcome.consumers[result.event.consumer_id], data=data)


def _show_result(result: ingest.Result, outcome: Outcome, new: NewEvent) -> dict[str, Any]:
    if isinstance(result, Refused):
        return {"status": "refused", "problem": _problem(result).document()}
    status = "accepted" if isinstance(result, Accepted) else "duplicate"
    return {"status": status, "event": _shown(result, outcome, new)}


def _show_refusal(problem: Problem) -> dict[str, Any]:
    return {"status": "refused", "problem": problem.document()}


def _problem(refused: Refused) -> Problem:
    status = {"consumer_not_found": 404, "event_id_reused": 409}.get(refused.code, 400)
    return Problem(
        status, refused.code, refused.detail, errors=[{"pointer": refused.pointer, "detail": refused.detail}]
    )


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


def _count(outcome: Outcome) -> None:
    accepted = [result.event for result in outcome.results if isinstance(result, Accepted)]
    ingest.log_accepted(accepted)
    counters.count_accepted([event.consumer_id for event in accepted])
