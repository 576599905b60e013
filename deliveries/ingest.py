"""Step: accept. Events, their fan-out and their sequence numbers, in the caller's one transaction.

A batch of a thousand takes as many statements as a single event. An item that cannot be accepted is refused by itself;
the others go on.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection

from deliveries import catalogue
from deliveries.models import Event
from subscriptions import ids
from subscriptions.event_types import patterns_for

# What may stand in a header and in a URL. No dot: `standard` signatures join the id to the rest with one.
PRODUCER_ID = re.compile(r"[A-Za-z0-9_:@~=+\-]{1,255}")

FIND_BY_PRODUCER_ID = """
    SELECT event.id
    FROM unnest(%(consumer_ids)s::uuid[], %(producer_ids)s::text[]) AS given (consumer_id, producer_id)
    JOIN deliveries_event event USING (consumer_id, producer_id)
"""
"""The events that were accepted before under the producers' own ids."""

NEXT_SEQUENCES = """
    INSERT INTO deliveries_orderingkey AS held (consumer_id, key, last_sequence)
    SELECT * FROM unnest(%(consumer_ids)s::uuid[], %(keys)s::text[], %(counts)s::bigint[]) AS given ORDER BY 1, 2
    ON CONFLICT (consumer_id, key) DO UPDATE SET last_sequence = held.last_sequence + excluded.last_sequence
    RETURNING consumer_id, key, last_sequence
"""
"""Takes the next numbers of each key and holds it until commit, so a rollback leaves no gap. Locks in key order."""

STORE_EVENTS = """
    WITH given AS (
        SELECT * FROM unnest(
            %(ids)s::uuid[], %(consumer_ids)s::uuid[], %(types)s::text[], %(patterns)s::text[],
            %(api_versions)s::text[], %(producer_ids)s::text[], %(bodies)s::bytea[], %(occurred_ats)s::timestamptz[],
            %(ordering_keys)s::text[], %(sequences)s::bigint[], %(traceparents)s::text[]
        ) AS event (
            id, consumer_id, type, patterns, api_version, producer_id, body, occurred_at, ordering_key, sequence,
            traceparent
        )
    ), matched AS MATERIALIZED (
        SELECT given.id AS event_id, endpoint.id AS endpoint_id,
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
        SELECT given.id, consumer_id, type, api_version, producer_id, body, occurred_at, %(now)s, ordering_key,
            sequence, traceparent, coalesce(delivery_count, 0)
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
        SELECT webhooks_uuid7(), event_id, endpoint_id, 'pending', now() + wait, 0, 0, now(), %(now)s,
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


@dataclass(frozen=True, slots=True)
class NewEvent:
    """One event as a producer sent it, its shape already checked."""

    consumer: str
    type: str
    data: dict[str, Any]
    producer_id: str | None = None
    api_version: str | None = None
    occurred_at: datetime | None = None
    ordering_key: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    event: Event


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The producer's own id came before, with the same content. This is that event."""

    event: Event


@dataclass(frozen=True, slots=True)
class Refused:
    code: str
    detail: str
    pointer: str = ""


Result = Accepted | Duplicate | Refused


@dataclass(frozen=True, slots=True)
class Outcome:
    results: list[Result]
    endpoint_ids: list[UUID]
    # How each consumer is shown, by id.
    consumers: dict[UUID, str]


class Raced(Exception):
    """Another transaction took one of the producer ids a moment ago. Roll back and accept again."""


@dataclass(frozen=True, slots=True)
class _Draft:
    index: int
    new: NewEvent
    id: UUID
    consumer_id: UUID
    api_version: str
    sequence: int | None = None

    @property
    def public_id(self) -> str:
        return self.new.producer_id or ids.show("evt", self.id)

    def rendered(self, now: datetime) -> bytes:
        return render(
            public_id=self.public_id,
            new=self.new,
            api_version=self.api_version,
            sequence=self.sequence,
            created_at=now,
        )


