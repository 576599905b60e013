"""Events that an endpoint never had: accepted before it existed, or before it asked for their types.

A job of replay.py walks its consumer's events of a span of time, oldest first and in the order of the feed, and makes
a delivery for each one that the endpoint wants now and has none of. The database allows one delivery per endpoint and
event, so nothing is sent twice, whoever asks and however often. A cancelled job deletes its unsent deliveries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from deliveries.browse.events import EventFilter, EventPosition, count_events, walk_events
from deliveries.browse.filter import Filter
from deliveries.browse.matched import Matched
from deliveries.browse.source import WalkPosition
from deliveries.browse.walk import Batch
from deliveries.sql.fragments import PENDING, has_head, lock_keys, unblock_next
from subscriptions import ids
from subscriptions.models import Endpoint

LOCK_KEYS = lock_keys("""
    SELECT DISTINCT event.consumer_id, event.ordering_key AS key
    FROM subscriptions_endpoint endpoint CROSS JOIN deliveries_event event
    WHERE endpoint.id = %(endpoint_id)s AND endpoint.ordered
        AND event.id = ANY (%(event_ids)s::uuid[]) AND event.ordering_key IS NOT NULL
""")
"""The ordering keys of these events."""

LOCK_PAYLOADS = """
    SELECT FROM deliveries_event WHERE id = ANY (%(event_ids)s::uuid[]) AND body IS NOT NULL ORDER BY id FOR SHARE
"""
"""Retention passes over a payload held like this."""

ADD = f"""
    WITH chosen AS (
        SELECT given.delivery_id, given.place, event.id AS event_id, endpoint.id AS endpoint_id,
            wanted.ordering_key, wanted.sequence,
            row_number() OVER (PARTITION BY wanted.ordering_key ORDER BY wanted.sequence) > 1
                OR {has_head("endpoint.id", "wanted.ordering_key")} AS waits
        FROM unnest(%(event_ids)s::uuid[], %(delivery_ids)s::uuid[])
            WITH ORDINALITY AS given (event_id, delivery_id, place)
        JOIN deliveries_event event ON event.id = given.event_id AND event.body IS NOT NULL
        JOIN subscriptions_endpoint endpoint ON endpoint.id = %(endpoint_id)s
            AND endpoint.consumer_id = event.consumer_id AND endpoint.deleted_at IS NULL
        LEFT JOIN LATERAL (SELECT event.ordering_key, event.sequence WHERE endpoint.ordered) wanted ON true
        WHERE NOT EXISTS (
            SELECT FROM deliveries_delivery known WHERE known.endpoint_id = endpoint.id AND known.event_id = event.id
        )
    ), added AS (
        INSERT INTO deliveries_delivery (
            id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at,
            ordering_key, sequence, blocked
        )
        SELECT delivery_id, event_id, endpoint_id, {PENDING},
            %(first_at)s + (place - 1) * %(spacing)s * interval '1 second', 0, 0, now(), now(), ordering_key, sequence,
            ordering_key IS NOT NULL AND waits
        FROM chosen
        ON CONFLICT (endpoint_id, event_id) DO NOTHING
        RETURNING id, endpoint_id, round_started_at
    ), remembered AS (
        -- What it was before means nothing here: a cancelled job takes the delivery away.
        INSERT INTO deliveries_putback (
            replay_id, delivery_id, round_started_at, old_round_base, old_round_started_at, old_finished_at
        )
        SELECT %(replay_id)s, id, round_started_at, 0, round_started_at, round_started_at FROM added
    )
    SELECT endpoint_id FROM added
"""
"""Makes a delivery for each of these events that the endpoint has none of, spaced out in time."""

TAKE_AWAY = f"""
    WITH unsent AS (
        SELECT delivery.id FROM deliveries_delivery delivery
        JOIN deliveries_putback mine ON mine.replay_id = %(replay_id)s AND mine.delivery_id = delivery.id
        WHERE delivery.id = ANY (%(ids)s::uuid[]) AND delivery.state = {PENDING} AND delivery.attempt_count = 0
            AND delivery.round_started_at = mine.round_started_at
        ORDER BY delivery.id FOR UPDATE OF delivery
    ), gone AS (
        DELETE FROM deliveries_delivery WHERE id = ANY (ARRAY(SELECT id FROM unsent))
        RETURNING id, endpoint_id, ordering_key, blocked
    ), unblocked AS (
        {
    unblock_next(
        "gone", where="AND NOT gone.blocked", except_for="AND waiting.id <> ALL (ARRAY(SELECT id FROM unsent))"
    )
}
    ), forgotten AS (
        DELETE FROM deliveries_putback
        WHERE replay_id = %(replay_id)s AND delivery_id = ANY (ARRAY(SELECT id FROM gone))
    )
    SELECT endpoint_id FROM gone
