"""Deliveries: retried now, given up, replayed; an event sent again to its endpoints."""

from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from deliveries import bell
from deliveries import replay as step
from deliveries.actions import NothingDone
from deliveries.models import Delivery, Event
from deliveries.sql.fragments import DEAD, PENDING, unblock_next
from deliveries.states import DeliveryState
from subscriptions.audit import Actor, record

GIVE_UP = f"""
    WITH ended AS (
        UPDATE deliveries_delivery SET state = {DEAD}, dead_reason = 'given_up', finished_at = now(), blocked = false
        WHERE id = %(id)s AND state = {PENDING}
        -- What it was before the update: a blocked one lets nobody go.
        RETURNING endpoint_id, ordering_key,
            (SELECT old.blocked FROM deliveries_delivery old WHERE old.id = %(id)s) AS was_blocked
    ), unblocked AS (
        {unblock_next("ended", where="AND NOT ended.was_blocked", except_for="AND waiting.id <> %(id)s")}
    ), counted AS (
        INSERT INTO deliveries_delta (counter, label, subject_id) SELECT 'buried', 'given_up', endpoint_id FROM ended
    )
    SELECT endpoint_id FROM ended
"""
"""Ends one waiting delivery as a dead letter; the next of its ordering key may go."""


@transaction.atomic
def retry_now(delivery: Delivery, *, actor: Actor, why: str) -> None:
    now = timezone.now()
    moved = Delivery.objects.filter(id=delivery.id, state=DeliveryState.PENDING, blocked=False).update(due_at=now)
    if not moved:
        raise NothingDone(_state_of(delivery))
    _record(delivery, "delivery.retried_now", actor, why)
    transaction.on_commit(lambda: bell.ring([delivery.endpoint_id]))


@transaction.atomic
def give_up(delivery: Delivery, *, actor: Actor, why: str) -> None:
    step.hold_keys([delivery.id])
    with connection.cursor() as cursor:
        cursor.execute(GIVE_UP, {"id": delivery.id})
        ended = cursor.fetchone()
    if ended is None:
        raise NothingDone(_state_of(delivery))
    _record(delivery, "delivery.given_up", actor, why)
    transaction.on_commit(lambda: bell.ring([delivery.endpoint_id]))


@transaction.atomic
def replay_one(delivery: Delivery, *, actor: Actor, why: str) -> None:
    try:
        step.replay_one(delivery)
    except step.NotReplayable as error:
        raise NothingDone(str(error)) from None
    _record(delivery, "delivery.replayed", actor, why)


@transaction.atomic
def resend_event(event: Event, deliveries: list[Delivery], *, actor: Actor, why: str) -> int:
    """Every finished delivery of it goes out again; those that still wait go out anyway."""
    resent = step.replay_many([delivery.id for delivery in deliveries])
    if not resent:
        raise NothingDone(
            "None of them can be sent again: they are under way, or their endpoint or the payload is gone."
        )
    record(
        actor=actor, action="event.resent", target=event.public_id, consumer=event.consumer_id, count=resent, why=why
    )
    return resent


def _state_of(delivery: Delivery) -> str:
    delivery.refresh_from_db()
    if delivery.blocked:
        return _("It waits behind an earlier delivery of its ordering key and goes out after that one.")
    return _("It is %(state)s by now, so nothing was changed.") % {"state": _(delivery.get_state_display().lower())}


def _record(delivery: Delivery, action: str, actor: Actor, why: str) -> None:
    consumer_id = delivery.endpoint.consumer_id
    record(actor=actor, action=action, target=delivery.public_id, consumer=consumer_id, why=why)
