"""history: what five million finished deliveries cost the next ones.

They belong to the very endpoints that are then drained, each with its attempt; ten to an event. After the fill, the
tables are vacuumed and analysed, as autovacuum would have done by the time so many had come together.
"""

from typing import Any

import psycopg

from benchmarks.laden import with_and_without
from benchmarks.preload import BODY_SIZE, Target
from benchmarks.progress import say
from benchmarks.stand import Stand

STEP = 500_000
FAN_OUT = 10

ADD_FINISHED = """
    WITH event AS (
        INSERT INTO deliveries_event (id, consumer_id, type, api_version, body, created_at, delivery_count)
        SELECT uuidv7(), %(consumer_id)s, 'bench.event', '1', %(body)s, now(), %(fan_out)s
        FROM generate_series(1, %(events)s)
        RETURNING id
    ), finished AS (
        INSERT INTO deliveries_delivery (
            id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked,
            finished_at
        )
        SELECT uuidv7(), event.id, endpoint_id, 'delivered', now(), 1, 0, now(), now(), false, now()
        FROM event CROSS JOIN unnest(%(endpoint_ids)s::uuid[]) AS target (endpoint_id)
        RETURNING id
    )
    INSERT INTO deliveries_attempt (
        id, delivery_id, number, started_at, duration_ms, url, address, status_code, request_headers,
        response_headers, response_body
    )
    SELECT uuidv7(), id, 1, now(), 12, 'https://receiver.test/webhooks', '203.0.113.7', 200,
        '[["Content-Type","application/json"],["Webhook-Id","evt_01k0000000000000000000000"]]',
        '[["Server","nginx"],["Content-Length","2"]]', 'ok'
    FROM finished
"""


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    finished, turns, count = (500_000, 2, 6_000) if quick else (5_000_000, 7, 15_000)

    def fill(connection: psycopg.Connection, targets: list[Target]) -> None:
        asked = {
            "consumer_id": targets[0].consumer_id,
            "endpoint_ids": [target.endpoint_id for target in targets[:FAN_OUT]],
            "body": b"x" * BODY_SIZE,
            "fan_out": FAN_OUT,
            "events": STEP // FAN_OUT,
        }
        for step in range(1, finished // STEP + 1):
            connection.execute(ADD_FINISHED, asked)
            say(f"{step * STEP:,} deliveries are finished")

    return {"finished": finished, **with_and_without(bench, fill=fill, turns=turns, count=count)}
