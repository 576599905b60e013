"""Part of settle: deliveries that could not even be signed go back as if they had never been claimed.

An endpoint's secrets do not open while their key is missing from ENCRYPTION_KEYS. That is no attempt and not the
receiver's failure: the delivery waits with its number given back, its endpoint's lane is closed for a while, and the
log says which key is missing. Once the key is there again, everything goes out.
"""

from collections.abc import Sequence

from psycopg import AsyncConnection

from deliveries.settle import Outcome

# The `error_kind` of such an outcome. It is never stored.
LOCKED = "secrets_locked"
# Until the next try (seconds).
PAUSE_SECONDS = 30

CLOSE_LANES = """
    UPDATE subscriptions_lane
    SET opens_at = greatest(opens_at, now() + %(pause)s * interval '1 second')
    WHERE endpoint_id = ANY (ARRAY(
        SELECT endpoint_id FROM subscriptions_lane
        WHERE endpoint_id = ANY (%(endpoint_ids)s::uuid[])
        ORDER BY endpoint_id
        FOR NO KEY UPDATE SKIP LOCKED
    ))
"""
"""Closes lanes for a while, but for those that somebody holds: nobody waits for them. Also behind an open breaker: a
probe that was never sent begins no cool-down, so nothing else would keep the next delivery from being claimed at
once."""

RELEASE = """
    UPDATE deliveries_delivery delivery
    SET state = 'pending', attempt_count = attempt_count - 1, leased_by = NULL,
        due_at = now() + %(pause)s * interval '1 second'
    FROM unnest(%(ids)s::uuid[], %(numbers)s::int[]) AS given (id, number)
    WHERE delivery.id = ANY (%(ids)s::uuid[]) AND delivery.id = given.id
        AND delivery.state = 'in_flight' AND delivery.attempt_count = given.number
"""
"""Gives claimed deliveries back, as far as each still waits for this very attempt. Its number is free again: nothing
was sent under it, and nobody else holds it."""


async def release(connection: AsyncConnection, outcomes: Sequence[Outcome]) -> None:
    async with connection.transaction():
        endpoint_ids = sorted({outcome.endpoint_id for outcome in outcomes})
        await connection.execute(CLOSE_LANES, {"endpoint_ids": endpoint_ids, "pause": PAUSE_SECONDS})
        await connection.execute(
            RELEASE,
            {
                "ids": [outcome.delivery_id for outcome in outcomes],
                "numbers": [outcome.number for outcome in outcomes],
                "pause": PAUSE_SECONDS,
            },
        )
