"""Tells people what happened: as webhooks to the operator's own endpoints, through this same engine, and by e-mail.

Notices are an outbox: written with what they tell of, announced afterwards. The event's id is the notice's, so a crash
between sending and marking announces nothing twice.
"""

import logging
from collections.abc import Sequence
from typing import Annotated, NotRequired, TypedDict

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.utils import timezone

from deliveries import bell, ingest
from deliveries.ingest import NewEvent
from deliveries.models import Notice, NoticeKind
from subscriptions import consumers, ids
from subscriptions.models import Consumer, EventType

_BATCH = 500

EVENT_TYPES = {
    NoticeKind.WARNING: "endpoint.warning",
    NoticeKind.DISABLED: "endpoint.disabled",
    NoticeKind.RECOVERED: "endpoint.recovered",
    NoticeKind.DEAD: "delivery.dead",
}
# A consumer's contact hears what it should act on; dead letters one by one would be noise.
_BY_MAIL = {
    NoticeKind.WARNING: (
        "Your webhook endpoint is failing",
        "What is owed to it is kept, and goes out once it answers with a 2xx status again.",
    ),
    NoticeKind.DISABLED: (
        "Your webhook endpoint was disabled",
        "Nothing more is sent to it. What is owed to it is kept, and goes out once you resume the endpoint.",
    ),
    NoticeKind.RECOVERED: ("Your webhook endpoint works again", "What was owed to it is on its way."),
}

logger = logging.getLogger(__name__)


class NoticeData(TypedDict):
    """What an operational event is about."""

    endpoint: Annotated[str, "The endpoint's id."]
    url: str
    consumer: Annotated[str, "Whose it is: the consumer's uid, or its id where it has none."]
    reason: str
    at: Annotated[str, {"format": "date-time"}]
    delivery: NotRequired[Annotated[str, "Of `delivery.dead`: the dead letter's id."]]
    event: NotRequired[Annotated[str, "Of `delivery.dead`: the id of its event."]]


def announce_next() -> int:
    """Announces the oldest notices and says how many it took."""
    operator = consumers.find(settings.OPERATOR_CONSUMER) if settings.OPERATOR_CONSUMER else None
    with transaction.atomic():
        waiting = Notice.objects.select_for_update(skip_locked=True, of=("self",)).filter(announced_at__isnull=True)
        notices = list(waiting.select_related("endpoint__consumer", "delivery__event").order_by("id")[:_BATCH])
        if operator is not None:
            _emit(notices, operator)
        Notice.objects.filter(id__in=[notice.id for notice in notices]).update(announced_at=timezone.now())
    for notice in notices:
        _mail(notice)
    return len(notices)


def _emit(notices: Sequence[Notice], operator: Consumer) -> None:
    # Not about the operator's own endpoints: a dead letter about a dead letter would have no end.
    told = [notice for notice in notices if notice.kind in EVENT_TYPES and notice.endpoint.consumer_id != operator.id]
    if not told:
        return
    # Also where the catalogue refuses what it does not know: these types are ours.
    EventType.objects.bulk_create([EventType(name=name) for name in EVENT_TYPES.values()], ignore_conflicts=True)
    outcome = ingest.accept([_event(notice, operator) for notice in told], now=timezone.now())
    transaction.on_commit(lambda: bell.ring_members(outcome.ready))


def _event(notice: Notice, operator: Consumer) -> NewEvent:
    data: NoticeData = {
        "endpoint": notice.endpoint.public_id,
        "url": notice.endpoint.url,
        "consumer": str(notice.endpoint.consumer),
        "reason": notice.reason,
        "at": ingest.show_time(notice.created_at),
    }
    if notice.delivery is not None:
        data["delivery"], data["event"] = notice.delivery.public_id, notice.delivery.event.public_id
    return NewEvent(
        consumer=operator.public_id,
        type=EVENT_TYPES[NoticeKind(notice.kind)],
        data=dict(data),
        producer_id=ids.show("ntc", notice.id),
    )


def _mail(notice: Notice) -> None:
    to = notice.endpoint.consumer.contact_email
    if notice.kind not in _BY_MAIL or not to:
        return
    subject, advice = _BY_MAIL[NoticeKind(notice.kind)]
    text = f"{notice.endpoint.url}\n\n{notice.reason}\n\n{advice}"
    try:
        send_mail(subject, text, None, [to])
    except OSError as error:
        # The notice is on record and on the pages; a mail server that is away must not hold the next ones back.
        logger.warning("mail.failed", extra={"fields": {"notice": str(notice.id), "error": repr(error)}})
