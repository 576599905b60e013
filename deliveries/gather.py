"""Part of accept: emits that arrive at the same moment are stored by one statement.

Those that need nothing but their events written, and perhaps their answer kept under an Idempotency-Key. What it takes
to accept an event is remembered from the last time (`deliveries/beliefs.py`) and looked at again by the statement that
stores it: a key revoked or a type archived meanwhile stores nothing. Whatever is not as expected is left to
`deliveries/ingest.py`, which says what is wrong or puts it right.
"""

from collections.abc import Callable, Container, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import DeadlockDetected, LockNotAvailable

from deliveries import beliefs, bell, tally
from deliveries.ingest import NewEvent, default_api_version, log_accepted, render
from deliveries.store import Belief, Stored, Written, is_plain, store_if_still_true
from subscriptions import idempotency, ids
from subscriptions.idempotency import Scope
from subscriptions.together import Together

# Emits of one statement. A web process has fewer threads than this.
_AT_MOST = 100


class Gathered(NamedTuple):
    event: Stored
    data: dict[str, Any]
    # How its consumer is shown.
    consumer: str


class Emit(NamedTuple):
    """One request: a single event, or a batch that is accepted as a whole or not at all."""

    new_events: Sequence[NewEvent]
    key_id: UUID
    now: datetime
    # Where the answer is kept, if the request came with an Idempotency-Key.
    scope: Scope | None
    show: Callable[[list[Gathered]], bytes]


class _Draft(NamedTuple):
    id: UUID
    public_id: str
    new: NewEvent
    api_version: str
    body: bytes

    @property
    def name(self) -> beliefs.Name:
        return self.new.consumer, self.new.type, self.api_version


class _Item(NamedTuple):
    emit: Emit
    drafts: list[_Draft]


class _Ready(NamedTuple):
    """An item of which everything is believed to be acceptable."""

    item: _Item
    events: list[tuple[Stored, Belief]]
    gathered: list[Gathered]


class _Undone(Exception):
    """Rolled back, to be done the long way."""


def accept(emit: Emit) -> bytes | None:
    """The answer, its events stored, counted and rung for; or None, with nothing written, if it needs the long way."""
    if any(new.ordering_key is not None for new in emit.new_events):
        return None
    default_version = default_api_version()
    item = _Item(emit, [_draft(new, emit.now, default_version) for new in emit.new_events])
    return _together().do(item) if len(item.drafts) == 1 else _accept_all([item])[0]


def _draft(new: NewEvent, now: datetime, default_version: str) -> _Draft:
    event_id, api_version = ids.new_uuid(), new.api_version or default_version
    public_id = new.producer_id or ids.show("evt", event_id)
    body = render(public_id=public_id, new=new, api_version=api_version, sequence=None, created_at=now)
    return _Draft(event_id, public_id, new, api_version, body)


@lru_cache(maxsize=1)
def _together() -> "Together[_Item, bytes | None]":
    return Together(_accept_all, at_most=_AT_MOST)


def _accept_all(items: Sequence[_Item]) -> list[bytes | None]:
    """No request of Django's surrounds this, so nobody else sees to the connection."""
    # This thread's own. Each look at `connection` would search for it again.
    own = connections[DEFAULT_DB_ALIAS]
    _close_if_old(own)
    try:
        answers = _answers(items, own)
    finally:
        _close_if_old(own)
    return [answers.get(id(item)) for item in items]


def _answers(items: Sequence[_Item], own: BaseDatabaseWrapper) -> dict[int, bytes]:
    """By the item's identity. Items that are missing were not accepted, and nothing of them was written."""
    try:
        _connect(own)
        beliefs.learn(draft.name for item in items for draft in item.drafts)
        ready = _unseen([each for item in items if (each := _ready(item)) is not None])
    except (OperationalError, InterfaceError):
        # Nothing was written: the long way tries once more, or says why not.
        return {}
    if not ready:
        return {}
    try:
        written, answers = _store(ready)
    except _Undone:
        return {}
    except (OperationalError, InterfaceError) as error:
        # Who waited too long for a lock was rolled back for certain, and may try again alone.
        if isinstance(error.__cause__, LockNotAvailable | DeadlockDetected):
            return {}
        raise
    except DatabaseError:
        # One of them cannot be stored, and so none was. Each finds out by itself.
        return {}
    bell.ring(written.endpoint_ids)
    tally.count_accepted([event.consumer_id for event in written.stored])
    log_accepted(written.stored)
    return answers


