"""What only time brings: deliveries that waited too long, endpoints that failed for days, what deleted ones are owed.

Runs every few seconds as a background task; every step is guarded, so running twice at once does no harm.
"""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q

from deliveries import replay
from deliveries.browse import feed
from deliveries.health import lifecycle
from deliveries.health.models import Hold, Notice, NoticeKind
from deliveries.models import Delivery
from deliveries.pump.models import Lease
from deliveries.sql import clock
from deliveries.sql.fragments import DEAD, PENDING, is_claimable, notice_of_death, unblock_next
from deliveries.states import DeliveryState
from subscriptions.models import Endpoint, EndpointStatus, Lane

# An endpoint is warned about after the first, again after the second, and disabled after the third.
WARN_AFTER = timedelta(days=1)
WARN_AGAIN_AFTER = timedelta(days=4)
DISABLE_AFTER = timedelta(days=5)
# A single bad moment, however long ago, is no run of failures.
SPREAD = timedelta(hours=12)
# A delivery may wait this much longer than its whole schedule takes.
EXPIRY_MARGIN = timedelta(hours=24)
_BATCH = 1000

logger = logging.getLogger(__name__)

FIND_LATE = f"""
    SELECT id FROM deliveries_delivery
    WHERE endpoint_id = %(endpoint_id)s AND {is_claimable()} AND due_at < %(before)s
    ORDER BY due_at LIMIT %(limit)s
"""
"""The deliveries of an endpoint that have been due for longest."""

EXPIRE = f"""
    WITH late AS (
        SELECT id FROM deliveries_delivery
        WHERE id = ANY (%(ids)s::uuid[]) AND {is_claimable()} AND due_at < %(before)s
        FOR UPDATE SKIP LOCKED
    ), dead AS (
        UPDATE deliveries_delivery SET state = {DEAD}, dead_reason = 'expired', finished_at = now()
        WHERE id = ANY (ARRAY(SELECT id FROM late)) AND state = {PENDING}
        RETURNING id, endpoint_id, ordering_key, dead_reason
    ), noticed AS (
        {notice_of_death("dead")}
    ), counted AS (
        INSERT INTO deliveries_delta (counter, label, subject_id) SELECT 'buried', 'expired', endpoint_id FROM dead
    )
    {unblock_next("dead")}
"""
"""Deliveries that have been due for too long behind a breaker become dead letters, with that as their reason."""


def expire_late(*, default_schedule: list[int]) -> None:
    """Only behind an open breaker: what waits for a person (paused, disabled, held) waits as long as it takes."""
    now = clock.now()
    held = Hold.objects.filter(Q(consumer__isnull=True) | Q(consumer_id=OuterRef("consumer_id")))
    behind = Endpoint.objects.filter(
        ~Exists(held), lane__breaker_open=True, status=EndpointStatus.ACTIVE, deleted_at__isnull=True
    )
    for endpoint_id, schedule in behind.values_list("id", "retry_schedule"):
        _expire(endpoint_id, before=now - timedelta(seconds=sum(schedule or default_schedule)) - EXPIRY_MARGIN)


def watch_failing() -> None:
    """Warns early, warns again a day before, and disables an endpoint that has failed for days."""
    now = clock.now()
    stages = [
        (0, WARN_AFTER, NoticeKind.WARNING, "Every delivery has failed for a day."),
        (
            1,
            WARN_AGAIN_AFTER,
            NoticeKind.LAST_WARNING,
            "Every delivery has failed for four days; the endpoint will be disabled in a day.",
        ),
    ]
    for warning_count, after, kind, reason in stages:
        for endpoint_id in _failing_since(now - after, warning_count=warning_count):
            _warn(endpoint_id, warning_count=warning_count, kind=kind, reason=reason)
    for endpoint_id in _failing_since(now - DISABLE_AFTER, warning_count=2):
        _disable(endpoint_id)


def bury_orphans() -> int:
    """What deleted endpoints are still owed: an event may have been accepted at the moment of the deletion."""
    owed = Delivery.objects.filter(endpoint_id=OuterRef("id"), state=DeliveryState.PENDING)
    # In two parts, each of which has its index.
    any_owed = Exists(owed.filter(blocked=False)) | Exists(owed.filter(blocked=True))
    deleted = Endpoint.objects.filter(any_owed, deleted_at__isnull=False)
    return sum(lifecycle.bury(endpoint_id) for endpoint_id in deleted.values_list("id", flat=True)[:100])


def advance_feed_horizon() -> None:
    """Somebody restored a dump and forgot `manage.py after_restore`: without it those events would stay hidden."""
    if feed.is_ahead() and feed.go_on_after_restore():
        logger.warning("feed.went_on_after_restore")


def drop_old_leases() -> None:
    """Forgets workers that died long ago; their deliveries were put back by the sweep."""
    Lease.objects.filter(expires_at__lt=clock.now() - timedelta(hours=1)).delete()


@transaction.atomic
def _expire(endpoint_id: UUID, *, before: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FIND_LATE, {"endpoint_id": endpoint_id, "before": before, "limit": _BATCH})
        late = [row[0] for row in cursor.fetchall()]
        if late:
            replay.hold_keys(late)
            cursor.execute(EXPIRE, {"ids": late, "before": before})


def _failing_since(at: datetime, *, warning_count: int) -> list[UUID]:
    lanes = Lane.objects.filter(
        failing_since__lte=at,
        last_failure_at__gte=F("failing_since") + SPREAD if warning_count == 2 else at,
        warning_count=warning_count,
        endpoint__status=EndpointStatus.ACTIVE,
        endpoint__deleted_at__isnull=True,
    )
    return list(lanes.values_list("endpoint_id", flat=True)[:_BATCH])


@transaction.atomic
def _warn(endpoint_id: UUID, *, warning_count: int, kind: NoticeKind, reason: str) -> None:
    lane = Lane.objects.filter(endpoint_id=endpoint_id, warning_count=warning_count, failing_since__isnull=False)
    if lane.update(warning_count=warning_count + 1, recovery_owed=True):
        Notice.objects.create(endpoint_id=endpoint_id, kind=kind, reason=reason)


def _disable(endpoint_id: UUID) -> None:
    reason = "Every delivery has failed for five days. Fix the receiver, then resume the endpoint: nothing was dropped."
    lifecycle.disable(endpoint_id, reason=reason, statuses=[EndpointStatus.ACTIVE])
