"""Rows for a measure to start from: endpoints with real secrets, and deliveries that wait, made by the server itself.

Many small inserts through the API would leave the same rows and take minutes. All of a preload becomes visible at one
moment, its commit, and is announced with one ring of the bell, so a drain begins and ends sharply.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

import psycopg
import redis

from benchmarks.stand import Stand

# Of the body on the wire, in bytes, as in the design's own measurements.
BODY_SIZE = 450

ADD_WAITING = """
    WITH made AS MATERIALIZED (
        SELECT webhooks_uuid7() AS id, webhooks_uuid7() AS event_id, endpoint_id, consumer_id
        FROM generate_series(1, %(each)s)
        CROSS JOIN unnest(%(endpoint_ids)s::uuid[], %(consumer_ids)s::uuid[]) AS target (endpoint_id, consumer_id)
    ), stored AS (
        INSERT INTO deliveries_event (id, consumer_id, type, api_version, body, created_at, delivery_count)
        SELECT event_id, consumer_id, 'bench.event', '1', convert_to(
            rpad(format('{"id":"evt_%%s","type":"bench.event","data":"', event_id), %(size)s - 2, 'x') || '"}', 'UTF8'
        ), clock_timestamp(), 1
        FROM made
    )
    INSERT INTO deliveries_delivery (
        id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked
    )
    SELECT id, event_id, endpoint_id, 'pending', now(), 0, 0, now(), now(), false FROM made
"""
"""So many events for each of the endpoints, in turns, each with its one delivery, due at once."""

EMPTY = """
    DO $$ BEGIN EXECUTE (
        SELECT 'TRUNCATE ' || string_agg(quote_ident(tablename), ', ') || ' CASCADE' FROM pg_tables
        WHERE schemaname = 'public' AND (tablename LIKE 'deliveries\\_%' OR tablename LIKE 'subscriptions\\_%')
    ); END $$
"""

FORGET = """
    DO $$ BEGIN EXECUTE (
        SELECT 'TRUNCATE ' || string_agg(quote_ident(tablename), ', ') || ' CASCADE' FROM pg_tables
        WHERE schemaname = 'public' AND tablename LIKE 'deliveries\\_%'
    );
    UPDATE subscriptions_lane SET opens_at = now(), failure_count = 0, failing_since = NULL, last_failure_at = NULL,
        breaker_open = false, cooldown_seconds = 0, allowance = NULL, warning_count = 0;
    END $$
"""
"""Endpoints as new; no event, delivery or attempt."""


class PreloadedEndpoint(NamedTuple):
    endpoint_id: UUID
    consumer_id: UUID


def empty(bench: Stand) -> None:
    """Nothing but the schema, in the database and in Redis."""
    with database(bench) as connection:
        connection.execute(EMPTY)
    with redis.Redis.from_url(bench.valkey.url) as client:
        client.flushall()


def forget(bench: Stand) -> None:
    """What happened so far, and how the endpoints fared: the next turn starts as the last one did."""
    with database(bench) as connection:
        connection.execute(FORGET)
    with redis.Redis.from_url(bench.valkey.url) as client:
        client.flushall()


def add_endpoints(*, name: str, count: int, url: str, max_in_flight: int) -> list[PreloadedEndpoint]:
    """One consumer per endpoint, `{name}-{number}`; `url` may hold `{number}`."""
    from subscriptions import ids
    from subscriptions.endpoints import new_secret
    from subscriptions.models import Consumer, Endpoint, Lane
    from subscriptions.secrets.endpoint_secrets import seal
    from subscriptions.secrets.vault import vault

    consumers = Consumer.objects.bulk_create([Consumer(uid=f"{name}-{number}") for number in range(count)])
    endpoints = []
    for number, consumer in enumerate(consumers):
        endpoint_id = ids.new_uuid()
        endpoint = Endpoint(
            id=endpoint_id,
            consumer=consumer,
            url=url.format(number=number),
            event_types=["*"],
            signature_scheme="timestamped",
            max_in_flight=max_in_flight,
            timeout_seconds=10,
            secret_encrypted=seal(vault(), new_secret(), endpoint_id=endpoint_id, column="secret_encrypted"),
        )
        endpoints.append(endpoint)
    Endpoint.objects.bulk_create(endpoints, batch_size=1000)
    Lane.objects.bulk_create([Lane(endpoint=endpoint) for endpoint in endpoints], batch_size=1000)
    return [PreloadedEndpoint(endpoint.id, endpoint.consumer_id) for endpoint in endpoints]


def add_waiting(
    connection: psycopg.Connection, targets: Sequence[PreloadedEndpoint], *, each: int, size: int = BODY_SIZE
) -> UUID:
    """Returns an id that all the new deliveries come after, and no older one does."""
    [[mark]] = connection.execute("SELECT webhooks_uuid7()").fetchall()
    time.sleep(0.002)  # ids are ordered by the millisecond
    connection.execute(
        ADD_WAITING,
        {
            "each": each,
            "size": size,
            "endpoint_ids": [target.endpoint_id for target in targets],
            "consumer_ids": [target.consumer_id for target in targets],
        },
    )
    return UUID(str(mark))


def ring(targets: Sequence[PreloadedEndpoint]) -> None:
    from deliveries import bell

    with bell.connect() as client:
        bell.ring_now([target.endpoint_id for target in targets], client=client)


@contextmanager
def database(bench: Stand, name: str = "webhooks") -> Iterator[psycopg.Connection]:
    """A connection of the bench's own to one of the server's databases."""
    with psycopg.connect(bench.postgres.url.replace("/webhooks?", f"/{name}?"), autocommit=True) as connection:
        yield connection
