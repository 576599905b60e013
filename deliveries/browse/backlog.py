"""What is owed and has not gone out yet, endpoint by endpoint, with what keeps each of them waiting.

Used by the console's overview and its endpoint page. The cost is bounded: so many endpoints, so many rows of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from deliveries.browse.source import fetch
from deliveries.sql.fragments import ACTIVE, IN_FLIGHT, IS_HELD, is_claimable
from subscriptions.models import EndpointStatus

# Backlogs are counted up to here in all, but for a thousand at least of each endpoint; so many endpoints are read.
UP_TO = 200_000
ENDPOINTS = 500


class WaitReason(StrEnum):
    """Why an endpoint's due deliveries have not gone out. The first that applies, in this order."""

    HELD = "held"  # an operator's kill switch
    PAUSED = EndpointStatus.PAUSED.value
    DISABLED = EndpointStatus.DISABLED.value
    FAILING = "failing"  # its circuit breaker is open
    ASKED_TO_WAIT = "asked_to_wait"  # the receiver answered Retry-After, 429, 502, 503 or 504
    RATE_LIMITED = "rate_limited"  # served, at its own rate limit
    RECOVERING = "recovering"  # the slow start after its breaker closed
    FULL = "full"  # as many requests in flight as its concurrency allows
    SERVED = "served"  # deliveries go out, one after the other
    WORKER = "worker"  # free to go, and no worker has taken any of late


# Nothing goes out for these until something changes; for all others it is a matter of time.
PARKED = (WaitReason.HELD, WaitReason.PAUSED, WaitReason.DISABLED, WaitReason.FAILING, WaitReason.ASKED_TO_WAIT)

FIND_OWED = f"""
    WITH RECURSIVE found AS (
        (
            SELECT endpoint_id FROM deliveries_delivery
            WHERE {is_claimable()} ORDER BY endpoint_id LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT later.endpoint_id FROM deliveries_delivery later
            WHERE {is_claimable("later")} AND later.endpoint_id > found.endpoint_id
            ORDER BY later.endpoint_id LIMIT 1
        )
        FROM found WHERE found.endpoint_id IS NOT NULL
    ), owed AS (
        SELECT endpoint_id AS id FROM found WHERE endpoint_id IS NOT NULL LIMIT %(endpoints)s
    )
"""
"""The endpoints that are owed something, found by skipping through the index of due deliveries."""

READ_BACKLOG = f"""
    {FIND_OWED}, share AS MATERIALIZED (
        SELECT greatest(1000, %(up_to)s / greatest(1, count(*))) AS up_to FROM owed
    )
"""
"""With how far each of them is counted."""

READ_ONE = """
    WITH owed AS (SELECT unnest(%(ids)s::uuid[]) AS id), share AS MATERIALIZED (SELECT %(up_to)s AS up_to)
"""
"""The same for endpoints that are known."""