def takes_one_statement(new_events: Sequence[NewEvent]) -> bool:
    """Whether accepting these writes in one statement, a transaction by itself: no own ids, no keys to count."""
    return all(new.producer_id is None and new.ordering_key is None for new in new_events)


def accept(new_events: Sequence[NewEvent], *, now: datetime) -> Outcome:
    """One result per event, in order. Runs in the caller's transaction, so that its answer commits with the events."""
    results: dict[int, Result] = {}
    known = _known(new_events)
    drafts = _drafted(new_events, known, results)
    fresh = _without_duplicates(drafts, results)
    known.types.note_use({draft.new.type for draft in fresh})
    fresh = _with_sequences(fresh)
    endpoint_ids = _store(fresh, results, now=now)
    _settle_repeats(drafts, results)
    return Outcome(
        results=[results[index] for index in range(len(new_events))],
        endpoint_ids=endpoint_ids,
        consumers=known.shown,
    )


def render(*, public_id: str, new: NewEvent, api_version: str, sequence: int | None, created_at: datetime) -> bytes:
    """The bytes that are stored, signed and sent, for ever."""
    body: dict[str, Any] = {
        "id": public_id,
        "type": new.type,
        "created_at": show_time(created_at),
        "api_version": api_version,
        "data": new.data,
    }
    if new.ordering_key is not None:
        body |= {"ordering_key": new.ordering_key, "sequence": sequence}
    return orjson.dumps(body)


def show_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _known(new_events: Sequence[NewEvent]) -> catalogue.Known:
    return catalogue.look_up(
        {new.consumer for new in new_events},
        {(new.type, _version(new)) for new in new_events},
        register=settings.UNKNOWN_EVENT_TYPES == "register",
    )


def _version(new: NewEvent) -> str:
    return new.api_version or str(settings.DEFAULT_API_VERSION)


def _drafted(new_events: Sequence[NewEvent], known: catalogue.Known, results: dict[int, Result]) -> list[_Draft]:
    """Those that have a consumer and a type they may have; the others are refused here."""
    addressed = []
    for index, new in enumerate(new_events):
        consumer_id = known.consumer_ids.get(new.consumer)
        if consumer_id is None:
            results[index] = Refused("consumer_not_found", f"There is no consumer {new.consumer!r}.", "/consumer")
        else:
            addressed.append(_Draft(index, new, ids.new_uuid(), consumer_id, _version(new)))
    drafts = []
    for draft in addressed:
        refusal = known.types.check(draft.new.type, draft.api_version, draft.new.data)
        if refusal is None:
            drafts.append(draft)
        else:
            results[draft.index] = Refused(refusal.code, refusal.detail, refusal.pointer)
    return drafts


def _without_duplicates(drafts: list[_Draft], results: dict[int, Result]) -> list[_Draft]:
    """Drops what was accepted before under the producer's own id. A repeat within the batch waits for its first."""
    named = [draft for draft in drafts if draft.new.producer_id is not None]
    if not named:
        return drafts
    existing = {(event.consumer_id, event.producer_id): event for event in _by_producer_id(named)}
    kept, seen = [], set()
    for draft in drafts:
        name = (draft.consumer_id, draft.new.producer_id)
        event = existing.get(name)
        if event is not None:
            results[draft.index] = _compared(event, draft.new)
        elif draft.new.producer_id is None or name not in seen:
            kept.append(draft)
            seen.add(name)
    return kept


def _by_producer_id(drafts: Iterable[_Draft]) -> list[Event]:
    pairs = {(draft.consumer_id, draft.new.producer_id) for draft in drafts}
    parameters: dict[str, Any] = {"consumer_ids": [c for c, _ in pairs], "producer_ids": [p for _, p in pairs]}
    with connection.cursor() as cursor:
        cursor.execute(FIND_BY_PRODUCER_ID, parameters)
        found = [row[0] for row in cursor.fetchall()]
    return list(Event.objects.filter(id__in=found)) if found else []


