"""Step: claim. Due deliveries of ready endpoints become `in_flight`, held by this worker's lease. One round trip.

The bulkhead is part of the claim: an endpoint gets at most `max_in_flight` minus what is in flight for it already,
counted from the rows themselves, so the cap is exact across every worker on every machine. Lock first, claim second:
a statement takes its snapshot before it gets a lock, so counting in the locking statement would miss claims that were
committed in between. The second statement counts under a fresh snapshot, while nobody else can claim for these lanes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row

LOCK_LANES = """
    SELECT set_config('webhooks.lanes', coalesce(string_agg(endpoint_id::text, ','), ''), true),
        array_agg(endpoint_id)
    FROM (
        SELECT endpoint_id FROM subscriptions_lane
        WHERE endpoint_id = ANY (%(endpoint_ids)s) AND opens_at <= statement_timestamp()
        ORDER BY endpoint_id
        FOR NO KEY UPDATE SKIP LOCKED
    ) locked
"""
"""Locks the lanes that are open and that nobody else is claiming for, and leaves their ids to the next statement."""

CLAIM_DUE = """
    WITH lane AS (
        SELECT endpoint.id, endpoint.max_in_flight - (
            SELECT count(*) FROM deliveries_delivery
            WHERE endpoint_id = endpoint.id AND state = 'in_flight'
        ) AS room
        FROM subscriptions_endpoint endpoint
        WHERE endpoint.id = ANY (string_to_array(current_setting('webhooks.lanes'), ',')::uuid[])
            AND endpoint.status = 'active' AND endpoint.deleted_at IS NULL
    ), picked AS MATERIALIZED (
        SELECT due.id, lane.room
        FROM lane CROSS JOIN LATERAL (
            SELECT id FROM deliveries_delivery
            WHERE endpoint_id = lane.id AND state = 'pending' AND NOT blocked AND due_at <= statement_timestamp()
            ORDER BY due_at, id
            LIMIT greatest(0, least(lane.room, %(share)s))
            FOR UPDATE SKIP LOCKED
        ) due
        LIMIT %(limit)s
    ), claimed AS (
        -- Not `FROM picked`: joined like that, a large table is read whole.
        UPDATE deliveries_delivery
        SET state = 'in_flight', attempt_count = attempt_count + 1, leased_by = %(lease_id)s
        WHERE id = ANY (ARRAY(SELECT id FROM picked))
        RETURNING id, event_id, endpoint_id, attempt_count, round_base
    )
    SELECT claimed.id, claimed.endpoint_id, claimed.attempt_count AS number,
        claimed.attempt_count - claimed.round_base AS attempt_in_round,
        event.id AS event_id, event.producer_id, event.type AS event_type, event.body, event.traceparent,
        endpoint.url, endpoint.signature_scheme, endpoint.payload_mode, endpoint.timeout_seconds,
        endpoint.retry_schedule, endpoint.headers_encrypted, endpoint.secret_encrypted,
        CASE WHEN endpoint.previous_secret_expires_at > statement_timestamp()
            THEN endpoint.previous_secret_encrypted END AS previous_secret_encrypted,
        lane.room
    FROM claimed
    JOIN deliveries_event event ON event.id = claimed.event_id
    JOIN subscriptions_endpoint endpoint ON endpoint.id = claimed.endpoint_id
    JOIN lane ON lane.id = claimed.endpoint_id
"""
"""Claims due deliveries of the locked lanes, in due order, never past an endpoint's room nor its share."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """One delivery to attempt now, with all that signing and sending need."""

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
    payload_mode: str
    timeout_seconds: int
    retry_schedule: list[int] | None
    headers_encrypted: bytes | None
    secret_encrypted: bytes
    previous_secret_encrypted: bytes | None
    # What the endpoint had room for at this claim, this delivery included.
    room: int


@dataclass(frozen=True, slots=True)
class Claim:
    deliveries: list[Claimed]
    # Asked for but not locked: another worker was claiming for them, or their lanes are not open yet.
    passed_over: list[UUID]


async def claim(
    connection: AsyncConnection, *, endpoint_ids: Sequence[UUID], lease_id: UUID, share: int, limit: int
) -> Claim:
    """At most `share` deliveries per endpoint and `limit` in all."""
    async with connection.pipeline(), connection.transaction():
        lanes = connection.cursor()
        await lanes.execute(LOCK_LANES, {"endpoint_ids": list(endpoint_ids)}, prepare=True)
        due = connection.cursor(binary=True, row_factory=class_row(Claimed))
        await due.execute(CLAIM_DUE, {"lease_id": lease_id, "share": share, "limit": limit}, prepare=True)
    locked = (await lanes.fetchone() or (None, None))[1] or []
    return Claim(
        deliveries=await due.fetchall(),
        passed_over=[endpoint_id for endpoint_id in endpoint_ids if endpoint_id not in set(locked)],
    )


OPEN_LEASE = """
    INSERT INTO deliveries_lease (id, worker, expires_at)
    VALUES (%(id)s, %(worker)s, now() + %(seconds)s * interval '1 second')
    ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at
"""
"""Opens a worker's lease, or renews it."""

CLOSE_LEASE = "DELETE FROM deliveries_lease WHERE id = %(id)s"
"""Ends a lease whose deliveries are all settled; anything left goes out again at the next sweep."""


async def renew_lease(connection: AsyncConnection, *, lease_id: UUID, worker: str, seconds: float) -> None:
    await connection.execute(OPEN_LEASE, {"id": lease_id, "worker": worker, "seconds": seconds})


async def close_lease(connection: AsyncConnection, *, lease_id: UUID) -> None:
    await connection.execute(CLOSE_LEASE, {"id": lease_id})
