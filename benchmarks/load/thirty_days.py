"""A history to look at: millions of rows by `INSERT … SELECT generate_series`, as thirty days of traffic leave them.

Of ten million attempts: 4.3 million events, each with a delivery to one of 3,000 endpoints, 2.1 million of them dead
after three or four attempts, 70,000 waiting, the rest delivered. Half of the dead letters belong to forty endpoints, a
seventh to one; one event type and one kind of answer are rare, so that a search for them is the worst one.
"""

import time

CONSUMERS = 500
ENDPOINTS = 3000

CONSUMERS_AND_ENDPOINTS = """
    INSERT INTO subscriptions_consumer (id, uid, name, contact_email, metadata)
    SELECT uuidv7(), 'bench-' || n, 'Consumer ' || n, '', '{}' FROM generate_series(0, %(consumers)s - 1) n;
    INSERT INTO subscriptions_endpoint (
        id, consumer_id, url, event_types, description, metadata, header_names, signature_scheme, payload_mode, ordered,
        max_in_flight, timeout_seconds, secret_encrypted, status, disabled_reason
    )
    SELECT uuidv7(), owner.ids[1 + mod(n, %(consumers)s)], 'https://receiver-' || n || '.test/hooks', ARRAY['*'], '',
        '{}', '{}', 'timestamped', 'full', false, 10, 10, '\\x00',
        CASE WHEN mod(n, 100) = 7 THEN 'paused' WHEN mod(n, 100) = 8 THEN 'disabled' ELSE 'active' END, ''
    FROM generate_series(0, %(endpoints)s - 1) n,
        (SELECT array_agg(id ORDER BY id) AS ids FROM subscriptions_consumer) owner;
    INSERT INTO subscriptions_lane (
        endpoint_id, failure_count, failing_since, last_failure_at, breaker_open, allowance, cooldown_seconds,
        warning_count, tokens
    )
    SELECT id, CASE WHEN mod(n, 20) = 3 THEN 25 ELSE 0 END, CASE WHEN mod(n, 20) = 3 THEN now() - interval '1 h' END,
        CASE WHEN mod(n, 20) = 3 THEN now() END, mod(n, 20) = 3, CASE WHEN mod(n, 20) = 3 THEN 1 END, 10, 0, 0
    FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM subscriptions_endpoint) numbered
"""
EVENTS = """
    INSERT INTO deliveries_event (
        id, consumer_id, type, api_version, producer_id, body, created_at, ordering_key, sequence, delivery_count
    )
    SELECT uuidv7(made.at - clock_timestamp()),
        owner.ids[CASE WHEN dice < 0.08 THEN 1 WHEN dice < 0.33 THEN 2 + floor((dice - 0.08) * 156)::int
            ELSE 1 + floor((dice - 0.33) / 0.67 * %(consumers)s)::int END],
        CASE WHEN mod(n, 20000) = 11 THEN 'rare.type'
            ELSE (ARRAY['invoice.paid', 'order.shipped', 'customer.updated', 'user.created'])[1 + mod(n, 4)] END,
        '1', CASE WHEN mod(n, 10) = 0 THEN 'order-' || n END,
        '{"id":"evt_1","type":"invoice.paid","created_at":"2026-01-01T00:00:00Z","data":{"amount":4711}}', made.at,
        CASE WHEN mod(n, 50) = 0 THEN 'key-' || mod(n, 5000) END, CASE WHEN mod(n, 50) = 0 THEN n END, 1
    FROM (
        SELECT n, random() AS dice, now() - interval '30 days' * (1 - n::float8 / %(count)s) AS at
        FROM generate_series(1, %(count)s) n
    ) made, (SELECT array_agg(id ORDER BY id) AS ids FROM subscriptions_consumer) owner
"""
DELIVERIES = """
    INSERT INTO deliveries_delivery (
        id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked,
        finished_at, dead_reason, leased_by
    )
    SELECT uuidv7(created_at - clock_timestamp()), id, endpoint_id, state,
        CASE WHEN state = 'pending' AND dice < 0.5 THEN now() + dice * interval '10 h' ELSE created_at END,
        CASE state WHEN 'dead' THEN CASE WHEN dice < 0.8 THEN 4 ELSE 3 END WHEN 'pending' THEN 0 ELSE 1 END,
        0, created_at, created_at, false,
        CASE WHEN state IN ('delivered', 'dead') THEN created_at + interval '20 s' END,
        CASE WHEN state = 'dead' THEN CASE WHEN dice < 0.9 THEN 'attempts_exhausted' WHEN dice < 0.96 THEN 'expired'
            WHEN dice < 0.98 THEN 'aborted_by_receiver' WHEN dice < 0.9999 THEN 'endpoint_disabled'
            ELSE 'given_up' END END,
        CASE WHEN state = 'in_flight' THEN (SELECT id FROM deliveries_lease LIMIT 1) END
    FROM (
        SELECT id, created_at, random() AS dice,
            ids[CASE WHEN is_sick THEN 1 ELSE 1 + floor(which * cardinality(ids))::int END] AS endpoint_id,
            CASE WHEN created_at > now() - interval '10 s' THEN 'in_flight'
                WHEN created_at > now() - interval '12 h' AND luck > 0.5 THEN 'pending'
                WHEN luck < CASE WHEN is_sick THEN 0.95 ELSE 0.28 END THEN 'dead' ELSE 'delivered' END AS state
        FROM (
            SELECT event.id, event.created_at, owned.ids, random() AS luck, random() AS which,
                owned.place <= 40 AND random() < 0.85 AS is_sick
            FROM deliveries_event event JOIN (
                SELECT consumer_id, array_agg(id ORDER BY id) AS ids, row_number() OVER (ORDER BY consumer_id) AS place
                FROM subscriptions_endpoint GROUP BY consumer_id
            ) owned USING (consumer_id)
            ORDER BY event.id
        ) thrown
    ) made
"""
ATTEMPTS = """
    INSERT INTO deliveries_attempt (
        id, delivery_id, number, started_at, duration_ms, url, address, status_code, error_kind, error_detail,
        request_headers, response_headers, response_body
    )
    SELECT uuidv7(delivery.created_at - clock_timestamp()), delivery.id, number,
        delivery.created_at + number * interval '5 s', 5 + floor(random() * 900)::int,
        'https://receiver.test/hooks', '192.0.2.17',
        CASE WHEN ended.kind = '' THEN 200 WHEN ended.kind LIKE 'http_%%' THEN substr(ended.kind, 6)::int END,
        nullif(ended.kind, ''), NULL,
        '[["content-type", "application/json"], ["webhook-id", "evt_01m7h3xmx1es6vbckezbxg7h8a"],
          ["webhook-timestamp", "1794796522"], ["webhook-signature", "t=1794796522,v1=0f0f0f0f"]]',
        '[["Server", "nginx"], ["Content-Type", "text/plain"]]', 'no healthy upstream'
    FROM deliveries_delivery delivery CROSS JOIN LATERAL generate_series(1, delivery.attempt_count) number
    CROSS JOIN LATERAL (
        SELECT CASE WHEN delivery.state <> 'dead' THEN ''
            WHEN delivery.attempt_count = number AND ascii(substr(delivery.id::text, 36)) = 48
                AND substr(delivery.id::text, 33, 3) = 'abc' THEN 'http_418'
            ELSE (ARRAY['http_503', 'http_500', 'http_503', 'connect_failed', 'read_timeout', 'http_404'])[
                1 + mod(ascii(substr(delivery.endpoint_id::text, 36)), 6)] END AS kind
    ) ended
    WHERE delivery.state <> 'in_flight'
"""
TALLIES = """
    INSERT INTO deliveries_tally (
        span, subject_kind, subject_id, at, accepted, delivered, failed, dead, durations, latencies
    )
    SELECT made.span, subject.kind, subject.id, made.at, 20, 11, 9, 2, array_fill(3, ARRAY[30]),
        array_fill(3, ARRAY[30])
    FROM (
        -- How many of its minutes a subject has a row for: few endpoints have something to do in every one of them.
        SELECT 'endpoint' AS kind, id, 0.04 AS share FROM subscriptions_endpoint UNION ALL
        SELECT 'consumer', id, 0.2 FROM subscriptions_consumer UNION ALL
        SELECT 'everything', '00000000-0000-0000-0000-000000000000', 1
    ) subject CROSS JOIN LATERAL (
        SELECT 'minute' AS span, at
        FROM generate_series(date_trunc('minute', now()) - interval '2 days', now(), '1 min') at
        WHERE random() < subject.share
        UNION ALL
        SELECT 'hour', at FROM generate_series(
            date_trunc('hour', now()) - interval '30 days', now() - interval '1 hour', '1 hour'
        ) at
        UNION ALL
        SELECT 'day', at FROM generate_series(
            date_trunc('day', now()) - interval '30 days', now() - interval '1 day', '1 day'
        ) at
    ) made
"""
AROUND = """
    INSERT INTO deliveries_pulse (name) VALUES ('beat'), ('deliveries1@bench'), ('background@bench');
    INSERT INTO subscriptions_auditentry (
        id, at, actor_kind, actor_id, actor, action, target, count, detail, why
    )
    SELECT uuidv7(-interval '1 min' * n), now() - interval '1 min' * n, 'user', 'olga', 'user olga',
        'delivery.replayed', 'dlv_' || n, 1, '', ''
    FROM generate_series(1, 200000) n;
    INSERT INTO deliveries_notice (id, endpoint_id, kind, reason, created_at, announced_at)
    SELECT uuidv7(-interval '1 min' * n), endpoint.id, 'breaker_opened', '20 failures in a row',
        now() - interval '1 min' * n, now()
    FROM subscriptions_endpoint endpoint, generate_series(1, 20) n
"""


