"""What a person may do to a delivery or an endpoint by hand, each guarded by the state it was seen in, each audited.

Raises `NothingDone`, with the reason in words, when the moment has passed: somebody else was faster, or the engine.
"""

from django.db import connection, transaction
from django.utils import timezone

from deliveries import audit, bell, lifecycle, replay
from deliveries.models import Delivery, Event, Notice, NoticeKind
from subscriptions import endpoints
from subscriptions.endpoints import Rotated
from subscriptions.models import Endpoint, EndpointStatus, Lane

GIVE_UP = """
    WITH ended AS (
        UPDATE deliveries_delivery SET state = 'dead', dead_reason = 'given_up', finished_at = now(), blocked = false
        WHERE id = %(id)s AND state = 'pending'
        -- What it was before the update: a blocked one lets nobody go.
        RETURNING endpoint_id, ordering_key,
            (SELECT old.blocked FROM deliveries_delivery old WHERE old.id = %(id)s) AS was_blocked
    ), unblocked AS (
        UPDATE deliveries_delivery SET blocked = false, due_at = now()
        WHERE id = ANY (ARRAY(
            SELECT (
                SELECT waiting.id FROM deliveries_delivery waiting
                WHERE waiting.endpoint_id = ended.endpoint_id AND waiting.ordering_key = ended.ordering_key
                    AND waiting.blocked AND waiting.id <> %(id)s
                ORDER BY waiting.sequence LIMIT 1
            )
            FROM ended WHERE ordering_key IS NOT NULL AND NOT was_blocked
        ))
    )
    SELECT endpoint_id FROM ended
"""
"""Ends one waiting delivery as a dead letter; the next of its ordering key may go."""


class NothingDone(Exception):
    """It is not what it was a moment ago. Says what it is now."""


# ── deliveries ───────────────────────────────────────────────────────────────────────────────────────────────────────


@transaction.atomic
def retry_now(delivery: Delivery, *, actor: str, reason: str) -> None:
    now = timezone.now()
    moved = Delivery.objects.filter(id=delivery.id, state="pending", blocked=False).update(due_at=now)
    if not moved:
        raise NothingDone(_state_of(delivery))
    audit.record(actor=actor, action="delivery.retried_now", target=delivery.public_id, reason=reason)
    transaction.on_commit(lambda: bell.ring([delivery.endpoint_id]))


@transaction.atomic
def give_up(delivery: Delivery, *, actor: str, reason: str) -> None:
    replay.hold_keys([delivery.id])
    with connection.cursor() as cursor:
        cursor.execute(GIVE_UP, {"id": delivery.id})
        ended = cursor.fetchone()
    if ended is None:
        raise NothingDone(_state_of(delivery))
    audit.record(actor=actor, action="delivery.given_up", target=delivery.public_id, reason=reason)
    transaction.on_commit(lambda: bell.ring([delivery.endpoint_id]))


@transaction.atomic
def replay_delivery(delivery: Delivery, *, actor: str, reason: str) -> None:
    try:
        replay.replay_one(delivery)
    except replay.NotReplayable as error:
        raise NothingDone(str(error)) from None
    audit.record(actor=actor, action="delivery.replayed", target=delivery.public_id, reason=reason)


@transaction.atomic
def resend_event(event: Event, deliveries: list[Delivery], *, actor: str, reason: str) -> int:
    """Every finished delivery of it goes out again; those that still wait go out anyway."""
    resent = replay.replay_many([delivery.id for delivery in deliveries])
    if not resent:
        raise NothingDone(
            "None of them can be sent again: they are under way, or their endpoint or the payload is gone."
        )
    audit.record(actor=actor, action="event.resent", target=event.public_id, count=resent, reason=reason)
    return resent


def _state_of(delivery: Delivery) -> str:
    delivery.refresh_from_db()
    if delivery.blocked:
        return "It waits behind an earlier delivery of its ordering key and goes out after that one."
    return f"It is {delivery.get_state_display().lower()} by now, so nothing was changed."


# ── endpoints ────────────────────────────────────────────────────────────────────────────────────────────────────────


@transaction.atomic
def pause(endpoint: Endpoint, *, actor: str, reason: str) -> None:
    _expect(endpoint, [EndpointStatus.ACTIVE])
    lifecycle.pause(endpoint, reason=_because(actor, reason))
    _record(endpoint, "endpoint.paused", actor, reason)


@transaction.atomic
def resume(endpoint: Endpoint, *, actor: str, reason: str) -> None:
    _expect(endpoint, [EndpointStatus.PAUSED, EndpointStatus.DISABLED])
    lifecycle.resume(endpoint, reason=_because(actor, reason))
    _record(endpoint, "endpoint.resumed", actor, reason)


@transaction.atomic
def disable(endpoint: Endpoint, *, actor: str, reason: str) -> None:
    words = _because(actor, reason)
    moved = Endpoint.objects.filter(id=endpoint.id, status__in=["active", "paused"], deleted_at__isnull=True).update(
        status=EndpointStatus.DISABLED, disabled_reason=words, updated_at=timezone.now()
    )
    if not moved:
        _expect(endpoint, [])
    Notice.objects.create(endpoint=endpoint, kind=NoticeKind.DISABLED, reason=words)
    _record(endpoint, "endpoint.disabled", actor, reason)


@transaction.atomic
def probe_now(endpoint: Endpoint, *, actor: str, reason: str) -> None:
    """Opens the lane at once. Behind an open breaker that lets one probe out; its answer decides what follows."""
    _expect(endpoint, [EndpointStatus.ACTIVE])
    Lane.objects.filter(endpoint=endpoint).update(opens_at=timezone.now())
    _record(endpoint, "endpoint.probed", actor, reason)
    transaction.on_commit(lambda: bell.ring([endpoint.id]))


@transaction.atomic
def rotate_secret(endpoint: Endpoint, *, overlap_seconds: int, actor: str, reason: str) -> Rotated:
    """The secret goes to the caller alone, to be shown once."""
    rotated = endpoints.rotate_secret(endpoint, overlap_seconds=overlap_seconds)
    _record(endpoint, "endpoint.secret_rotated", actor, reason)
    return rotated


def _expect(endpoint: Endpoint, statuses: list[EndpointStatus]) -> None:
    """Locks the row, so that what is decided here still holds when it is done."""
    found = Endpoint.objects.select_for_update(no_key=True).filter(id=endpoint.id).first()
    if found is None or found.deleted_at is not None:
        raise NothingDone("It was deleted.")
    if found.status not in statuses:
        raise NothingDone(f"It is {found.status} by now, so nothing was changed.")


def _record(endpoint: Endpoint, action: str, actor: str, reason: str) -> None:
    audit.record(actor=actor, action=action, target=endpoint.public_id, reason=reason)


def _because(actor: str, reason: str) -> str:
    return f"by {actor}: {reason}"[:255] if reason else f"by {actor}"
