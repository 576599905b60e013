"""What is owed at this moment, for /metrics. Bounded: so many rows of each kind, and so much time for all of them."""

from dataclasses import dataclass

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from deliveries import sweep

# For each statement (milliseconds). A scrape that takes longer is worth nothing to anybody.
_TIMEOUT_MS = 2000

# Above the bound, PostgreSQL's own estimate: how many entries the index had when it was last looked after.
_ESTIMATE = "(SELECT reltuples::bigint FROM pg_class WHERE oid = '{index}'::regclass)"
_COUNT = """
    SELECT CASE WHEN count(*) < %(up_to)s THEN count(*) ELSE greatest(count(*), {estimate}) END
    FROM (SELECT FROM deliveries_delivery WHERE {condition} LIMIT %(up_to)s) counted
"""


def _count(condition: str, *, index: str) -> str:
    return _COUNT.format(condition=condition, estimate=_ESTIMATE.format(index=index))


COUNT_STATES = f"""
    SELECT ({_count("state = 'pending' AND NOT blocked", index="delivery_due")}),
        ({_count("blocked", index="delivery_blocked")}),
        ({_count("state = 'in_flight'", index="delivery_in_flight")}),
        ({_count("state = 'dead'", index="delivery_dead")})
"""
"""Deliveries by state: ready or waiting for a retry, waiting for their turn, in flight, dead. From partial indexes."""

COUNT_PARKED = """
    SELECT count(*) FROM (
        SELECT FROM subscriptions_endpoint endpoint
        JOIN subscriptions_lane lane ON lane.endpoint_id = endpoint.id
        CROSS JOIN LATERAL (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = endpoint.id AND state = 'pending' AND NOT blocked AND due_at <= now()
            LIMIT %(up_to)s
        ) due
        WHERE endpoint.deleted_at IS NULL AND (
            endpoint.status <> 'active' OR lane.breaker_open OR lane.opens_at > now() OR EXISTS (
                SELECT FROM subscriptions_hold held
                WHERE held.consumer_id IS NULL OR held.consumer_id = endpoint.consumer_id
            )
        )
        LIMIT %(up_to)s
    ) parked
"""
"""Due deliveries of endpoints that nothing goes out for now: paused, disabled, held, behind a breaker or a pause that
the receiver asked for."""

OLDEST_DUE = f"""
    SELECT coalesce(extract(epoch FROM now() - min(due_at)), 0)::float8 FROM deliveries_delivery
    WHERE state = 'pending' AND NOT blocked AND endpoint_id = ({sweep.FIND_DUE_ENDPOINTS})
"""
"""For how long the delivery that waits longest has been due, of endpoints that may be sent to."""

COUNT_ENDPOINTS = "SELECT status, count(*) FROM subscriptions_endpoint WHERE deleted_at IS NULL GROUP BY status"
"""Endpoints by status."""


@dataclass(frozen=True, slots=True)
class Gauges:
    # By state: pending, in_flight, parked, dead.
    deliveries: dict[str, int]
    oldest_due_seconds: float
    endpoints: dict[str, int]


def read(*, up_to: int) -> Gauges | None:
    """None where PostgreSQL takes too long: a missing figure is seen, and a wrong one is believed."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(_TIMEOUT_MS)])
            cursor.execute(COUNT_STATES, {"up_to": up_to})
            free, blocked, in_flight, dead = cursor.fetchone()
            cursor.execute(COUNT_PARKED, {"up_to": up_to})
            [parked] = cursor.fetchone()
            cursor.execute(OLDEST_DUE, {"limit": 1})
            [oldest_due_seconds] = cursor.fetchone()
            cursor.execute(COUNT_ENDPOINTS)
            endpoints = dict(cursor.fetchall())
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            return None
        raise
    deliveries = {
        "pending": max(0, free - parked) + blocked, "in_flight": in_flight, "parked": parked, "dead": dead
    }  # fmt: skip
    return Gauges(deliveries, max(0.0, oldest_due_seconds), endpoints)
