"""backlog: what a million parked deliveries of one dead endpoint cost the others.

The endpoint's breaker is open, its deliveries are all due, and a probe is half an hour away: the state after a long
outage. The other endpoints' drain is measured with and without it, in turns.
"""

from typing import Any

import psycopg

from benchmarks.laden import with_and_without
from benchmarks.preload import Target, add_waiting
from benchmarks.progress import say
from benchmarks.stand import Stand

STEP = 100_000

ADD_DEAD_ENDPOINT = """
    INSERT INTO subscriptions_endpoint SELECT (jsonb_populate_record(endpoint, jsonb_build_object(
        'id', webhooks_uuid7(), 'url', 'http://127.0.0.1:9/dead'
    ))).* FROM subscriptions_endpoint endpoint WHERE id = %(like)s
    RETURNING id, consumer_id
"""

PARK = """
    INSERT INTO subscriptions_lane SELECT (jsonb_populate_record(lane, jsonb_build_object('endpoint_id', %(id)s::uuid,
        'opens_at', now() + interval '30 minutes', 'failure_count', 500, 'failing_since', now() - interval '6 hours',
        'last_failure_at', now(), 'breaker_open', true, 'allowance', 1, 'cooldown_seconds', 1800
    ))).* FROM subscriptions_lane lane WHERE endpoint_id = %(like)s
"""
"""Its lane, as a breaker leaves it that has opened and whose probes all failed."""


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    parked, turns, count = (200_000, 2, 6_000) if quick else (1_000_000, 7, 15_000)

    def fill(connection: psycopg.Connection, targets: list[Target]) -> None:
        like = {"like": targets[0].endpoint_id}
        [row] = connection.execute(ADD_DEAD_ENDPOINT, like).fetchall()
        dead = Target(*row)
        connection.execute(PARK, {"id": dead.endpoint_id, **like})
        for _ in range(parked // STEP):
            add_waiting(connection, [dead], each=STEP)
        say(f"{parked:,} deliveries are parked")

    return {"parked": parked, **with_and_without(bench, fill=fill, turns=turns, count=count)}
