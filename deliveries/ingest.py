"""Step: accept. Events, their fan-out and their sequence numbers, in the caller's one transaction.

Emits come here through accepting/group_commit.py: all events of one moment, whoever sent them. They are accepted in two
parts, and a thousand events take as many statements as one:

1. `draft` judges each event by what is remembered or looked up. It writes nothing.
2. `store` writes those that may be accepted. Each event ends in one of four ways:
   a. It is stored: Accepted.
   b. Its producer id was accepted before: Duplicate if the content is the same, otherwise Refused.
   c. It may not be accepted: Refused. Others go on.
   d. What it was judged by has changed meanwhile: None, and nothing of it was stored. Draft it again.
   Where b or d is found only after a sequence number was taken, everything is undone (Conflict): numbers have no gaps.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from django.db import Error, connection, transaction

from deliveries.accepting import cache, catalogue, insert
from deliveries.accepting.catalogue import CatalogueEntry, Name
from deliveries.accepting.insert import Stored
from deliveries.models import Event
from subscriptions import ids
from subscriptions.schemas.work import Work

logger = logging.getLogger(__name__)

# So few that a pipe takes them in one piece (4 KiB), whoever else writes to it.
_LINES_AT_ONCE = 4
# How often a transaction is tried that met a conflict. Each time the other side has come to its end.
TRIES = 5

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
    # As it is shown.
    consumer: str


class Duplicate(NamedTuple):
    """The producer's own id came before, with the same content. This is that event."""

    event: Event
    consumer: str


class RefusedEvent(NamedTuple):
    code: str
    detail: str
    pointer: str = ""


Result = Accepted | Duplicate | RefusedEvent


class Draft(NamedTuple):
    """An event of a living consumer, ready to be stored."""

    new: NewEvent
    name: Name
    entry: CatalogueEntry
    # Its body is rendered when its sequence is known, if it has an ordering key.
    event: Stored
    # Of the API key that it came with; None for our own.
    key_id: str | None
    # Why it may not be accepted, unless it was before.
    refusal: RefusedEvent | None

    @property
    def writes_more(self) -> bool:
        """Than the event and its deliveries: a sequence number, or its type's first use."""
        return self.event.ordering_key is not None or not self.entry.is_used

    @property
    def own_name(self) -> tuple[UUID, str | None]:
        return self.event.consumer_id, self.event.producer_id


class Ingested(NamedTuple):
    # One for each event, in order. None where nothing is decided yet: draft it again.
    results: list[Result | None]
    # The endpoints that have new work, as the bell writes them.
    ready: set[str]


class Conflict(Exception):
    """Something changed between look-up and store. Roll back, draft again, store again."""

    def __init__(self, places: set[int]) -> None:
        # Of the drafts that it changed for.
        self.places = places


def accept(new_events: Sequence[NewEvent], *, now: datetime) -> Ingested:
    """Events of our own, which come without an API key: within the caller's transaction, if there is one."""
    for _ in range(TRIES - 1):
        with suppress(Conflict):
            return _accept_once(new_events, now=now)
    return _accept_once(new_events, now=now)


def _accept_once(new_events: Sequence[NewEvent], *, now: datetime) -> Ingested:
    drafts = draft(new_events, now=now)
    with transaction.atomic():
        outcome = store(drafts)
        if undecided := {place for place, result in enumerate(outcome.results) if result is None}:
            raise Conflict(undecided)
        return outcome


def draft(new_events: Sequence[NewEvent], *, now: datetime, key_id: str | None = None) -> list[Draft | RefusedEvent]:
    """Judges each event of one request. What is remembered may be stale, so a refusal is found a second time."""
    default_version = default_api_version()
    names = [(new.consumer, new.type, new.api_version or default_version) for new in new_events]
    entries = cache.find(names)
    refusals = _refusals(new_events, entries)
    if any(refusals):
        cache.forget(name for name, refusal in zip(names, refusals, strict=True) if refusal)
        entries = cache.find(names)
        refusals = _refusals(new_events, entries)
    return [
        RefusedEvent("consumer_not_found", f"There is no consumer {new.consumer!r}.", "/consumer")
        if entry is None
        else Draft(new, name, entry, _event(new, entry, now), key_id, refusal)
        for new, name, entry, refusal in zip(new_events, names, entries, refusals, strict=True)
    ]


