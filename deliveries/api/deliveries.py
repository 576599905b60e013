"""deliveries/: what is owed, what was tried, and how it went."""

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.api.events import state_of, time_of
from deliveries.api.show import show_attempt, show_delivery
from deliveries.models import Delivery
from subscriptions import ids
from subscriptions.api.authentication import caller
from subscriptions.api.pagination import page
from subscriptions.api.problems import not_found
from subscriptions.api.views import EVERYONE, ApiView, consumer_or_404, endpoint_or_404


class DeliveryList(ApiView):
    roles = {"GET": EVERYONE}

    def get(self, request: Request) -> Response:
        rows, following = page(request, filtered(request))
        return Response({"results": [show_delivery(row) for row in rows], "next": following})


class EndpointDeliveries(ApiView):
    roles = {"GET": EVERYONE}

    def get(self, request: Request, endpoint: str) -> Response:
        rows, following = page(
            request, filtered(request).filter(endpoint=endpoint_or_404(request, endpoint)), key="event_id"
        )
        return Response({"results": [show_delivery(row) for row in rows], "next": following})


class DeliveryDetail(ApiView):
    roles = {"GET": EVERYONE}

    def get(self, request: Request, delivery: str) -> Response:
        found = delivery_or_404(request, delivery)
        attempts = [show_attempt(attempt) for attempt in found.attempts.order_by("number")]
        return Response({**show_delivery(found), "attempts": attempts})


def delivery_or_404(request: Request, public_id: str) -> Delivery:
    uuid = ids.parse("dlv", public_id)
    found = _visible(request).filter(id=uuid).first() if uuid else None
    if found is None:
        raise not_found("delivery")
    return found


def filtered(request: Request) -> QuerySet[Delivery]:
    query = request.query_params
    deliveries = _visible(request)
    if "state" in query:
        deliveries = deliveries.filter(state=state_of(query["state"]))
    if "consumer" in query:
        deliveries = deliveries.filter(endpoint__consumer=consumer_or_404(request, query["consumer"]))
    if "endpoint" in query:
        deliveries = deliveries.filter(endpoint=endpoint_or_404(request, query["endpoint"]))
    if "event_type" in query:
        deliveries = deliveries.filter(event__type=query["event_type"])
    if "since" in query:
        deliveries = deliveries.filter(id__gte=ids.first_at(time_of(query["since"], "since")))
    if "until" in query:
        deliveries = deliveries.filter(id__lt=ids.first_at(time_of(query["until"], "until")))
    return deliveries


def _visible(request: Request) -> QuerySet[Delivery]:
    deliveries = Delivery.objects.select_related("event")
    own = caller(request).consumer_id
    return deliveries if own is None else deliveries.filter(endpoint__consumer_id=own)
