"""Part of settle: deliveries that could not even be sent go back as if they had never been claimed.

There are two reasons, neither an attempt nor the receiver's failure. The delivery waits with its number given back, so
the number no longer tells one claim from the next: the time at which it was due does, since that is set anew.
1. An endpoint's secrets do not open while their key is missing from ENCRYPTION_KEYS. Its lane is closed for a while,
   and the log says which key is missing. Once the key is there again, everything goes out.
2. This machine is out of files, memory, threads or ports. The pump claims less for a while (deliver.py), so the lane
   stays open: other workers may well send it.
"""

from collections.abc import Sequence

from psycopg import AsyncConnection

from deliveries.settle import Outcome
from deliveries.sql.fragments import IN_FLIGHT, PENDING

# The `error_kind` of such outcomes. It is never stored.
LOCKED = "secrets_locked"
SHORTAGE = "shortage"
UNSENT = {LOCKED, SHORTAGE}
# Until the next try (seconds).
PAUSE_SECONDS = {LOCKED: 30, SHORTAGE: 1}

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

RELEASE = f"""
    UPDATE deliveries_delivery delivery
    SET state = {PENDING}, attempt_count = attempt_count - 1, leased_by = NULL,
        due_at = now() + given.pause * interval '1 second'
    FROM unnest(%(ids)s::uuid[], %(numbers)s::int[], %(pauses)s::int[], %(due_ats)s::timestamptz[])
        AS given (id, number, pause, due_at)
    WHERE delivery.id = ANY (%(ids)s::uuid[]) AND delivery.id = given.id
        AND delivery.state = {IN_FLIGHT} AND delivery.attempt_count = given.number
        AND delivery.due_at = given.due_at
"""
"""Gives claimed deliveries back, as far as each is still held by this very claim. Its number is free again: nothing was
sent under it. One that comes twice, because the first answer was lost, leaves a newer claim of that number alone."""


async def release(connection: AsyncConnection, outcomes: Sequence[Outcome]) -> None:
    async with connection.transaction():
        locked = [outcome for outcome in outcomes if outcome.error_kind == LOCKED]
        if locked:
            endpoint_ids = sorted({outcome.endpoint_id for outcome in locked})
            await connection.execute(CLOSE_LANES, {"endpoint_ids": endpoint_ids, "pause": PAUSE_SECONDS[LOCKED]})
        await connection.execute(
            RELEASE,
            {
                "ids": [outcome.delivery_id for outcome in outcomes],
                "numbers": [outcome.number for outcome in outcomes],
                "due_ats": [outcome.claimed_due_at for outcome in outcomes],
                "pauses": [PAUSE_SECONDS[outcome.error_kind or LOCKED] for outcome in outcomes],
            },
        )
