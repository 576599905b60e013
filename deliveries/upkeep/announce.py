"""Tells people what happened: as webhooks to the operator's own endpoints and to those of its consumer that ask for it,
through this same engine, and by mail (mail.py).

Notices are an outbox: written with what they tell of, announced afterwards. The event's id is the notice's, so a crash
between sending and marking announces nothing twice.
"""

from collections.abc import Sequence
from typing import Annotated, NotRequired, TypedDict

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from deliveries import bell, ingest
from deliveries.health.models import Notice, NoticeKind
from deliveries.ingest import NewEvent
from deliveries.upkeep import mail
from subscriptions import consumers, ids
from subscriptions.event_types import NOTIFICATION_TYPES, patterns_for
from subscriptions.models import Consumer, Endpoint, EventType

_BATCH = 500

EVENT_TYPES = {
    NoticeKind.WARNING: "endpoint.warning",
    NoticeKind.LAST_WARNING: "endpoint.warning",
    NoticeKind.DISABLED: "endpoint.disabled",
    NoticeKind.RECOVERED: "endpoint.recovered",
    NoticeKind.DEAD: "delivery.dead",
}


class NoticeData(TypedDict):
    """What an operational event is about."""

    endpoint: Annotated[str, "The endpoint's id."]
    url: str
    consumer: Annotated[str, "Whose it is: the consumer's uid, or its id where it has none."]
    reason: str
    last: NotRequired[Annotated[bool, "Of `endpoint.warning`: true a day before the endpoint is disabled."]]
    at: Annotated[str, {"format": "date-time"}]
    delivery: NotRequired[Annotated[str, "Of `delivery.dead`: the dead letter's id."]]
    event: NotRequired[Annotated[str, "Of `delivery.dead`: the id of its event."]]


def announce_next() -> int:
    """Announces the oldest notices and says how many it took."""
    operator = consumers.find(settings.OPERATOR_CONSUMER) if settings.OPERATOR_CONSUMER else None
    with transaction.atomic():
        waiting = Notice.objects.select_for_update(skip_locked=True, of=("self",)).filter(announced_at__isnull=True)
        notices = list(waiting.select_related("endpoint__consumer", "delivery__event").order_by("id")[:_BATCH])
        _emit([*_for_operator(notices, operator), *_for_consumers(notices)])
        mail.owe(notices)
        Notice.objects.filter(id__in=[notice.id for notice in notices]).update(announced_at=timezone.now())
    return len(notices)


def _for_operator(notices: Sequence[Notice], operator: Consumer | None) -> list[NewEvent]:
    # Not about the operator's own endpoints: a dead letter about a dead letter would have no end.
    if operator is None:
        return []
    told = [notice for notice in notices if notice.kind in EVENT_TYPES and notice.endpoint.consumer_id != operator.id]
    return [_event(notice, operator.public_id, EVENT_TYPES[NoticeKind(notice.kind)]) for notice in told]


def _for_consumers(notices: Sequence[Notice]) -> list[NewEvent]:
    """Where another endpoint of the same consumer asks for it by name. Nobody is told of dead letters this way."""
    told = [
        (notice, NOTIFICATION_TYPES[mail.KINDS[NoticeKind(notice.kind)]])
        for notice in notices
        if notice.kind in mail.KINDS
    ]
    return [
        _event(notice, notice.endpoint.consumer.public_id, type)
        for notice, type in told
        if notice.endpoint.consumer.deleted_at is None and _another_listens(notice.endpoint, type)
    ]


def _another_listens(endpoint: Endpoint, type: str) -> bool:
    others = Endpoint.objects.filter(consumer_id=endpoint.consumer_id, deleted_at__isnull=True).exclude(id=endpoint.id)
    return others.filter(event_types__overlap=list(patterns_for(type))).exists()


def _emit(events: Sequence[NewEvent]) -> None:
    if not events:
        return
    # Also where the catalogue refuses what it does not know: these types are ours.
    names = {*EVENT_TYPES.values(), *NOTIFICATION_TYPES.values()}
    EventType.objects.bulk_create([EventType(name=name) for name in sorted(names)], ignore_conflicts=True)
    outcome = ingest.accept(events, now=timezone.now())
    transaction.on_commit(lambda: bell.ring_members(outcome.ready))


def _event(notice: Notice, consumer: str, type: str) -> NewEvent:
    data: NoticeData = {
        "endpoint": notice.endpoint.public_id,
        "url": notice.endpoint.url,
        "consumer": str(notice.endpoint.consumer),
        "reason": notice.reason,
        "at": ingest.show_time(notice.created_at),
    }
    if type == EVENT_TYPES[NoticeKind.WARNING]:
        data["last"] = notice.kind == NoticeKind.LAST_WARNING
    if notice.delivery is not None:
        data["delivery"], data["event"] = notice.delivery.public_id, notice.delivery.event.public_id
    return NewEvent(consumer=consumer, type=type, data=dict(data), producer_id=ids.show("ntc", notice.id))
