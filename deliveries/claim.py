"""Step: claim. Due deliveries of ready endpoints become `in_flight`, held by this worker's lease. One round trip.

The bulkhead is part of the claim: an endpoint gets at most `max_in_flight` minus what is in flight for it already,
counted from the rows themselves, so the cap is exact across every worker on every machine. Lock first, claim second:
a statement takes its snapshot before it gets a lock, so counting in the locking statement would miss claims that were
committed in between. The second statement counts under a fresh snapshot, while nobody else can claim for these lanes.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection, Connection
from psycopg.rows import args_row

from deliveries.sql import arrays, clock
from deliveries.sql.compact import compact
from deliveries.sql.fragments import IN_FLIGHT, MAY_BE_SENT_TO, TOKENS_NOW, is_claimable, spend_tokens

logger = logging.getLogger(__name__)

LOCK_LANES = """
    SELECT extract(epoch FROM clock_timestamp())::float8,
        NOT EXISTS (SELECT FROM deliveries_lease WHERE id = %(lease_id)s AND expires_at > statement_timestamp()),
        set_config('webhooks.lanes', coalesce(string_agg(endpoint_id::text, ','), ''), true), array_agg(endpoint_id)
    FROM (
        SELECT endpoint_id FROM subscriptions_lane
        WHERE endpoint_id = ANY (%(endpoint_ids)s::uuid[]) AND opens_at <= statement_timestamp()
            -- Claimed under a lease that is over or was ended, it would be taken for lost at once, and sent twice.
            AND EXISTS (
                SELECT FROM deliveries_lease WHERE id = %(lease_id)s AND expires_at > statement_timestamp()
            )
        ORDER BY endpoint_id
        FOR NO KEY UPDATE SKIP LOCKED
    ) locked
"""
"""Locks the lanes that are open and that nobody else is claiming for, and leaves their ids to the next statement. Says
what time it is, too: requests are signed with the database's."""

