"""deliveries/{id}/replay/ and replays/: deliveries again, one or many."""

from dataclasses import replace
from typing import Annotated, Any, NotRequired, TypedDict
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.actions import NothingDone
from deliveries.actions import deliveries as delivery_actions
from deliveries.actions import replays as actions
from deliveries.api.deliveries import delivery_or_404
from deliveries.api.events import event_or_404
from deliveries.api.show import (
    DeliveryOut,
    ReplayDetailOut,
    ReplayOut,
    show_delivery,
    show_replay,
    show_replay_detail,
)
from deliveries.browse.filter import FIELDS, Filter, FilterField
from deliveries.browse.matched import Matched
from deliveries.replaying.missed import Missed
from deliveries.replaying.models import Replay, ReplayStatus
from deliveries.replaying.preview import preview
from deliveries.replaying.results import results
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.access.scopes import DELIVERIES_READ, REPLAYS_WRITE
from subscriptions.api.authentication import actor, caller
from subscriptions.api.describe import Operation, Page, id_of
from subscriptions.api.fields import Flag, Text, Whole, Why, WhyIn
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.problems import Problem, escaped, invalid, not_found
from subscriptions.api.views import (
    EVERYONE,
    ApiView,
    body_object,
    consumer_or_404,
    endpoint_or_404,
    fields_and_why,
)
from subscriptions.models import Consumer
from subscriptions.reading.times import BadTime, read_time


class Time(Text):
    """A time with its zone, read as everywhere."""

    def __init__(self, **options: Any) -> None:
        super().__init__(keywords={"format": "date-time"}, **options)

    def to_internal_value(self, data: Any) -> Any:
        try:
            return read_time(super().to_internal_value(data), zone=True)
        except BadTime as error:
            raise serializers.ValidationError(str(error)) from None


class FilterText(Text):
    """A filter as browse/filter.py declares it."""

    def __init__(self, declared: FilterField) -> None:
        super().__init__(required=False, max_length=declared.longest, help_text=declared.meaning)
        self.declared = declared

    def to_internal_value(self, data: Any) -> Any:
        return _read(self.declared, super().to_internal_value(data))


class FilterNumber(Whole):
    """The same for one that is a whole number."""

    def __init__(self, declared: FilterField) -> None:
        super().__init__(required=False, help_text=declared.meaning)
        self.declared = declared

    def to_internal_value(self, data: Any) -> Any:
        return _read(self.declared, str(super().to_internal_value(data)))


class FilterIn(serializers.Serializer[Any]):
    """Which deliveries. All of it must hold."""

    state = serializers.ChoiceField(
        [DeliveryState.DEAD.value, DeliveryState.DELIVERED.value],
        required=False,
        help_text="Dead letters unless said otherwise.",
    )
    consumer = Text(required=False, max_length=255, help_text="Of which consumer: its uid or id.")
    endpoint = Text(required=False, max_length=64, help_text="To which endpoint.")
    event = Text(required=False, max_length=255, help_text="Of which event: its id.")
    deliveries = serializers.ListField(
        child=Text(max_length=64), required=False, allow_empty=False, max_length=1000, help_text="These, by their ids."
    )
    since = Time(required=False, help_text="Created at this moment or later.")
    until = Time(required=False, help_text="Created before this moment.")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        declared = {each.name: FilterNumber(each) if each.is_number else FilterText(each) for each in FIELDS}
        return {**super().get_fields(), **declared}


class ReplayIn(FilterIn):
    """Which deliveries to send again, and how. The filter's fields stand beside the others, or under `filter`."""

    filter = FilterIn(required=False, help_text="The same fields, where you like them apart.")
    missed_since = Time(
        required=False,
        help_text="Instead of a filter, with `endpoint`: events since then that it never had.",
    )
    missed_until = Time(required=False, help_text="Up to here; left out, up to now.")
    # Everything, said aloud: needed where no filter is given. With filters it changes nothing: they hold.
    all = Flag(required=False, default=False, help_text="Needed where no filter is given besides `state`.")
    dry_run = Flag(required=False, default=False, help_text="Say how many it would take, and do nothing.")
    rate_per_second = Whole(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=10_000,
        help_text="How many are put back per second; null: as fast as it goes.",
    )
    why = Why()


class EndpointMatchesOut(TypedDict):
    """How many of a replay's deliveries go to one endpoint."""

    endpoint: Annotated[str, id_of("ep")]
    matched: int


class PreviewOut(TypedDict):
    """What a replay would take. Nothing was done."""

    matched: int
    by_endpoint: list[EndpointMatchesOut]
    matched_is_minimum: NotRequired[Annotated[bool, "There are more than were counted."]]


