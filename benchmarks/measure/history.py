"""history: what five million finished deliveries cost the next ones.

They belong to the very endpoints that are then drained, each with its attempt; ten to an event. Each was pending and in
flight before, as rows that an update left behind, so the indexes of what is live have held all of them once. Tables
are vacuumed after every step of the fill, and analysed at its end, as autovacuum would have done meanwhile.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from benchmarks.load.preload import BODY_SIZE, PreloadedEndpoint, database
from benchmarks.measure.second_database import NAME, with_and_without
from benchmarks.report.progress import say
from benchmarks.stand import Stand

STEP = 250_000
FAN_OUT = 10

ADD_PENDING = """
    WITH event AS (
        INSERT INTO deliveries_event (id, consumer_id, type, api_version, body, created_at, delivery_count)
        SELECT uuidv7(), %(consumer_id)s, 'bench.event', '1', %(body)s, now(), %(fan_out)s
        FROM generate_series(1, %(events)s)
        RETURNING id
    )
    INSERT INTO deliveries_delivery (
        id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked
    )
    SELECT uuidv7(), event.id, endpoint_id, 'pending', now(), 0, 0, now(), now(), false
    FROM event CROSS JOIN unnest(%(endpoint_ids)s::uuid[]) AS target (endpoint_id)
"""

CLAIM = """
    UPDATE deliveries_delivery SET state = 'in_flight', attempt_count = 1, leased_by = uuidv7()
    WHERE state = 'pending' AND NOT blocked AND endpoint_id = ANY (%(endpoint_ids)s)
"""

SETTLE = """
    WITH finished AS (
        UPDATE deliveries_delivery SET state = 'delivered', leased_by = NULL, finished_at = now()
        WHERE state = 'in_flight' AND endpoint_id = ANY (%(endpoint_ids)s)
        RETURNING id
    )
    INSERT INTO deliveries_attempt (
        id, delivery_id, number, started_at, duration_ms, url, address, status_code, request_headers,
        response_headers, response_body
    )
    SELECT uuidv7(), id, 1, now(), 12, 'https://receiver.test/webhooks', '203.0.113.7', 200,
        '[["content-type","application/json"],["webhook-id","evt_01k0000000000000000000000"]]',
        '[["Server","nginx"],["Content-Length","2"]]', 'ok'
    FROM finished
"""


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    finished, turns, count = (500_000, 2, 6_000) if quick else (5_000_000, 11, 15_000)

    def fill(connection: psycopg.Connection, targets: list[PreloadedEndpoint]) -> None:
        # Ten endpoints each, filled at the same time: nothing is measured yet.
        groups = [targets[start : start + FAN_OUT] for start in range(0, len(targets), FAN_OUT)]
        with ThreadPoolExecutor(len(groups)) as fillers:
            list(fillers.map(lambda group: _add_finished(bench, group, count=finished // len(groups)), groups))
        say(f"{finished:,} deliveries are finished")

    return {"finished": finished, **with_and_without(bench, fill=fill, turns=turns, count=count)}


def _add_finished(bench: Stand, targets: list[PreloadedEndpoint], *, count: int) -> None:
    ids = {"endpoint_ids": [target.endpoint_id for target in targets]}
    events = {"consumer_id": targets[0].consumer_id, "body": b"x" * BODY_SIZE, "fan_out": len(targets)}
    with database(bench, NAME) as connection:
        connection.execute("SET synchronous_commit = off")
        for _ in range(count // STEP):
            connection.execute(ADD_PENDING, {**ids, **events, "events": STEP // len(targets)})
            connection.execute(CLAIM, ids)
            connection.execute(SETTLE, ids)
            connection.execute("VACUUM deliveries_delivery")