CLAIM_DUE = compact(f"""
    -- 1. lane: of each locked endpoint that may be sent to, its room under the cap and its tokens.
    -- 2. picked: its longest due deliveries, as many as room, share and tokens allow; locked, and cut at the limit.
    -- 3. claimed: they become in flight under this worker's lease, each with its attempt's number.
    -- 4. paid: tokens are spent; a lane that ran out of them closes until the next one is there.
    WITH lane AS (
        -- `least` passes over nulls: no allowance means the whole cap, no rate means no bucket.
        SELECT endpoint.id, lane.failure_count = 0 AND lane.allowance IS NULL AND NOT lane.recovery_owed AS is_well,
            least(endpoint.max_in_flight, lane.allowance) - (
                SELECT count(*) FROM deliveries_delivery
                WHERE endpoint_id = endpoint.id AND state = {IN_FLIGHT}
            ) - (
                -- A test sent by hand (endpoint_tests/trial_slots.py) is in flight, too.
                SELECT count(*) FROM deliveries_trialslot
                WHERE endpoint_id = endpoint.id AND ends_at > statement_timestamp()
            ) AS room,
            endpoint.rate_limit_per_second AS rate,
            {TOKENS_NOW} AS tokens
        FROM subscriptions_endpoint endpoint
        JOIN subscriptions_lane lane ON lane.endpoint_id = endpoint.id
        -- In a query of its own: or else it would be read again for each endpoint that the plan looks at.
        WHERE endpoint.id = ANY ((SELECT string_to_array(current_setting('webhooks.lanes'), ',')::uuid[])::uuid[])
            AND {MAY_BE_SENT_TO}
    ), picked AS MATERIALIZED (
        SELECT due.id, lane.id AS endpoint_id
        FROM lane CROSS JOIN LATERAL (
            SELECT id FROM deliveries_delivery
            WHERE endpoint_id = lane.id AND {is_claimable()} AND due_at <= statement_timestamp()
            ORDER BY due_at, id
            -- A lane opens the moment its token is there; rounding must not make that moment a little early.
            LIMIT greatest(0, least(lane.room, %(share)s, CASE WHEN lane.rate > 0 THEN floor(lane.tokens + 0.001) END))
            FOR UPDATE SKIP LOCKED
        ) due
        LIMIT %(limit)s
    ), claimed AS (
        -- Not `FROM picked`: joined like that, a large table is read whole.
        UPDATE deliveries_delivery
        SET state = {IN_FLIGHT}, attempt_count = attempt_count + 1, leased_by = %(lease_id)s
        WHERE id = ANY (ARRAY(SELECT id FROM picked))
        RETURNING id, event_id, endpoint_id, attempt_count, round_base, ordering_key, due_at
    ), paid AS (
        UPDATE subscriptions_lane
        SET {spend_tokens("lane", "spent.count")}
        FROM lane
        JOIN (SELECT endpoint_id, count(*) FROM claimed GROUP BY endpoint_id) spent ON spent.endpoint_id = lane.id
        WHERE subscriptions_lane.endpoint_id = lane.id AND lane.rate > 0
    )
    SELECT claimed.id, claimed.endpoint_id, claimed.attempt_count, claimed.attempt_count - claimed.round_base,
        event.id, event.producer_id, event.type, event.body, event.traceparent,
        endpoint.url, endpoint.signature_scheme,
        -- Of a profile that operators made; most endpoints have none, and look nothing up.
        CASE WHEN endpoint.signature_profile_id IS NOT NULL THEN (
            SELECT recipe::text FROM subscriptions_signatureprofile WHERE name = endpoint.signature_profile_id
        ) END,
        endpoint.payload_mode, endpoint.timeout_seconds,
        endpoint.retry_schedule, endpoint.headers_encrypted, endpoint.secret_encrypted,
        CASE WHEN endpoint.previous_secret_expires_at > statement_timestamp()
            THEN endpoint.previous_secret_encrypted END,
        lane.room, lane.is_well, claimed.ordering_key, endpoint.consumer_id,
        -- Lanes are picked from one after the other, so the last pick's may have been cut short by the limit.
        claimed.endpoint_id IS NOT DISTINCT FROM (SELECT endpoint_id FROM picked OFFSET %(limit)s - 1),
        claimed.due_at
    FROM claimed
    JOIN deliveries_event event ON event.id = claimed.event_id
    JOIN subscriptions_endpoint endpoint ON endpoint.id = claimed.endpoint_id
    JOIN lane ON lane.id = claimed.endpoint_id
""")
"""Claims due deliveries of the locked lanes, in due order, never past an endpoint's room nor its share."""


FIND_CLOSED = """
    SELECT endpoint_id, extract(epoch FROM opens_at - statement_timestamp())::float8
    FROM subscriptions_lane
    WHERE endpoint_id = ANY (%(endpoint_ids)s::uuid[]) AND opens_at > statement_timestamp()
"""
"""Which lanes are closed, and for how many seconds: those that were, and those that just ran out of tokens."""


class Claimed(NamedTuple):
    """One delivery to attempt now, with all that signing and sending need. In the order of CLAIM_DUE's columns."""

    id: UUID
    endpoint_id: UUID
    number: int
    attempt_in_round: int
    event_id: UUID
    producer_id: str | None
    event_type: str
    body: bytes
    traceparent: str | None
    url: str
    signature_scheme: str
    signature_recipe: str | None
    payload_mode: str
    timeout_seconds: int
    retry_schedule: list[int] | None
    headers_encrypted: bytes | None
    secret_encrypted: bytes
    previous_secret_encrypted: bytes | None
    # What the endpoint had room for at this claim, this delivery included.
    room: int
    # No failure since the last 2xx, and no slow start under way.
    is_well: bool
    # Set when the endpoint takes each key's events one at a time.
    ordering_key: str | None
    consumer_id: UUID
    # The claim's limit was reached at this endpoint, so it may have more than it was given.
    is_cut: bool
    # With the number, it tells this claim from all others of the delivery: one that goes back unsent gives its number
    # back, but is due at another time then (pump/release.py).
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    deliveries: list[Claimed]
    # Lanes that are closed now, and the seconds until they open.
    closed: dict[UUID, float]
    # Asked for, open, but not locked: another worker was claiming for them.
    passed_over: list[UUID]
    # How far this machine's clock is ahead of the database's (seconds).
    clock_ahead: float = 0.0
    # Nothing was claimed: the lease has run out or was ended, and has to be renewed first.
    lease_is_over: bool = False


