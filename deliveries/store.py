"""Part of accept: the one statement that stores events and what is owed for them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection

from subscriptions.event_types import patterns_for

_EVENTS = """
    SELECT event.* FROM json_to_recordset(%(events)s::json) AS event (
        id uuid, consumer_id uuid, type text, patterns text, api_version text, producer_id text, body text,
        created_at timestamptz, occurred_at timestamptz, ordering_key text, sequence bigint, traceparent text,
        key_id uuid, consumer_uid text, schema_hash text
    )
"""
# What `gather` knew a moment ago, looked at again in the very statement that relies on it.
_STILL_TRUE = """
    JOIN subscriptions_consumer consumer
        ON consumer.id = event.consumer_id AND consumer.deleted_at IS NULL
        AND consumer.uid IS NOT DISTINCT FROM event.consumer_uid
    JOIN subscriptions_apikey key
        ON key.id = event.key_id AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > now())
    JOIN subscriptions_eventtype known ON known.name = event.type AND known.archived_at IS NULL
    LEFT JOIN subscriptions_eventtypeversion version
        ON version.event_type_id = event.type AND version.api_version = event.api_version AND version.schema IS NOT NULL
    WHERE md5(version.schema::text) IS NOT DISTINCT FROM event.schema_hash
"""
_STORE = """
    WITH given AS (
        {events}
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

STORE_EVENTS = _STORE.format(events=_EVENTS)
"""Stores the events and one delivery for each endpoint that wants them. Skips an event whose producer id is taken."""

STORE_IF_STILL_TRUE = _STORE.format(events=_EVENTS + _STILL_TRUE)
"""The same, for events whose key, consumer and type are as they were believed to be. Skips the others."""


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


class Belief(NamedTuple):
    """What was true a moment ago of the key, the consumer and the type of an event."""

    key_id: UUID
    consumer_uid: str | None
    # Of the type's schema; None where it has none.
    schema_hash: str | None


def store(events: Sequence[Stored]) -> tuple[dict[UUID, int], list[UUID]]:
    """How many deliveries each stored event became, by id, and which endpoints have new work."""
    return _run(STORE_EVENTS, [_row(event) for event in events])


def store_if_still_true(events: Sequence[tuple[Stored, Belief]]) -> tuple[dict[UUID, int], list[UUID]]:
    """As `store`, without the events whose belief turns out to be wrong."""
    return _run(STORE_IF_STILL_TRUE, [_row(event) | belief._asdict() for event, belief in events])


def _run(statement: str, rows: Sequence[dict[str, Any]]) -> tuple[dict[UUID, int], list[UUID]]:
    parameters: dict[str, Any] = {
        "events": orjson.dumps(rows).decode(),
        "first_wait": settings.DELIVERY_RETRY_SCHEDULE[0],
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        stored = cursor.fetchall()
    return {event_id: count for event_id, count, _ in stored}, (stored[0][2] or []) if stored else []


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
