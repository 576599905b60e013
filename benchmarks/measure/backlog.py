"""backlog: what a million parked deliveries of a thousand dead endpoints cost the others.

Their breakers are open and their deliveries are all due: the state after a long outage. Their next probes are a day
away, so that however long a run takes, none of them is sent. The other endpoints' drain is measured with and without
them, in turns.
"""

from typing import Any

import psycopg

from benchmarks.load.preload import PreloadedEndpoint, add_waiting
from benchmarks.measure.second_database import with_and_without
from benchmarks.report.progress import say
from benchmarks.stand import Stand

DEAD = 1_000
STEP = 100_000

ADD_DEAD_ENDPOINTS = """
    WITH consumer AS (
        INSERT INTO subscriptions_consumer SELECT (jsonb_populate_record(consumer, jsonb_build_object(
            'id', webhooks_uuid7(), 'uid', 'dead-' || number
        ))).* FROM subscriptions_consumer consumer CROSS JOIN generate_series(1, %(count)s) number
        WHERE id = %(like_consumer)s
        RETURNING id
    )
    INSERT INTO subscriptions_endpoint SELECT (jsonb_populate_record(endpoint, jsonb_build_object(
        'id', webhooks_uuid7(), 'url', 'http://127.0.0.1:9/dead', 'consumer_id', consumer.id
    ))).* FROM subscriptions_endpoint endpoint CROSS JOIN consumer WHERE endpoint.id = %(like)s
    RETURNING id, consumer_id
"""

PARK = """
    INSERT INTO subscriptions_lane SELECT (jsonb_populate_record(lane, jsonb_build_object('endpoint_id', dead.id,
        'opens_at', now() + interval '1 day', 'failure_count', 500, 'failing_since', now() - interval '6 hours',
        'last_failure_at', now(), 'breaker_open', true, 'allowance', 1, 'cooldown_seconds', 1800
    ))).* FROM subscriptions_lane lane CROSS JOIN unnest(%(ids)s::uuid[]) AS dead (id) WHERE endpoint_id = %(like)s
"""
"""Their lanes, as a breaker leaves one that has opened and whose probes all failed."""


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    parked, turns, count = (200_000, 2, 6_000) if quick else (1_000_000, 11, 15_000)

    def fill(connection: psycopg.Connection, targets: list[PreloadedEndpoint]) -> None:
        like = {"like": targets[0].endpoint_id, "like_consumer": targets[0].consumer_id}
        dead = [
            PreloadedEndpoint(*row)
            for row in connection.execute(ADD_DEAD_ENDPOINTS, {"count": DEAD, **like}).fetchall()
        ]
        connection.execute(PARK, {"ids": [one.endpoint_id for one in dead], **like})
        for _ in range(parked // STEP):
            add_waiting(connection, dead, each=STEP // DEAD)
        say(f"{parked:,} deliveries are parked")

    return {"parked": parked, "dead_endpoints": DEAD, **with_and_without(bench, fill=fill, turns=turns, count=count)}