async def claim(
    connection: AsyncConnection, *, endpoint_ids: Sequence[UUID], lease_id: UUID, share: int, limit: int
) -> Claim:
    """At most `share` deliveries per endpoint and `limit` in all."""
    asked = arrays.uuids(endpoint_ids)
    before = time.time()
    # What a pipeline sends at once is one transaction, and each statement in it has a snapshot of its own.
    async with connection.pipeline():
        lanes = connection.cursor()
        await lanes.execute(LOCK_LANES, {"endpoint_ids": asked, "lease_id": lease_id}, prepare=True)
        due = connection.cursor(binary=True, row_factory=args_row(Claimed))
        await due.execute(CLAIM_DUE, {"lease_id": lease_id, "share": share, "limit": limit}, prepare=True)
        later = connection.cursor()
        await later.execute(FIND_CLOSED, {"endpoint_ids": asked}, prepare=True)
    after = time.time()
    row: Any = await lanes.fetchone()
    [database_time, lease_is_over, _, locked_ids] = row
    locked = set(locked_ids or [])
    closed: dict[UUID, float] = dict(await later.fetchall())
    return Claim(
        deliveries=await due.fetchall(),
        closed=closed,
        passed_over=[
            endpoint_id for endpoint_id in endpoint_ids if endpoint_id not in locked and endpoint_id not in closed
        ],
        clock_ahead=clock.ahead(before=before, database=database_time, after=after),
        lease_is_over=lease_is_over,
    )


OPEN_LEASE = """
    INSERT INTO deliveries_lease (id, worker, process, expires_at)
    VALUES (%(id)s, %(worker)s, %(process)s, now() + %(seconds)s * interval '1 second')
    ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at
"""
"""Opens a worker's lease, or renews it."""

CLOSE_LEASE = "DELETE FROM deliveries_lease WHERE id = %(id)s"
"""Ends a lease whose deliveries are all settled; anything left goes out again at the next sweep."""


FIND_LEASES_HERE = "SELECT id, process FROM deliveries_lease WHERE starts_with(process, %(place)s || '/')"
"""Leases of processes on this machine."""

END_LEASES = "DELETE FROM deliveries_lease WHERE id = ANY (%(ids)s::uuid[]) AND starts_with(process, %(place)s || '/')"
"""Ends leases of processes that died here; what they held goes out again at the next sweep."""


async def renew_lease(
    connection: AsyncConnection, *, lease_id: UUID, worker: str, seconds: float, process: str = ""
) -> None:
    await connection.execute(OPEN_LEASE, {"id": lease_id, "worker": worker, "process": process, "seconds": seconds})


def end_leases_of_the_dead(connection: Connection, *, place: str, is_dead: Callable[[str], bool]) -> int:
    """How many there were. Nobody has to wait for the lease of a process that is known to have died on this machine."""
    if not place:
        return 0
    found = connection.execute(FIND_LEASES_HERE, {"place": place}).fetchall()
    dead = [lease_id for lease_id, process in found if is_dead(process)]
    if not dead:
        return 0
    ended = connection.execute(END_LEASES, {"ids": dead, "place": place}).rowcount
    logger.warning("lease.ended", extra={"fields": {"leases": ended, "reason": "their workers died on this machine"}})
    return ended


async def close_lease(connection: AsyncConnection, *, lease_id: UUID) -> None:
    await connection.execute(CLOSE_LEASE, {"id": lease_id})