def _compared(event: Event, new: NewEvent) -> Result:
    """A duplicate if rendering it again says what was stored; otherwise the id was used for two things."""
    again = render(
        public_id=event.public_id,
        new=new,
        api_version=_version(new),
        sequence=event.sequence,
        created_at=event.created_at,
    )
    # A payload gone by retention has nothing left to compare with.
    same = event.body is None or orjson.loads(again) == orjson.loads(bytes(event.body))
    if not same or event.occurred_at != new.occurred_at:
        return Refused("event_id_reused", f"The id {event.public_id!r} was used before for another event.", "/id")
    return Duplicate(event)


def _with_sequences(drafts: list[_Draft]) -> list[_Draft]:
    keyed: dict[tuple[UUID, str], list[_Draft]] = defaultdict(list)
    for draft in drafts:
        if draft.new.ordering_key is not None:
            keyed[draft.consumer_id, draft.new.ordering_key].append(draft)
    if not keyed:
        return drafts
    with connection.cursor() as cursor:
        cursor.execute(
            NEXT_SEQUENCES,
            {
                "consumer_ids": [consumer_id for consumer_id, _ in keyed],
                "keys": [key for _, key in keyed],
                "counts": [len(group) for group in keyed.values()],
            },
        )
        last = {(consumer_id, key): sequence for consumer_id, key, sequence in cursor.fetchall()}
    numbers = {
        draft.index: last[name] - len(group) + position
        for name, group in keyed.items()
        for position, draft in enumerate(group, start=1)
    }
    return [replace(draft, sequence=numbers.get(draft.index)) for draft in drafts]


def _store(drafts: list[_Draft], results: dict[int, Result], *, now: datetime) -> list[UUID]:
    if not drafts:
        return []
    bodies = [draft.rendered(now) for draft in drafts]
    with connection.cursor() as cursor:
        cursor.execute(
            STORE_EVENTS,
            {
                "ids": [draft.id for draft in drafts],
                "consumer_ids": [draft.consumer_id for draft in drafts],
                "types": [draft.new.type for draft in drafts],
                "patterns": [" ".join(patterns_for(draft.new.type)) for draft in drafts],
                "api_versions": [draft.api_version for draft in drafts],
                "producer_ids": [draft.new.producer_id for draft in drafts],
                "bodies": bodies,
                "occurred_ats": [draft.new.occurred_at for draft in drafts],
                "ordering_keys": [draft.new.ordering_key for draft in drafts],
                "sequences": [draft.sequence for draft in drafts],
                "traceparents": [draft.new.traceparent for draft in drafts],
                "first_wait": settings.DELIVERY_RETRY_SCHEDULE[0],
                "now": now,
            },
        )
        rows = cursor.fetchall()
    if len(rows) != len(drafts):
        # Keeping the rest would leave gaps in sequences; a fresh transaction finds the duplicate before it counts.
        raise Raced
    counts = {event_id: count for event_id, count, _ in rows}
    for draft, body in zip(drafts, bodies, strict=True):
        results[draft.index] = Accepted(_event(draft, body=body, delivery_count=counts[draft.id], now=now))
    return rows[0][2] or []


def _event(draft: _Draft, *, body: bytes, delivery_count: int, now: datetime) -> Event:
    return Event(
        id=draft.id,
        consumer_id=draft.consumer_id,
        type=draft.new.type,
        api_version=draft.api_version,
        producer_id=draft.new.producer_id,
        body=body,
        occurred_at=draft.new.occurred_at,
        created_at=now,
        ordering_key=draft.new.ordering_key,
        sequence=draft.sequence,
        traceparent=draft.new.traceparent,
        delivery_count=delivery_count,
    )


def _settle_repeats(drafts: list[_Draft], results: dict[int, Result]) -> None:
    """Repeats of a producer id within one batch are duplicates of the first of them."""
    first: dict[tuple[UUID, str | None], Event] = {}
    for draft in drafts:
        name = (draft.consumer_id, draft.new.producer_id)
        result = results.get(draft.index)
        if isinstance(result, Accepted):
            first[name] = result.event
        elif result is None:
            results[draft.index] = _compared(first[name], draft.new)