def store(drafts: Sequence[Draft | RefusedEvent]) -> Ingested:
    """Writes what may be accepted. More than one plain event needs a transaction around it."""
    results: list[Result | None] = [each if isinstance(each, RefusedEvent) else None for each in drafts]
    fresh = _fresh(drafts, results)
    ready = _write(fresh, results) if fresh else set()
    if None in results:
        _settle_taken(drafts, results)
    return Ingested(results, ready)


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


def log_accepted(requests: Sequence[tuple[str | None, Sequence[Stored]]]) -> None:
    """A line for each request that had events accepted, under its id."""
    lines = [_accepted_one(request_id, events[0]) for request_id, events in requests if len(events) == 1]
    for start in range(0, len(lines), _LINES_AT_ONCE):
        logger.info("event.accepted", extra={"fields": lines[start : start + _LINES_AT_ONCE]})
    for request_id, events in requests:
        if len(events) > 1:
            logger.info("events.accepted", extra={"fields": _accepted_many(request_id, events)})


def _accepted_one(request_id: str | None, event: Stored) -> dict[str, Any]:
    return {
        "event": event.public_id,
        "consumer": ids.show_often("con", event.consumer_id),
        "event_type": event.type,
        "deliveries": event.delivery_count,
        "request_id": request_id,
        **_trace_id(event),
    }


def _accepted_many(request_id: str | None, events: Sequence[Stored]) -> dict[str, Any]:
    # By its number: a UUID's own hash is slow.
    consumer_ids = {event.consumer_id.int: event.consumer_id for event in events}
    return {
        "events": [event.public_id for event in events],
        "consumers": [ids.show_often("con", each) for each in consumer_ids.values()],
        "event_types": sorted({event.type for event in events}),
        "deliveries": sum(event.delivery_count for event in events),
        "request_id": request_id,
        **_trace_id(events[0]),
    }


def _trace_id(event: Stored) -> dict[str, str]:
    """As its `traceparent` says, if it came with one."""
    return {"trace_id": event.traceparent[3:35]} if event.traceparent else {}


@lru_cache(maxsize=64)
def show_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def default_api_version() -> str:
    """Asked once for many events: a look into Django's settings takes as long as rendering an event."""
    return str(settings.DEFAULT_API_VERSION)


def _refusals(new_events: Sequence[NewEvent], entries: Sequence[CatalogueEntry | None]) -> list[RefusedEvent | None]:
    work, refusals = Work(), []
    for new, entry in zip(new_events, entries, strict=True):
        found = entry.refusal(new.data, work) if entry else None
        refusals.append(RefusedEvent(found.code, found.detail, found.pointer) if found else None)
    return refusals


def _event(new: NewEvent, entry: CatalogueEntry, now: datetime) -> Stored:
    event_id = ids.new_uuid()
    public_id, version = new.producer_id or ids.show("evt", event_id), entry.api_version
    body = b""
    if new.ordering_key is None:
        body = render(public_id=public_id, new=new, api_version=version, sequence=None, created_at=now)
    # In the order of its fields: by name, it takes twice as long.
    return Stored(
        event_id,
        public_id,
        entry.consumer_id,
        new.type,
        version,
        new.producer_id,
        body,
        now,
        new.occurred_at,
        new.ordering_key,
        None,
        new.traceparent,
    )


def _fresh(drafts: Sequence[Draft | RefusedEvent], results: list[Result | None]) -> dict[int, Draft]:
    """What is to be stored, by its place. Refuses what may not be, and leaves out the repeats of a producer id.

    An id is looked for before that where something else would be written or a refusal given for an event that was
    accepted before: who asks again learns that it has arrived, although its type was archived since. All other ids are
    left to the constraint.
    """
    asked = [each for each in drafts if isinstance(each, Draft) and _must_be_looked_for(each)]
    existing = _by_producer_id(asked) if asked else {}
    fresh: dict[int, Draft] = {}
    named = set()
    for place, each in enumerate(drafts):
        if isinstance(each, RefusedEvent):
            continue
        own_name = each.own_name if each.event.producer_id is not None else None
        if own_name and (event := existing.get(own_name)):
            results[place] = _compared(event, each)
        elif each.refusal is not None:
            results[place] = each.refusal
        elif own_name not in named:
            fresh[place] = each
            if own_name:
                named.add(own_name)
    return fresh


