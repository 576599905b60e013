"""deliveries/: what is owed, what was tried, and how it went."""

from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.api.events import event_or_404, state_of, time_of
from deliveries.api.show import DeliveryDetailOut, DeliveryOut, show_attempt, show_delivery
from deliveries.browse.filter import FIELDS, Filter, FilterField
from deliveries.browse.source import WalkPosition
from deliveries.browse.walk import walk
from deliveries.models import Delivery
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.access.scopes import ATTEMPTS_READ, DELIVERIES_READ
from subscriptions.api.authentication import caller, has_scope
from subscriptions.api.describe import Operation, Page, Parameter, choices
from subscriptions.api.pagination import PAGE, invalid_cursor, limit_of, next_url, read_cursor
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.views import EVERYONE, ApiView, consumer_or_404, endpoint_or_404

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_TIME = {"type": "string", "format": "date-time"}
# What `filtered` reads. All that are given must hold.
_FILTER = (
    Parameter("state", "In which state.", {"type": "string", **choices(*DeliveryState.values)}),
    Parameter("consumer", "Of which consumer: its uid or id.", _TEXT),
    Parameter("endpoint", "To which endpoint.", _TEXT),
    Parameter("event", "Of which event: its id.", _TEXT),
    *(Parameter(each.name, each.meaning, _NUMBER if each.is_number else _TEXT) for each in FIELDS),
    Parameter("since", "Created at this moment or later.", _TIME),
    Parameter("until", "Created before this moment.", _TIME),
)


class DeliveryList(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}
    parameters = {"GET": (*_FILTER, *PAGE)}
    operations = {"GET": Operation("list_deliveries", Page[DeliveryOut], problems=("ambiguous_id", "not_found"))}

    def get(self, request: Request) -> Response:
        """List deliveries, newest first. Dead letters: `state=dead`."""
        rows, following = walked(request, filtered(request))
        return Response({"results": [show_delivery(row) for row in rows], "next": following})


class EndpointDeliveries(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}
    # The path names the endpoint.
    parameters = {"GET": (*(each for each in _FILTER if each.name != "endpoint"), *PAGE)}
    operations = {"GET": Operation("list_endpoint_deliveries", Page[DeliveryOut], problems=("ambiguous_id",))}

    def get(self, request: Request, endpoint: str) -> Response:
        """List an endpoint's deliveries, newest first."""
        found = endpoint_or_404(request, endpoint)
        rows, following = walked(request, replace(filtered(request), endpoint_id=found.id))
        return Response({"results": [show_delivery(row) for row in rows], "next": following})


class DeliveryDetail(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}
    operations = {"GET": Operation("get_delivery", DeliveryDetailOut)}

    def get(self, request: Request, delivery: str) -> Response:
        """Read a delivery, with its attempts."""
        found = delivery_or_404(request, delivery)
        shown = cast(DeliveryDetailOut, show_delivery(found))
        # What was sent and what came back is for the consumer and the operators.
        if has_scope(request, ATTEMPTS_READ):
            shown["attempts"] = [show_attempt(attempt) for attempt in found.attempts.order_by("number")]
        return Response(shown)


def delivery_or_404(request: Request, public_id: str) -> Delivery:
    uuid = ids.parse("dlv", public_id)
    found = _visible(request).filter(id=uuid).first() if uuid else None
    if found is None:
        raise not_found("delivery")
    return found


def filtered(request: Request) -> Filter:
    query, own = request.query_params, caller(request).consumer_id
    if "consumer" in query:
        own = consumer_or_404(request, query["consumer"]).id
    endpoint = endpoint_or_404(request, query["endpoint"]) if "endpoint" in query else None
    return Filter(
        state=state_of(query["state"]) if "state" in query else None,
        consumer_id=own,
        endpoint_id=endpoint.id if endpoint else None,
        event_id=event_or_404(request, query["event"]).id if "event" in query else None,
        since=time_of(query["since"], "since") if "since" in query else None,
        until=time_of(query["until"], "until") if "until" in query else None,
        **{each.name: _value(each, query[each.name]) for each in FIELDS if each.name in query},
    )


def _value(declared: FilterField, text: str) -> Any:
    try:
        return declared.read(text)
    except ValueError as error:
        raise Problem(400, "invalid_parameter", f"`{declared.name}`: {error}") from None


def walked(request: Request, wanted: Filter) -> tuple[list[Delivery], str | None]:
    """Newest first, and the URL of the next page. A page may hold fewer than its limit and still have a next one:
    what no index knows is looked for in so many deliveries at a time."""
    found = walk(wanted, size=limit_of(request), after=_position(request))
    end = found.following
    return found.rows, next_url(request, [end.key.hex, end.id.hex]) if end else None


def _position(request: Request) -> WalkPosition | None:
    cursor = read_cursor(request)
    if cursor is None:
        return None
    try:
        # One id alone, from a release that knew no other.
        return WalkPosition(UUID(hex=cursor[0]), UUID(hex=cursor[-1]))
    except (ValueError, TypeError, IndexError, AttributeError):
        raise invalid_cursor() from None


def _visible(request: Request) -> QuerySet[Delivery]:
    deliveries = Delivery.objects.select_related("event")
    own = caller(request).consumer_id
    return deliveries if own is None else deliveries.filter(endpoint__consumer_id=own)