READ_WAITS = f"""
    SELECT endpoint.id, due.count, later.count, first.due_at, flying.count, due.count >= share.up_to
            OR later.count >= share.up_to,
        CASE
            WHEN {IS_HELD} THEN 'held'
            WHEN endpoint.status <> {ACTIVE} THEN endpoint.status
            WHEN lane.breaker_open THEN 'failing'
            -- A lane at its rate limit is closed until its next token is there: no longer than that takes.
            WHEN endpoint.rate_limit_per_second > 0
                AND lane.opens_at <= now() + interval '1 second' * (1 + 1.0 / endpoint.rate_limit_per_second)
                AND lane.tokens_at > now() - interval '1 second' * (10 + 2.0 / endpoint.rate_limit_per_second)
                AND due.count > 0 THEN 'rate_limited'
            WHEN lane.opens_at > now() THEN 'asked_to_wait'
            WHEN lane.allowance IS NOT NULL AND flying.count >= lane.allowance THEN 'recovering'
            WHEN flying.count >= endpoint.max_in_flight THEN 'full'
            WHEN flying.count > 0 OR last.finished_at > now() - interval '10 seconds' THEN 'served'
            ELSE 'worker'
        END
    FROM owed CROSS JOIN share
    JOIN subscriptions_endpoint endpoint ON endpoint.id = owed.id AND endpoint.deleted_at IS NULL
    JOIN subscriptions_lane lane ON lane.endpoint_id = endpoint.id
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = owed.id AND {is_claimable()} AND due_at <= now() LIMIT share.up_to
        ) _
    ) due
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = owed.id AND {is_claimable()} AND due_at > now() LIMIT share.up_to
        ) _
    ) later
    CROSS JOIN LATERAL (
        SELECT count(*) FROM deliveries_delivery WHERE endpoint_id = owed.id AND state = {IN_FLIGHT}
    ) flying
    LEFT JOIN LATERAL (
        SELECT due_at, event_id FROM deliveries_delivery
        WHERE endpoint_id = owed.id AND {is_claimable()} AND due_at <= now()
        ORDER BY due_at, id LIMIT 1
    ) first ON true
    -- Deliveries go out about in the order of their events: what went out last stands just before the first that waits.
    LEFT JOIN LATERAL (
        SELECT max(before.finished_at) AS finished_at FROM (
            SELECT finished_at FROM deliveries_delivery
            WHERE endpoint_id = owed.id AND event_id < first.event_id ORDER BY event_id DESC LIMIT 20
        ) before
    ) last ON true
"""
"""For each endpoint: due and later deliveries, the oldest due time, requests in flight, and why it waits."""


@dataclass(frozen=True, slots=True)
class Owed:
    """What one endpoint is owed, and why it waits."""

    endpoint_id: UUID
    due: int
    later: int
    oldest_due_at: datetime | None
    in_flight: int
    is_more: bool
    wait: WaitReason

    @property
    def waiting(self) -> int:
        return self.due + self.later


@dataclass(frozen=True, slots=True)
class Backlog:
    """What all endpoints are owed. `is_more` where not all of it was counted."""

    endpoints: Sequence[Owed]
    is_more: bool

    @property
    def due(self) -> int:
        """Free to go, now or as soon as the endpoint's own limits allow."""
        return sum(owed.due for owed in self.endpoints if owed.wait not in PARKED)

    @property
    def parked(self) -> int:
        return sum(owed.due for owed in self.endpoints if owed.wait in PARKED)

    @property
    def parked_endpoints(self) -> int:
        return sum(owed.wait in PARKED and owed.due > 0 for owed in self.endpoints)

    @property
    def later(self) -> int:
        return sum(owed.later for owed in self.endpoints)

    @property
    def oldest_due_at(self) -> datetime | None:
        """Of those that are free to go."""
        times = [owed.oldest_due_at for owed in self.endpoints if owed.wait not in PARKED]
        return min((at for at in times if at is not None), default=None)


def read_backlog() -> Backlog:
    rows = fetch(READ_BACKLOG + READ_WAITS, {"up_to": UP_TO, "endpoints": ENDPOINTS})
    owed = [_owed(row) for row in rows]
    return Backlog(owed, is_more=len(owed) >= ENDPOINTS or any(each.is_more for each in owed))


def read_owed(endpoint_id: UUID, *, up_to: int) -> Owed | None:
    """One endpoint's; None for a deleted one."""
    rows = fetch(READ_ONE + READ_WAITS, {"ids": [endpoint_id], "up_to": up_to})
    return _owed(rows[0]) if rows else None


def read_owed_of(endpoint_ids: Sequence[UUID], *, up_to: int) -> dict[UUID, Owed]:
    """Of a page of endpoints."""
    rows = fetch(READ_ONE + READ_WAITS, {"ids": list(endpoint_ids), "up_to": up_to}) if endpoint_ids else []
    return {owed.endpoint_id: owed for owed in map(_owed, rows)}


def _owed(row: tuple[object, ...]) -> Owed:
    endpoint_id, due, later, oldest_due_at, in_flight, is_more, wait = row
    return Owed(endpoint_id, due, later, oldest_due_at, in_flight, is_more, WaitReason(str(wait)))  # type: ignore[arg-type]
