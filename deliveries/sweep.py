"""Step: sweep. Finds what no message announced: due work nobody was told of, and the work of workers that died.

It needs no Redis. Running it twice at once, or twice as often, does no harm.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db import connection as django_connection
from psycopg import AsyncConnection
from psycopg.errors import LockNotAvailable
from psycopg.rows import class_row

from deliveries import retry
from deliveries.health.breaker import Breaker
from deliveries.retry import Facts
from deliveries.settle import Outcome, lock_free_keys, settle
from deliveries.sql.fragments import MAY_BE_SENT_TO, RUNNING, is_claimable, is_lost

# Lost deliveries settled per statement.
_BATCH = 500

FIND_LOST = f"""
    SELECT delivery.id, delivery.endpoint_id, delivery.attempt_count AS number,
        delivery.attempt_count - delivery.round_base AS attempt_in_round, endpoint.url, endpoint.retry_schedule,
        delivery.ordering_key, endpoint.consumer_id
    FROM deliveries_delivery delivery
    JOIN subscriptions_endpoint endpoint ON endpoint.id = delivery.endpoint_id
    WHERE {is_lost("delivery", unless="lease.expires_at > now() OR NOT %(expired_too)s")}
    LIMIT %(limit)s
"""
"""Deliveries in flight whose worker's lease was ended or, with `expired_too`, has run out."""

LOCK_LOST = f"""
    SELECT delivery.id, delivery.attempt_count FROM deliveries_delivery delivery
    WHERE delivery.id = ANY (%(ids)s)
        AND {is_lost("delivery", unless="lease.expires_at > now() OR NOT %(expired_too)s")}
    FOR UPDATE SKIP LOCKED
"""
"""Locks those of them that are still lost. It passes over one that its worker is settling after all."""

IS_ANYTHING_LOST = f"""
    SELECT EXISTS (
        SELECT FROM deliveries_delivery delivery WHERE {is_lost("delivery")}
    )
"""
"""Whether FIND_LOST would find any; cheap enough for every second."""

FIND_DUE_ENDPOINTS = f"""
    WITH RECURSIVE found AS (
        -- The order is that of the index `delivery_due`, so no plan can do without it, whatever else there is.
        (
            SELECT endpoint_id, due_at FROM deliveries_delivery
            WHERE {is_claimable()} ORDER BY endpoint_id, due_at, id LIMIT 1
        )
        UNION ALL
        SELECT following.* FROM found CROSS JOIN LATERAL (
            SELECT later.endpoint_id, later.due_at FROM deliveries_delivery later
            WHERE {is_claimable("later")} AND later.endpoint_id > found.endpoint_id
            ORDER BY later.endpoint_id, later.due_at, later.id LIMIT 1
        ) following
    )
    SELECT found.endpoint_id
    FROM found
    JOIN subscriptions_endpoint endpoint ON endpoint.id = found.endpoint_id
    JOIN subscriptions_lane lane ON lane.endpoint_id = found.endpoint_id
    WHERE found.due_at <= now() AND lane.opens_at <= now() AND {MAY_BE_SENT_TO}
    ORDER BY found.due_at
    LIMIT %(limit)s
"""
"""Endpoints with work that is due and may go out, the longest due first: where there are more of them than one sweep
takes, each has its turn. Skips through the due index, one step per endpoint, never per row."""

DO_CHORES_WAIT = f"""
    SELECT EXISTS (SELECT FROM deliveries_replay WHERE status = {RUNNING}),
        EXISTS (SELECT FROM deliveries_notice WHERE announced_at IS NULL)
"""
"""What background tasks have to do, so that they run only when there is something."""


@dataclass(frozen=True, slots=True)
class Lost:
    id: UUID
    endpoint_id: UUID
    number: int
    attempt_in_round: int
    url: str
    retry_schedule: list[int] | None
    ordering_key: str | None
    consumer_id: UUID

    @property
    def ordering(self) -> tuple[UUID, str] | None:
        return (self.consumer_id, self.ordering_key) if self.ordering_key is not None else None


