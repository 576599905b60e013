"""Step: accept. Events, their fan-out and their sequence numbers, in the caller's one transaction.

A batch of a thousand takes as many statements as a single event. An item that cannot be accepted is refused by itself;
the others go on.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection

from deliveries.accepting import catalogue
from deliveries.accepting.insert import Stored, is_plain, store
from deliveries.models import Event
from subscriptions import ids

logger = logging.getLogger(__name__)

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


class NewEvent(NamedTuple):
    """One event as a producer sent it, its shape already checked."""

    consumer: str
    type: str
    data: dict[str, Any]
    producer_id: str | None = None
    api_version: str | None = None
    occurred_at: datetime | None = None
    ordering_key: str | None = None
    traceparent: str | None = None


class Accepted(NamedTuple):
    event: Stored


class Duplicate(NamedTuple):
    """The producer's own id came before, with the same content. This is that event."""

    event: Event | Stored


class Refused(NamedTuple):
    code: str
    detail: str
    pointer: str = ""


Result = Accepted | Duplicate | Refused


@dataclass(frozen=True, slots=True)
class Outcome:
    results: list[Result]
    # The endpoints that have new work, as the bell writes them.
    ready: set[str]
    # How each consumer is shown, by id.
    consumers: dict[UUID, str]


class Raced(Exception):
    """Another transaction took one of the producer ids a moment ago. Roll back and accept again."""


class _Draft(NamedTuple):
    place: int
    new: NewEvent
    id: UUID
    public_id: str
    consumer_id: UUID
    api_version: str
    # Why it may not be accepted, unless it was before.
    refusal: Refused | None = None
    sequence: int | None = None


def takes_one_statement(new_events: Sequence[NewEvent]) -> bool:
    """Whether accepting these writes in one statement, a transaction by itself."""
    return all(map(is_plain, new_events))


def accept(new_events: Sequence[NewEvent], *, now: datetime) -> Outcome:
    """One result per event, in order. Runs in the caller's transaction, so that its answer commits with the events."""
    results: dict[int, Result] = {}
    known = _known(new_events)
    drafts = _drafted(new_events, known, results)
    fresh = _fresh(drafts, results)
    known.types.note_use({draft.new.type for draft in fresh})
    fresh = _with_sequences(fresh)
    ready = _store(fresh, results, now=now)
    if len(results) < len(new_events):
        _settle_repeats(drafts, results)
    return Outcome(
        results=[results[index] for index in range(len(new_events))],
        ready=ready,
        consumers=known.shown,
    )


def render(*, public_id: str, new: NewEvent, api_version: str, sequence: int | None, created_at: datetime) -> bytes:
    """The bytes that are stored, signed and sent, for ever."""
    accepted_at = show_time(created_at)
    body: dict[str, Any] = {
        "id": public_id,
        "type": new.type,
        "created_at": accepted_at,
        # When it happened, as Standard Webhooks asks.
        "timestamp": show_time(new.occurred_at) if new.occurred_at else accepted_at,
        "api_version": api_version,
        "data": new.data,
    }
    if new.ordering_key is not None:
        body |= {"ordering_key": new.ordering_key, "sequence": sequence}
    return orjson.dumps(body)


def log_accepted(events: Sequence[Stored]) -> None:
    """One line for whatever came in one request."""
    if len(events) == 1:
        [event] = events
        fields: dict[str, Any] = {
            "event": event.public_id,
            "consumer": ids.show_often("con", event.consumer_id),
            "event_type": event.type,
            "deliveries": event.delivery_count,
        }
        logger.info("event.accepted", extra={"fields": fields})
    elif events:
        # By its number: a UUID's own hash is slow.
        consumer_ids = {event.consumer_id.int: event.consumer_id for event in events}
        fields = {
            "events": [event.public_id for event in events],
            "consumers": [ids.show_often("con", each) for each in consumer_ids.values()],
            "event_types": sorted({event.type for event in events}),
            "deliveries": sum(event.delivery_count for event in events),
        }
        logger.info("events.accepted", extra={"fields": fields})


@lru_cache(maxsize=64)
def show_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _known(new_events: Sequence[NewEvent]) -> catalogue.Known:
    default_version = default_api_version()
    return catalogue.look_up(
        {new.consumer for new in new_events},
        {(type, version or default_version) for type, version in {(new.type, new.api_version) for new in new_events}},
        register=settings.UNKNOWN_EVENT_TYPES == "register",
    )


def default_api_version() -> str:
    """Asked once for many events: a look into Django's settings takes as long as rendering an event."""
    return str(settings.DEFAULT_API_VERSION)