def fill(attempts: int) -> None:
    from django.db import connection

    count = int(attempts * 0.43)
    steps = {"consumers and endpoints": CONSUMERS_AND_ENDPOINTS, "events": EVENTS, "deliveries": DELIVERIES,
             "attempts": ATTEMPTS, "tallies": TALLIES, "notices and audit": AROUND}  # fmt: skip
    given = {"count": count, "consumers": CONSUMERS, "endpoints": ENDPOINTS}
    with connection.cursor() as cursor:
        # More WAL between checkpoints, for the filling only; the pages are measured on the settings of `make up`.
        cursor.execute("ALTER SYSTEM SET max_wal_size = '8GB'")
        cursor.execute("SELECT pg_reload_conf()")
        cursor.execute("SET synchronous_commit = off")
        cursor.execute("SET work_mem = '64MB'")
        cursor.execute("INSERT INTO deliveries_lease (id, worker, expires_at) VALUES (uuidv7(), 'bench', now())")
        for name, script in steps.items():
            started = time.perf_counter()
            for statement in script.split(";"):
                named = {key: value for key, value in given.items() if f"%({key})s" in statement}
                cursor.execute(statement, named or None)
            print(f"filled {name}: {cursor.rowcount:,} in {time.perf_counter() - started:.0f} s", flush=True)
        started = time.perf_counter()
        cursor.execute("VACUUM ANALYZE")
        print(f"vacuumed in {time.perf_counter() - started:.0f} s", flush=True)
