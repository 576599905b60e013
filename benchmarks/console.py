"""console: how fast every page answers on a large history. `python -m benchmarks.console [millions of attempts]`.

Rows come from generate_series, on a server of its own: 200 endpoints, 9 in 10 deliveries delivered, 5 in 100 dead,
the rest waiting, thirty days of rollups by the hour and the day, two by the minute. Each page is asked for five times,
warm.
"""

import os
import statistics
import sys
import time

from benchmarks.stand import stand

ENDPOINTS = 200

FILL_EVENTS = """
    INSERT INTO deliveries_event (id, consumer_id, type, api_version, body, created_at, delivery_count)
    SELECT webhooks_uuid7(), (ARRAY(SELECT id FROM subscriptions_consumer))[1 + mod(n, 20)],
        (ARRAY['invoice.paid', 'order.shipped', 'customer.updated'])[1 + mod(n, 3)], '1',
        '{"id":"evt_1","type":"invoice.paid","data":{"amount":4711}}', now(), 1
    FROM generate_series(1, %(count)s) n
"""
FILL_DELIVERIES = """
    INSERT INTO deliveries_delivery (
        id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked,
        finished_at, dead_reason
    )
    SELECT webhooks_uuid7(), made.id, made.endpoint_id, made.state, now() - interval '1 hour', 1, 0, now(), now(),
        false, CASE WHEN made.state <> 'pending' THEN now() END,
        CASE WHEN made.state = 'dead' THEN 'attempts_exhausted' END
    FROM (
        SELECT event.id, owned.ids[1 + floor(random() * cardinality(owned.ids))::int] AS endpoint_id,
            CASE WHEN random() < 0.9 THEN 'delivered' WHEN random() < 0.5 THEN 'dead' ELSE 'pending' END AS state
        FROM deliveries_event event
        JOIN (SELECT consumer_id, array_agg(id) AS ids FROM subscriptions_endpoint GROUP BY consumer_id) owned
            USING (consumer_id)
    ) made
"""
FILL_ATTEMPTS = """
    INSERT INTO deliveries_attempt (
        id, delivery_id, number, started_at, duration_ms, url, status_code, error_kind, request_headers,
        response_headers, response_body
    )
    SELECT webhooks_uuid7(), id, 1, now(), 20, 'https://receiver.test/hook',
        CASE state WHEN 'delivered' THEN 200 ELSE 503 END, CASE state WHEN 'delivered' THEN NULL ELSE 'http_503' END,
        '[["Webhook-Id","evt_1"]]', '[["Server","x"]]', 'ok'
    FROM deliveries_delivery
"""
FILL_TALLIES = """
    INSERT INTO deliveries_tally (
        span, subject_kind, subject_id, at, accepted, delivered, failed, dead, durations, latencies
    )
    SELECT span, subject.kind, subject.id, at, 100, 90, 10, 1, array_fill(3, ARRAY[30]), array_fill(3, ARRAY[30])
    FROM (
        SELECT 'endpoint' AS kind, id FROM subscriptions_endpoint UNION ALL SELECT 'consumer', id
        FROM subscriptions_consumer UNION ALL SELECT 'everything', '00000000-0000-0000-0000-000000000000'
    ) subject CROSS JOIN LATERAL (
        SELECT 'minute' AS span, at
        FROM generate_series(date_trunc('minute', now()) - interval '2 days', now(), '1 min') at
        UNION ALL
        SELECT 'hour', at FROM generate_series(date_trunc('hour', now()) - interval '30 days', now(), '1 hour') at
        UNION ALL
        SELECT 'day', at FROM generate_series(date_trunc('day', now()) - interval '30 days', now(), '1 day') at
    ) made
"""


def main(attempts: int) -> None:
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    with stand():
        fill(attempts)
        for name, milliseconds, queries in measure():
            print(f"{name:24} {milliseconds:7.0f} ms  {queries:3} queries", flush=True)


def fill(attempts: int) -> None:
    from django.db import connection

    from subscriptions import consumers
    from subscriptions import endpoints as endpoint_functions

    for number in range(20):
        consumer = consumers.create(uid=f"bench-{number}")
        for each in range(ENDPOINTS // 20):
            endpoint_functions.create(consumer=consumer, url=f"https://receiver.test/{number}/{each}")
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        for statement in (FILL_EVENTS, FILL_DELIVERIES, FILL_ATTEMPTS, FILL_TALLIES):
            started = time.perf_counter()
            cursor.execute(statement, {"count": attempts} if statement is FILL_EVENTS else None)
            print(f"filled {cursor.rowcount:,} rows in {time.perf_counter() - started:.0f} s", flush=True)
        cursor.execute("VACUUM ANALYZE")


def measure() -> list[tuple[str, float, int]]:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from deliveries.models import Delivery
    from subscriptions.models import Consumer, Endpoint

    user = User.objects.create_superuser("bench")
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    dead = Delivery.objects.filter(state="dead").order_by("-id")[0]
    endpoint = Endpoint.objects.get(id=dead.endpoint_id)
    pages = {
        "overview": "", "overview, 24 h": "?range=24h", "overview, 30 days": "?range=30d",
        "dead letters": "dead-letters/", "of one endpoint": f"dead-letters/?endpoint={endpoint.public_id}",
        "of one type": "dead-letters/?event_type=invoice.paid", "by last answer": "dead-letters/?error=http_503",
        "preview, one endpoint": f"dead-letters/replay/?endpoint={endpoint.public_id}",
        "preview, all": "dead-letters/replay/", "a delivery": f"deliveries/{dead.public_id}/",
        "deliveries": "deliveries/", "deliveries, pending": "deliveries/?state=pending",
        "of an endpoint": f"deliveries/?endpoint={endpoint.public_id}", "events": "events/",
        "events of a consumer": "events/?consumer=bench-3", "an event": f"events/{dead.event_id}/",
        "endpoints": "endpoints/", "an endpoint": f"endpoints/{endpoint.public_id}/?range=30d",
        "consumers": "consumers/", "a consumer": f"consumers/{Consumer.objects.all()[0].public_id}/?range=24h",
        "find by producer's id": "find/?q=ord-4711", "audit log": "audit/",
    }  # fmt: skip
    figures = []
    for name, path in pages.items():
        client.get(f"/admin/{path}")
        times = []
        for _ in range(5):
            with CaptureQueriesContext(connection) as queries:
                started = time.perf_counter()
                answer = client.get(f"/admin/{path}")
                times.append(1000 * (time.perf_counter() - started))
        if answer.status_code != 200:
            name = f"{name} ({answer.status_code})"
        figures.append((name, statistics.median(times), len(queries)))
    return figures


if __name__ == "__main__":
    main(int(float(sys.argv[1] if len(sys.argv) > 1 else "1") * 1_000_000))