class DeliveryReplay(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": REPLAYS_WRITE}
    fields = {"POST": WhyIn}
    operations = {"POST": Operation("replay_delivery", DeliveryOut, status=202, problems=("not_replayable",))}

    def post(self, request: Request, delivery: str) -> HttpResponse:
        """Send a delivery again. It is pending for a new round; its event id, body and history stay."""
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
    operations = {
        "GET": Operation("list_replays", Page[ReplayOut]),
        "POST": Operation(
            "create_replay",
            ReplayOut,
            status=202,
            problems=("filter_required", "too_many_replays", "not_found", "ambiguous_id"),
            also={200: PreviewOut},
        ),
    }

    def get(self, request: Request) -> Response:
        """List replay jobs, newest first."""
        rows, following = page(request, _visible(request))
        return Response({"results": [show_replay(row) for row in rows], "next": following})

    def post(self, request: Request) -> HttpResponse:
        """Send many deliveries again.

        The answer is the job, which goes on by itself. With `dry_run`, the answer is 200 and says how many deliveries
        it would take, and nothing is done.
        """
        fields, why = fields_and_why(ReplayIn(data=_flat(body_object(request))))
        wanted, consumer = _missed(request, fields) if _asks_for_missed(fields) else _filter(request, fields)
        if fields["dry_run"]:
            return Response(_show_preview(preview(wanted)))

        def work() -> tuple[int, Any]:
            try:
                job = actions.start(
                    wanted,
                    consumer=consumer,
                    rate_per_second=fields.get("rate_per_second"),
                    actor=actor(request),
                    why=why,
                )
            except actions.TooManyReplays as error:
                raise Problem(409, "too_many_replays", str(error)) from None
            return 202, show_replay(job)

        return self.once(request, work)


class ReplayDetail(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}
    operations = {"GET": Operation("get_replay", ReplayDetailOut)}

    def get(self, request: Request, replay: str) -> Response:
        """Read a replay job, and what has become of the deliveries that it put back."""
        found = replay_or_404(request, replay)
        return Response(show_replay_detail(found, results(found)))


class ReplayCancel(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": REPLAYS_WRITE}
    fields = {"POST": WhyIn}
    operations = {"POST": Operation("cancel_replay", ReplayOut, problems=("already_done",))}

    def post(self, request: Request, replay: str) -> HttpResponse:
        """Cancel a replay job. What it has put back goes out all the same."""
        found = replay_or_404(request, replay)
        _, why = fields_and_why(WhyIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            if not actions.cancel(found, actor=actor(request), why=why) and found.status != ReplayStatus.CANCELLED:
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


def _flat(body: dict[str, Any]) -> dict[str, Any]:
    """The filter's fields stand beside the others, or under `filter`; not in both places."""
    nested = body.get("filter", {})
    if not isinstance(nested, dict):
        raise invalid([{"pointer": "/filter", "detail": "A JSON object."}])
    if twice := [name for name in nested if name in body]:
        detail = "Said twice: under `filter` and beside it."
        raise invalid([{"pointer": f"/filter/{escaped(name)}", "detail": detail} for name in twice])
    return {**nested, **{name: value for name, value in body.items() if name != "filter"}}


def _asks_for_missed(fields: dict[str, Any]) -> bool:
    return "missed_since" in fields or "missed_until" in fields


def _missed(request: Request, fields: dict[str, Any]) -> tuple[Missed, Consumer]:
    """What one endpoint never had. Filters of deliveries say nothing about events that have none."""
    known = {"endpoint", "missed_since", "missed_until", "dry_run", "rate_per_second", "all"}
    if others := sorted(set(fields) - known):
        detail = "Not together with `missed_since`: it sends events that have no delivery yet."
        raise invalid([{"pointer": f"/{name}", "detail": detail} for name in others])
    if needed := [name for name in ("endpoint", "missed_since") if name not in fields]:
        raise invalid([{"pointer": f"/{name}", "detail": "Needed to send what an endpoint missed."} for name in needed])
    endpoint, until = endpoint_or_404(request, fields["endpoint"]), fields.get("missed_until") or timezone.now()
    if until <= fields["missed_since"]:
        raise invalid([{"pointer": "/missed_since", "detail": "Not before `missed_until`, or in the future."}])
    missed = Missed(endpoint.consumer_id, endpoint.id, since=fields["missed_since"], until=until)
    return missed, endpoint.consumer


def _filter(request: Request, fields: dict[str, Any]) -> tuple[Filter, Consumer | None]:
    """What is asked for, of whose deliveries. What a consumer's key implies is no filter: the rule is about slips."""
    consumer = consumer_or_404(request, fields["consumer"]) if "consumer" in fields else None
    endpoint = endpoint_or_404(request, fields["endpoint"]) if "endpoint" in fields else None
    asked = Filter(
        state=fields.get("state", DeliveryState.DEAD.value),
        consumer_id=consumer.id if consumer else None,
        endpoint_id=endpoint.id if endpoint else None,
        event_id=event_or_404(request, fields["event"], of=consumer).id if "event" in fields else None,
        delivery_ids=_deliveries(fields["deliveries"]) if "deliveries" in fields else None,
        **{name: fields.get(name) for name in (*(each.name for each in FIELDS), "since", "until")},
    )
    if not (asked.is_narrowed or fields["all"]):
        raise Problem(
            400,
            "filter_required",
            f"Say which deliveries: consumer, endpoint, event, {', '.join(each.name for each in FIELDS)},"
            ' deliveries, since or until. A replay of all of them needs `"all": true`.',
        )
    own = caller(request).consumer_id
    if consumer is None and own is not None:
        consumer = Consumer.objects.get(id=own)
    return replace(asked, consumer_id=consumer.id if consumer else None), consumer


def _read(declared: FilterField, text: str) -> Any:
    try:
        return declared.read(text)
    except ValueError as error:
        raise serializers.ValidationError(str(error)) from None


def _deliveries(public_ids: list[str]) -> tuple[UUID, ...]:
    found = [ids.parse("dlv", public_id) for public_id in public_ids]
    if wrong := [number for number, uuid in enumerate(found) if uuid is None]:
        raise invalid([{"pointer": f"/deliveries/{number}", "detail": "No id of a delivery."} for number in wrong])
    return tuple(uuid for uuid in found if uuid is not None)


def _show_preview(found: Matched) -> PreviewOut:
    shown: PreviewOut = {
        "matched": found.count,
        "by_endpoint": [
            {"endpoint": ids.show("ep", endpoint_id), "matched": count} for endpoint_id, count in found.by_endpoint
        ],
    }
    if found.is_more:
        shown["matched_is_minimum"] = True
    return shown
