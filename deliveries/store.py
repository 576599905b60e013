"""Part of accept: the one statement that stores events and what is owed for them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection

from subscriptions.event_types import patterns_for

STORE_EVENTS = """
    WITH given AS (
        SELECT * FROM json_to_recordset(%(events)s::json) AS event (
            id uuid, consumer_id uuid, type text, patterns text, api_version text, producer_id text, body text,
            created_at timestamptz, occurred_at timestamptz, ordering_key text, sequence bigint, traceparent text
        )
    ), matched AS MATERIALIZED (
        SELECT given.id AS event_id, given.created_at, endpoint.id AS endpoint_id,
            CASE WHEN endpoint.ordered THEN given.ordering_key END AS ordering_key,
            CASE WHEN endpoint.ordered THEN given.sequence END AS sequence,
            coalesce(endpoint.retry_schedule[1], %(first_wait)s) * interval '1 second' AS wait
        FROM given
        JOIN subscriptions_endpoint endpoint
            ON endpoint.consumer_id = given.consumer_id
            AND endpoint.deleted_at IS NULL
            AND endpoint.event_types::text[] && string_to_array(given.patterns, ' ')
    ), counted AS (
        SELECT event_id, count(*) AS delivery_count FROM matched GROUP BY event_id
    ), stored AS (
        INSERT INTO deliveries_event (
            id, consumer_id, type, api_version, producer_id, body, occurred_at, created_at, ordering_key, sequence,
            traceparent, delivery_count
        )
        SELECT given.id, consumer_id, type, api_version, producer_id, convert_to(body, 'UTF8'), occurred_at, created_at,
            ordering_key, sequence, traceparent, coalesce(delivery_count, 0)
        FROM given LEFT JOIN counted ON counted.event_id = given.id
        -- Each waits for who takes its producer id at the same moment: in one order, or two batches deadlock.
        ORDER BY consumer_id, producer_id
        ON CONFLICT (consumer_id, producer_id) WHERE producer_id IS NOT NULL DO NOTHING
        RETURNING id, delivery_count
    ), owed AS (
        INSERT INTO deliveries_delivery (
            id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at,
            ordering_key, sequence, blocked
        )
        SELECT webhooks_uuid7(), event_id, endpoint_id, 'pending', now() + wait, 0, 0, now(), matched.created_at,
            ordering_key, sequence,
            ordering_key IS NOT NULL AND (
                row_number() OVER (PARTITION BY endpoint_id, ordering_key ORDER BY sequence) > 1
                OR EXISTS (
                    SELECT FROM deliveries_delivery earlier
                    WHERE earlier.endpoint_id = matched.endpoint_id AND earlier.ordering_key = matched.ordering_key
                        AND earlier.state IN ('pending', 'in_flight') AND NOT earlier.blocked
                )
            )
        FROM matched JOIN stored ON stored.id = matched.event_id
        RETURNING endpoint_id
    )
    SELECT id, delivery_count, (SELECT array_agg(DISTINCT endpoint_id) FROM owed) FROM stored
"""
"""Stores the events and one delivery for each endpoint that wants them. Skips an event whose producer id is taken."""


class Stored(NamedTuple):
    """An event as it was accepted: what an answer and the log tell of it, without a model's weight."""

    id: UUID
    public_id: str
    consumer_id: UUID
    type: str
    api_version: str
    producer_id: str | None
    body: bytes
    created_at: datetime
    occurred_at: datetime | None
    ordering_key: str | None
    sequence: int | None
    traceparent: str | None
    delivery_count: int = 0


def store(events: Sequence[Stored]) -> tuple[dict[UUID, int], list[UUID]]:
    """How many deliveries each stored event became, by id, and which endpoints have new work."""
    parameters: dict[str, Any] = {
        "events": orjson.dumps([_row(event) for event in events]).decode(),
        "first_wait": settings.DELIVERY_RETRY_SCHEDULE[0],
    }
    with connection.cursor() as cursor:
        cursor.execute(STORE_EVENTS, parameters)
        rows = cursor.fetchall()
    return {event_id: count for event_id, count, _ in rows}, (rows[0][2] or []) if rows else []


def _row(event: Stored) -> dict[str, Any]:
    return {
        "id": event.id,
        "consumer_id": event.consumer_id,
        "type": event.type,
        "patterns": " ".join(patterns_for(event.type)),
        "api_version": event.api_version,
        "producer_id": event.producer_id,
        # Text, since JSON carries no bytes: they are UTF-8, and come out of PostgreSQL as they went in.
        "body": event.body.decode(),
        "created_at": event.created_at,
        "occurred_at": event.occurred_at,
        "ordering_key": event.ordering_key,
        "sequence": event.sequence,
        "traceparent": event.traceparent,
    }
