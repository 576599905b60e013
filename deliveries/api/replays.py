"""deliveries/{id}/replay/ and replays/: deliveries again, one or many."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.actions import NothingDone
from deliveries.actions import deliveries as delivery_actions
from deliveries.actions import replays as actions
from deliveries.api.deliveries import delivery_or_404
from deliveries.api.show import show_delivery, show_replay
from deliveries.browse.filter import Filter
from deliveries.browse.matched import Matched, matched
from deliveries.models import DeliveryState, Replay
from subscriptions import ids
from subscriptions.api.authentication import actor, caller
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.problems import Problem, invalid, not_found
from subscriptions.api.serializers import Flag, Text, Whole, Why, WhyIn
from subscriptions.api.views import (
    EVERYONE,
    ApiView,
    body_object,
    consumer_or_404,
    endpoint_or_404,
    fields_and_why,
)
from subscriptions.models import Consumer
from subscriptions.scopes import DELIVERIES_READ, REPLAYS_WRITE


class FilterIn(serializers.Serializer[Any]):
    """Which deliveries."""

    state = serializers.ChoiceField([DeliveryState.DEAD.value, DeliveryState.DELIVERED.value], required=False)
    consumer = Text(required=False, max_length=255)
    endpoint = Text(required=False, max_length=64)
    event_type = Text(required=False, max_length=255)
    dead_reason = Text(required=False, max_length=64)
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)

    def validate_since(self, at: datetime) -> datetime:
        return _in_range(at)

    def validate_until(self, at: datetime) -> datetime:
        return _in_range(at)


class ReplayIn(FilterIn):
    """The filter's fields stand beside the others, or under `filter`."""

    filter = FilterIn(required=False)
    dry_run = Flag(required=False, default=False)
    rate_per_second = Whole(required=False, allow_null=True, min_value=1, max_value=10_000)
    why = Why()


class DeliveryReplay(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": REPLAYS_WRITE}
    fields = {"POST": WhyIn}

    def post(self, request: Request, delivery: str) -> HttpResponse:
        """202 with the delivery, pending again for a new round."""
        found = delivery_or_404(request, delivery)
        _, why = fields_and_why(WhyIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                delivery_actions.replay_one(found, actor=actor(request), why=why)
            except NothingDone as error:
                raise Problem(409, "not_replayable", str(error)) from None
            found.refresh_from_db()
            return 202, show_delivery(found)

        return self.once(request, work)


class ReplayList(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}
    scopes = {"GET": DELIVERIES_READ, "POST": REPLAYS_WRITE}
    parameters = {"GET": PAGE}
    fields = {"POST": ReplayIn}

    def get(self, request: Request) -> Response:
        rows, following = page(request, _visible(request))
        return Response({"results": [show_replay(row) for row in rows], "next": following})

    def post(self, request: Request) -> HttpResponse:
        """202 with the job; with `dry_run`, 200 with what it would take."""
        body = body_object(request)
        nested = body.get("filter", {})
        if not isinstance(nested, dict):
            raise invalid([{"pointer": "/filter", "detail": "A JSON object."}])
        if twice := sorted(nested.keys() & body.keys()):
            raise invalid([{"pointer": f"/filter/{name}", "detail": "Also given beside `filter`."} for name in twice])
        shape = ReplayIn(data={**nested, **{name: value for name, value in body.items() if name != "filter"}})
        fields, why = fields_and_why(shape)
        wanted, consumer = _filter(request, fields)
        if fields["dry_run"]:
            return Response(_show_preview(matched(wanted)))

        def work() -> tuple[int, Any]:
            job = actions.start(
                wanted,
                consumer=consumer,
                rate_per_second=fields.get("rate_per_second"),
                actor=actor(request),
                why=why,
            )
            return 202, show_replay(job)

        return self.once(request, work)


class ReplayDetail(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}

    def get(self, request: Request, replay: str) -> Response:
        return Response(show_replay(replay_or_404(request, replay)))


class ReplayCancel(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": REPLAYS_WRITE}
    fields = {"POST": WhyIn}

    def post(self, request: Request, replay: str) -> HttpResponse:
        found = replay_or_404(request, replay)
        _, why = fields_and_why(WhyIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            if not actions.cancel(found, actor=actor(request), why=why) and found.status != "cancelled":
                raise Problem(409, "already_done", "This replay is done; nothing is left to cancel.")
            return 200, show_replay(found)

        return self.once(request, work)


def replay_or_404(request: Request, public_id: str) -> Replay:
    uuid = ids.parse("rpl", public_id)
    found = _visible(request).filter(id=uuid).first() if uuid else None
    if found is None:
        raise not_found("replay")
    return found


def _visible(request: Request) -> QuerySet[Replay]:
    own = caller(request).consumer_id
    return Replay.objects.all() if own is None else Replay.objects.filter(consumer_id=own)


def _filter(request: Request, fields: dict[str, Any]) -> tuple[Filter, Consumer | None]:
    own = caller(request).consumer_id
    consumer = Consumer.objects.get(id=own) if own else None
    if "consumer" in fields:
        consumer = consumer_or_404(request, fields["consumer"])
    endpoint = endpoint_or_404(request, fields["endpoint"]) if "endpoint" in fields else None
    wanted = Filter(
        state=fields.get("state", DeliveryState.DEAD.value),
        consumer_id=consumer.id if consumer else None,
        endpoint_id=endpoint.id if endpoint else None,
        event_type=fields.get("event_type"),
        dead_reason=fields.get("dead_reason"),
        since=fields.get("since"),
        until=fields.get("until"),
    )
    return wanted, consumer


def _show_preview(found: Matched) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "matched": found.count,
        "by_endpoint": [
            {"endpoint": ids.show("ep", endpoint_id), "matched": count} for endpoint_id, count in found.by_endpoint
        ],
    }
    return shown | ({"matched_is_minimum": True} if found.is_more else {})


def _in_range(at: datetime) -> datetime:
    if not 1971 <= at.year < 9999:
        raise serializers.ValidationError("A time between 1971 and 9998.")
    return at