"""
"""Deletes what a job has made and nobody has attempted; the next of their ordering keys may go."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Which events: those of the endpoint's consumer within a span of time that it wants and never had."""

    consumer_id: UUID
    endpoint_id: UUID
    since: datetime
    until: datetime

    def stored(self) -> dict[str, Any]:
        """As a job keeps it: a filter of its endpoint, and the span of time."""
        of_endpoint = Filter(state=None, consumer_id=self.consumer_id, endpoint_id=self.endpoint_id)
        return of_endpoint.stored() | {
            "missed_since": self.since.isoformat(),
            "missed_until": self.until.isoformat(),
        }

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "Missed | None":
        """None for a job of another kind."""
        if stored.get("missed_since") is None:
            return None
        return cls(
            consumer_id=UUID(stored["consumer_id"]),
            endpoint_id=UUID(stored["endpoint_id"]),
            since=datetime.fromisoformat(stored["missed_since"]),
            until=datetime.fromisoformat(stored["missed_until"]),
        )


def missed_matched(missed: Missed, *, now: datetime) -> Matched:
    """How many a job would send, as far as that can be counted at once."""
    wanted = _events(missed, now=now)
    if wanted is None:
        return Matched([], False)
    count, is_more = count_events(wanted)
    return Matched([(missed.endpoint_id, count)] if count else [], is_more)


def next_missed(missed: Missed, *, size: int, after: WalkPosition | None, now: datetime) -> Batch:
    """The next events, oldest first. A position's key holds the transaction that stored the event."""
    wanted = _events(missed, now=now)
    if wanted is None:
        return Batch([], after, is_last=True)
    place = EventPosition(str(after.key.int), after.id) if after else None
    found = walk_events(wanted, size=size, after=place, forward=True)
    last = found.following or (found.position_of(found.rows[-1]) if found.rows else None)
    position = WalkPosition(UUID(int=int(last.key)), last.id) if last else after
    return Batch([event.id for event in found.rows], position, is_last=found.following is None)


def add(
    event_ids: Sequence[UUID], missed: Missed, *, replay_id: UUID, first_at: datetime, spacing: timedelta
) -> list[UUID]:
    """The endpoint, once for each delivery that was made. Inside the caller's transaction."""
    of_events: dict[str, Any] = {"event_ids": list(event_ids), "endpoint_id": missed.endpoint_id}
    deliveries: dict[str, Any] = {
        "delivery_ids": [_delivery_id(event_id) for event_id in event_ids], "replay_id": replay_id,
        "first_at": first_at, "spacing": spacing.total_seconds(),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(LOCK_KEYS, of_events)
        cursor.execute(LOCK_PAYLOADS, {"event_ids": of_events["event_ids"]})
        cursor.execute(ADD, of_events | deliveries)
        return [row[0] for row in cursor.fetchall()]


def take_away(delivery_ids: Sequence[UUID], *, replay_id: UUID) -> list[UUID]:
    """The endpoint, once for each delivery that is gone. Inside a transaction that holds their ordering keys."""
    with connection.cursor() as cursor:
        cursor.execute(TAKE_AWAY, {"replay_id": replay_id, "ids": list(delivery_ids)})
        return [row[0] for row in cursor.fetchall()]


def _events(missed: Missed, *, now: datetime) -> EventFilter | None:
    """None where the endpoint is gone."""
    endpoint = Endpoint.objects.filter(id=missed.endpoint_id, deleted_at__isnull=True).first()
    if endpoint is None:
        return None
    # Which older events it had is no longer known, once their deliveries are forgotten.
    known = now - timedelta(days=min(settings.RETENTION_DELIVERED_DAYS, settings.RETENTION_DEAD_DAYS))
    wanted = EventFilter(consumer_id=missed.consumer_id, since=max(missed.since, known), until=missed.until)
    return replace(wanted, missed_by=endpoint.id, patterns=tuple(endpoint.event_types))


def _delivery_id(event_id: UUID) -> UUID:
    """A new id with its event's time: lists and retention read a delivery's age from its id."""
    tail = (1 << 80) - 1
    return UUID(int=(event_id.int & ~tail) | (ids.new_uuid().int & tail))