class LeaseWatch:
    """Whether a lease that has run out says that its worker is dead. Kept by whoever sweeps, for life.

    While the database was away or frozen, nobody could renew. So after it was silent for half of a lease, and after a
    start, all have the time of two renewals first. Leases that were ended by somebody are believed at any time.
    """

    def __init__(
        self, *, lease_seconds: float, renew_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._longest_silence = lease_seconds / 2
        self._renewal = 2 * renew_seconds
        self._clock = clock
        self._answered_at = clock()
        self._believes_from = clock() + renew_seconds

    def answered(self) -> None:
        """The database did."""
        now = self._clock()
        if now - self._answered_at > self._longest_silence:
            self._believes_from = now + self._renewal
        self._answered_at = now

    def believes(self) -> bool:
        """To be asked when the database has just answered."""
        self.answered()
        return self._clock() >= self._believes_from


async def recover_lost(
    connection: AsyncConnection,
    *,
    schedule: list[int],
    breaker: Breaker,
    believes: Callable[[], bool] = lambda: True,
) -> int:
    """Puts the deliveries of dead workers back. The lost attempt counts: it may well have reached the receiver.

    `believes` says whether leases that have run out count; see Watch.
    """
    recovered = 0
    while True:
        async with connection.transaction():
            await connection.execute("SELECT")  # a database that was frozen answers this late
            expired_too = believes()
            lost = await _lock_lost(connection, expired_too=expired_too)
            if expired_too and not believes():
                break  # it was frozen in between, and looked at the leases after
            now = datetime.now(UTC)
            outcomes = [_lost(row, schedule=schedule, now=now) for row in lost]
            settled_count = await _settle_lost(connection, outcomes, breaker=breaker) if outcomes else 0
        recovered += settled_count
        if settled_count < _BATCH:
            break
    return recovered


async def _settle_lost(connection: AsyncConnection, lost: list[Outcome], *, breaker: Breaker) -> int:
    """How many. The next delivery of an ordering key may be held by somebody: then that key alone waits."""
    try:
        async with connection.transaction():
            await settle(connection, lost, breaker=breaker)
        return len(lost)
    except LockNotAvailable:
        if len(lost) == 1:
            return 0
        return sum([await _settle_lost(connection, [each], breaker=breaker) for each in lost])


async def _lock_lost(connection: AsyncConnection, *, expired_too: bool) -> list[Lost]:
    """Their ordering keys first, as settling does: the other way round, a late settler and this could deadlock. A key
    that somebody holds waits for the next sweep, and holds up no others."""
    cursor = connection.cursor(row_factory=class_row(Lost))
    wanted = {"limit": _BATCH, "expired_too": expired_too}
    found = {row.id: row for row in await (await cursor.execute(FIND_LOST, wanted)).fetchall()}
    if not found:
        return []
    held_keys = await lock_free_keys(connection, {row.ordering for row in found.values() if row.ordering})
    found = {lost_id: row for lost_id, row in found.items() if row.ordering not in held_keys}
    locked = await (await connection.execute(LOCK_LOST, {"ids": list(found), "expired_too": expired_too})).fetchall()
    return [found[lost_id] for lost_id, number in locked if found[lost_id].number == number]


def anything_lost() -> bool:
    with django_connection.cursor() as cursor:
        cursor.execute(IS_ANYTHING_LOST)
        return bool((cursor.fetchone() or [False])[0])


def chores_waiting() -> tuple[bool, bool]:
    """Whether replay jobs are running, and whether something is to be announced."""
    with django_connection.cursor() as cursor:
        cursor.execute(DO_CHORES_WAIT)
        replays, notices = cursor.fetchone() or (False, False)
    return replays, notices


def due_endpoints_now(*, limit: int) -> list[UUID]:
    """The same as `due_endpoints`, for who has no event loop."""
    with django_connection.cursor() as cursor:
        cursor.execute(FIND_DUE_ENDPOINTS, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


async def due_endpoints(connection: AsyncConnection, *, limit: int) -> list[UUID]:
    cursor = await connection.execute(FIND_DUE_ENDPOINTS, {"limit": limit}, prepare=True)
    return [row[0] for row in await cursor.fetchall()]


def _lost(row: Lost, *, schedule: list[int], now: datetime) -> Outcome:
    verdict = retry.decide(
        Facts(status_code=None, error_kind="worker_lost"),
        attempt_in_round=row.attempt_in_round,
        schedule=row.retry_schedule or schedule,
        now=now,
        jitter=0,
    )
    return Outcome(
        delivery_id=row.id,
        endpoint_id=row.endpoint_id,
        ordering=row.ordering,
        number=row.number,
        verdict=verdict,
        decided_at=now,
        started_at=now,
        duration_ms=0,
        url=row.url,
        error_kind="worker_lost",
        error_detail="The worker died during this attempt; whether it reached the receiver is not known.",
    )