def _store(ready: Sequence[_Ready]) -> tuple[Written, dict[int, bytes]]:
    whole = any(len(each.events) > 1 for each in ready)
    kept = any(each.item.emit.scope for each in ready)
    named = not all(is_plain(event) for each in ready for event, _ in each.events)
    with transaction.atomic() if kept or (whole and named) else nullcontext():
        written = store_if_still_true([pair for each in ready for pair in each.events], whole=whole)
        if written.changed:
            _forget(ready, {event.id for event in written.changed})
        stored_ids = {event.id.int for event in written.stored}
        done = [each for each in ready if all(event.id.int in stored_ids for event, _ in each.events)]
        if whole and not done:
            raise _Undone
        answers = {id(each.item): each.item.emit.show(each.gathered) for each in done}
        scoped = [(each.item.emit.scope, answers[id(each.item)]) for each in done]
        if not idempotency.keep([(scope, answer) for scope, answer in scoped if scope]):
            raise _Undone
    return written, answers


def _ready(item: _Item) -> _Ready | None:
    events, gathered = [], []
    for draft in item.drafts:
        # Kept with each: another thread may forget what is remembered before this one has answered.
        known = beliefs.recall(draft.name)
        if known is not None and not known.fits(draft.new.data):
            beliefs.forget(draft.name)  # the schema may be another by now
            known = None
        if known is None:
            return None
        event = _stored(draft, known.consumer_id, item.emit.now)
        belief = Belief(item.emit.key_id, known.consumer_uid, known.schema_hash)
        events.append((event, belief))
        gathered.append(Gathered(event, draft.new.data, known.consumer))
    return _Ready(item, events, gathered)


def _stored(draft: _Draft, consumer_id: UUID, now: datetime) -> Stored:
    return Stored(
        id=draft.id,
        public_id=draft.public_id,
        consumer_id=consumer_id,
        type=draft.new.type,
        api_version=draft.api_version,
        producer_id=draft.new.producer_id,
        body=draft.body,
        created_at=now,
        occurred_at=draft.new.occurred_at,
        ordering_key=None,
        sequence=None,
        traceparent=draft.new.traceparent,
    )


def _unseen(ready: list[_Ready]) -> list[_Ready]:
    """Without those whose Idempotency-Key was here before, as far as is known."""
    scopes = [each.item.emit.scope for each in ready if each.item.emit.scope]
    if not scopes:
        return ready
    seen = iter(idempotency.seen_before(scopes))
    return [each for each in ready if each.item.emit.scope is None or not next(seen)]


def _forget(ready: Sequence[_Ready], changed: Container[UUID]) -> None:
    for each in ready:
        for draft in each.item.drafts:
            if draft.id in changed:
                beliefs.forget(draft.name)


def _close_if_old(own: BaseDatabaseWrapper) -> None:
    """As Django does around each request. Inside somebody's transaction the connection is theirs."""
    if not own.in_atomic_block:
        own.close_if_unusable_or_obsolete()


def _connect(own: BaseDatabaseWrapper) -> None:
    """Replaces a connection that has died while it was idle, as all do when PostgreSQL restarts.

    Whoever lives has nothing to say before it is asked. Of one that died, the first look may find a farewell; the
    second then finds the end. Polling the socket would tell as much, and let the other threads go first.
    """
    if own.connection is not None:
        pgconn = own.connection.pgconn
        try:
            pgconn.consume_input()
            pgconn.consume_input()
        except psycopg.Error:
            own.close()
    own.ensure_connection()
