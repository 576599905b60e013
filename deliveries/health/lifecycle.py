"""An endpoint's life where it touches deliveries: changed, paused, resumed, deleted. Nothing owed is forgotten."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from deliveries import bell, states
from deliveries.health.models import Notice, NoticeKind
from deliveries.models import Delivery
from deliveries.sql.fragments import DEAD, DISABLE_ENDPOINTS, LIVE, PENDING, is_claimable, lock_keys
from deliveries.statistics import deltas
from subscriptions import endpoints, ids
from subscriptions.models import Endpoint, EndpointStatus, Lane

# Notices of what people do, which may be as often as they like; the others follow from deliveries.
_BY_HAND = (NoticeKind.PAUSED, NoticeKind.RESUMED)
_KEPT_PER_DAY = 20

LOCK_KEYS = lock_keys(f"""
    -- The event's key: a delivery has none while its endpoint wants no order.
    SELECT DISTINCT event.consumer_id, event.ordering_key AS key
    FROM deliveries_delivery delivery JOIN deliveries_event event ON event.id = delivery.event_id
    WHERE delivery.endpoint_id = %(endpoint_id)s AND delivery.state IN {LIVE} AND event.ordering_key IS NOT NULL
""")
"""Waits until no event is being accepted that would wait behind one of this endpoint's deliveries."""

PUT_IN_ORDER = f"""
    UPDATE deliveries_delivery delivery
    SET ordering_key = ranked.ordering_key, sequence = ranked.sequence, blocked = ranked.place > 1
    FROM (
        SELECT waiting.id, event.ordering_key, event.sequence,
            row_number() OVER (PARTITION BY event.ordering_key ORDER BY event.sequence) AS place
        FROM deliveries_delivery waiting JOIN deliveries_event event ON event.id = waiting.event_id
        WHERE waiting.endpoint_id = %(endpoint_id)s AND waiting.state = {PENDING} AND event.ordering_key IS NOT NULL
    ) ranked
    WHERE delivery.id = ranked.id AND delivery.state = {PENDING}
"""
"""The backlog of an endpoint that wants order from now on: one delivery per key stays free, the others wait for it.

What is in flight at this moment ends by itself.
"""

LET_ALL_GO = f"""
    UPDATE deliveries_delivery SET ordering_key = NULL, sequence = NULL, blocked = false
    WHERE endpoint_id = %(endpoint_id)s AND state IN {LIVE} AND ordering_key IS NOT NULL
"""
"""The backlog of an endpoint that no longer wants order."""

BURY = f"""
    -- In two parts, each in the order of its index: a long history is not read for the little that is owed.
    WITH orphaned AS (
        SELECT id FROM deliveries_delivery
        WHERE endpoint_id = %(endpoint_id)s AND {is_claimable()}
        ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ), waiting AS (
        SELECT id FROM deliveries_delivery
        WHERE endpoint_id = %(endpoint_id)s AND blocked
        ORDER BY ordering_key, sequence LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ), buried AS (
        UPDATE deliveries_delivery
        SET state = {DEAD}, dead_reason = 'endpoint_deleted', finished_at = now(), blocked = false
        WHERE id = ANY (ARRAY(SELECT id FROM orphaned UNION ALL SELECT id FROM waiting))
        RETURNING id
    )
    INSERT INTO deliveries_delta (counter, label, subject_id)
    SELECT 'buried', 'endpoint_deleted', %(endpoint_id)s FROM buried
"""
"""What a deleted endpoint was still owed becomes a dead letter, in small batches."""


@transaction.atomic
def update(endpoint: Endpoint, changes: dict[str, Any]) -> Endpoint:
    before = Endpoint.objects.select_for_update(no_key=True).get(id=endpoint.id)
    turned = "ordered" in changes and changes["ordered"] != before.ordered
    if turned:
        # No claim for this endpoint while its backlog is put in order, and no event that waits for one of its keys.
        Lane.objects.select_for_update(no_key=True).get(endpoint=endpoint)
        _run(LOCK_KEYS, endpoint)
    changed = endpoints.update(endpoint, changes)
    if changed.url != before.url:
        _move_house(changed)
    if turned:
        _run(LET_ALL_GO, endpoint)
        if changes["ordered"]:
            _run(PUT_IN_ORDER, endpoint)
    return changed


@transaction.atomic
def pause(endpoint: Endpoint, *, reason: str) -> None:
    if endpoints.pause(endpoint):
        _note(endpoint, NoticeKind.PAUSED, reason)


@transaction.atomic
def resume(endpoint: Endpoint, *, reason: str) -> None:
    was_open = Lane.objects.filter(endpoint=endpoint, breaker_open=True).exists()
    if endpoints.resume(endpoint):
        _note(endpoint, NoticeKind.RESUMED, reason)
        if was_open:
            deltas.count(deltas.BREAKER, "closed")
        transaction.on_commit(lambda: bell.ring([endpoint.id]))


def disable(endpoint_id: UUID, *, reason: str, statuses: Sequence[EndpointStatus]) -> bool:
    """True if this call disabled it: it had one of these statuses, and was not deleted."""
    given: dict[str, Any] = {
        "endpoint_ids": [endpoint_id],
        "reasons": [reason],
        "statuses": [status.value for status in statuses],
    }
    with connection.cursor() as cursor:
        cursor.execute(DISABLE_ENDPOINTS, given)
        return cursor.fetchone() is not None


def backlog(endpoint: Endpoint) -> int:
    return Delivery.objects.filter(endpoint=endpoint, state__in=states.LIVE).count()


def bury(endpoint_id: UUID, *, batch: int = 1000) -> int:
    """Ends what a deleted endpoint is still owed. Requests in flight end by themselves and are buried next time."""
    with connection.cursor() as cursor:
        cursor.execute(BURY, {"endpoint_id": endpoint_id, "limit": batch})
        return int(cursor.rowcount)


def _move_house(endpoint: Endpoint) -> None:
    """What the receiver at the old address did says nothing about the new one."""
    lane = Lane.objects.select_for_update(no_key=True).get(endpoint=endpoint)
    endpoints.forget_failures(endpoint)
    if lane.breaker_open:
        _note(endpoint, NoticeKind.BREAKER_CLOSED, "its URL was changed")
        deltas.count(deltas.BREAKER, "closed")
    transaction.on_commit(lambda: bell.ring([endpoint.id]))


def _run(statement: str, endpoint: Endpoint) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"endpoint_id": endpoint.id, "consumer_id": endpoint.consumer_id})


def _note(endpoint: Endpoint, kind: NoticeKind, reason: str) -> None:
    Notice.objects.create(endpoint=endpoint, kind=kind, reason=reason)
    if kind in _BY_HAND:
        _keep_newest(endpoint)


def _keep_newest(endpoint: Endpoint) -> None:
    """Who pauses and resumes in a loop writes no history: of one day, the newest notices are kept."""
    yesterday = ids.first_at(timezone.now() - timedelta(days=1))
    of_today = Notice.objects.filter(endpoint=endpoint, kind__in=_BY_HAND, id__gte=yesterday)
    too_many = list(of_today.order_by("-id").values_list("id", flat=True)[_KEPT_PER_DAY : _KEPT_PER_DAY + 100])
    if too_many:
        Notice.objects.filter(id__in=too_many).delete()