def _must_be_looked_for(each: Draft) -> bool:
    return each.event.producer_id is not None and (each.refusal is not None or each.writes_more)


def _by_producer_id(drafts: Iterable[Draft]) -> dict[tuple[UUID, str | None], Event]:
    pairs = {each.own_name for each in drafts}
    parameters: dict[str, Any] = {"consumer_ids": [c for c, _ in pairs], "producer_ids": [p for _, p in pairs]}
    with connection.cursor() as cursor:
        cursor.execute(FIND_BY_PRODUCER_ID, parameters)
        found = [row[0] for row in cursor.fetchall()]
    events = Event.objects.filter(id__in=found) if found else ()
    return {(event.consumer_id, event.producer_id): event for event in events}


def _compared(event: Event, given: Draft) -> Duplicate | RefusedEvent:
    """A duplicate if rendering it again says what was stored; otherwise the id was used for two things."""
    again = render(
        public_id=event.public_id,
        new=given.new,
        api_version=given.event.api_version,
        sequence=event.sequence,
        created_at=event.created_at,
    )
    # A payload gone by retention has nothing left to compare with.
    same = event.body is None or _meaning(again) == _meaning(bytes(event.body))
    if not same or event.occurred_at != given.new.occurred_at:
        return RefusedEvent("event_id_reused", f"The id {event.public_id!r} was used before for another event.", "/id")
    return Duplicate(event, given.entry.consumer)


def _meaning(body: bytes) -> bytes:
    """Written out again, since Python takes `true`, `1` and `1.0` for equal and receivers do not.

    Without the timestamp: events of before it was part of the body have none, and `occurred_at` is compared anyway.
    """
    whole = orjson.loads(body)
    whole.pop("timestamp", None)
    return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)


def _write(fresh: dict[int, Draft], results: list[Result | None]) -> set[str]:
    drafts = list(fresh.values())
    catalogue.note_use({each.event.type for each in drafts if not each.entry.is_used})
    ordered = [each for each in drafts if each.event.ordering_key is not None]
    if ordered:
        _number(ordered)
    stored = insert.store([each.event for each in drafts], [(each.entry, each.key_id) for each in drafts])
    not_stored = stored.stale | stored.taken
    cache.forget(drafts[number].name for number in stored.stale)
    places = list(fresh)
    if in_vain := {places[number] for number in not_stored if drafts[number].writes_more}:
        raise Conflict(in_vain)
    for number, (place, each) in enumerate(fresh.items()):
        if number not in not_stored:
            results[place] = Accepted(each.event, each.entry.consumer)
    return stored.ready


def _number(drafts: Sequence[Draft]) -> None:
    """Takes the next sequence numbers of each ordering key, and renders what they are part of."""
    keyed: dict[tuple[UUID, str], list[Draft]] = defaultdict(list)
    for each in drafts:
        keyed[each.event.consumer_id, each.event.ordering_key or ""].append(each)
    parameters: dict[str, Any] = {
        "consumer_ids": [consumer_id for consumer_id, _ in keyed],
        "keys": [key for _, key in keyed],
        "counts": [len(group) for group in keyed.values()],
    }
    with connection.cursor() as cursor:
        cursor.execute(NEXT_SEQUENCES, parameters)
        rows = cursor.fetchall()
    for consumer_id, key, last in rows:
        group = keyed[consumer_id, key]
        for sequence, each in enumerate(group, start=last - len(group) + 1):
            event = each.event
            event.sequence = sequence
            event.body = render(
                public_id=event.public_id,
                new=each.new,
                api_version=event.api_version,
                sequence=sequence,
                created_at=event.created_at,
            )


def _settle_taken(drafts: Sequence[Draft | RefusedEvent], results: list[Result | None]) -> None:
    """What was not stored since its producer id is taken, perhaps by an event of this very statement."""
    left = [
        (place, each)
        for place, each in enumerate(drafts)
        if results[place] is None and isinstance(each, Draft) and each.event.producer_id is not None
    ]
    if not left:
        return
    try:
        existing = _by_producer_id([each for _, each in left])
    except Error:
        # Without a transaction, the others are committed and have to be answered. These are left undecided.
        if connection.in_atomic_block:
            raise
        logger.exception("accept.ids_unread")
        return
    for place, each in left:
        if event := existing.get(each.own_name):
            results[place] = _compared(event, each)