def _drafted(new_events: Sequence[NewEvent], known: catalogue.Known, results: dict[int, Result]) -> list[_Draft]:
    """Those that have a consumer; the others are refused here."""
    drafts = []
    default_version = default_api_version()
    for index, new in enumerate(new_events):
        consumer_id = known.consumer_ids.get(new.consumer)
        if consumer_id is None:
            results[index] = Refused("consumer_not_found", f"There is no consumer {new.consumer!r}.", "/consumer")
            continue
        api_version = new.api_version or default_version
        problem = known.types.check(new.type, api_version, new.data)
        refusal = Refused(problem.code, problem.detail, problem.pointer) if problem else None
        event_id = ids.new_uuid()
        public_id = new.producer_id or ids.show("evt", event_id)
        drafts.append(_Draft(index, new, event_id, public_id, consumer_id, api_version, refusal))
    return drafts


def _fresh(drafts: list[_Draft], results: dict[int, Result]) -> list[_Draft]:
    """Drops what was accepted before under the producer's own id, and refuses what has no type it may have.

    In this order: who asks again whether an event has arrived learns that it has, although its type was archived or got
    another schema since. A repeat within the batch waits for its first.
    """
    named = [draft for draft in drafts if draft.new.producer_id is not None]
    existing = {(event.consumer_id, event.producer_id): event for event in _by_producer_id(named)} if named else {}
    kept, seen = [], set()
    for draft in drafts:
        name = (draft.consumer_id, draft.new.producer_id)
        event = existing.get(name)
        if event is not None:
            results[draft.place] = _compared(event, draft.new)
        elif draft.refusal is not None:
            results[draft.place] = draft.refusal
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


def _compared(event: Event | Stored, new: NewEvent) -> Result:
    """A duplicate if rendering it again says what was stored; otherwise the id was used for two things."""
    again = render(
        public_id=event.public_id,
        new=new,
        api_version=new.api_version or default_api_version(),
        sequence=event.sequence,
        created_at=event.created_at,
    )
    # A payload gone by retention has nothing left to compare with.
    same = event.body is None or _meaning(again) == _meaning(bytes(event.body))
    if not same or event.occurred_at != new.occurred_at:
        return Refused("event_id_reused", f"The id {event.public_id!r} was used before for another event.", "/id")
    return Duplicate(event)


def _meaning(body: bytes) -> bytes:
    """Written out again, since Python takes `true`, `1` and `1.0` for equal and receivers do not.

    Without the timestamp: events of before it was part of the body have none, and `occurred_at` is compared anyway.
    """
    whole = orjson.loads(body)
    whole.pop("timestamp", None)
    return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)


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
        draft.place: last[name] - len(group) + position
        for name, group in keyed.items()
        for position, draft in enumerate(group, start=1)
    }
    return [draft._replace(sequence=numbers.get(draft.place)) for draft in drafts]


def _store(drafts: list[_Draft], results: dict[int, Result], *, now: datetime) -> set[str]:
    if not drafts:
        return set()
    events = [_stored(draft, now=now) for draft in drafts]
    written = store(events)
    if len(written.stored) != len(events):
        # Keeping the rest would leave gaps in sequences; a fresh transaction finds the duplicate before it counts.
        raise Raced
    for draft, event in zip(drafts, written.stored, strict=True):
        results[draft.place] = Accepted(event)
    return written.ready


def _stored(draft: _Draft, *, now: datetime) -> Stored:
    return Stored(
        id=draft.id,
        public_id=draft.public_id,
        consumer_id=draft.consumer_id,
        type=draft.new.type,
        api_version=draft.api_version,
        producer_id=draft.new.producer_id,
        body=render(
            public_id=draft.public_id,
            new=draft.new,
            api_version=draft.api_version,
            sequence=draft.sequence,
            created_at=now,
        ),
        created_at=now,
        occurred_at=draft.new.occurred_at,
        ordering_key=draft.new.ordering_key,
        sequence=draft.sequence,
        traceparent=draft.new.traceparent,
    )


def _settle_repeats(drafts: list[_Draft], results: dict[int, Result]) -> None:
    """Repeats of a producer id within one batch are duplicates of the first of them."""
    first: dict[tuple[UUID, str | None], Stored] = {}
    for draft in drafts:
        name = (draft.consumer_id, draft.new.producer_id)
        result = results.get(draft.place)
        if isinstance(result, Accepted):
            first[name] = result.event
        elif result is None:
            results[draft.place] = _compared(first[name], draft.new)
