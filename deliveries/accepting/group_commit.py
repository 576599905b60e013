"""Part of accept: emits that arrive at the same moment are stored by one statement, single events and batches apart.

Those that need nothing but their events written, and perhaps their answer kept under an Idempotency-Key. What it takes
to accept an event is remembered from the last time (`deliveries/accepting/cache.py`) and looked at again by the
statement that stores it: a key revoked or a type archived meanwhile stores nothing. Whatever is not as expected is left
to `deliveries/ingest.py`, which says what is wrong or puts it right.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import DeadlockDetected, LockNotAvailable

from deliveries import bell
from deliveries.accepting import cache
from deliveries.accepting.cache import Known
from deliveries.accepting.insert import Belief, Stored, Written, is_plain, store_if_still_true
from deliveries.ingest import NewEvent, default_api_version, log_accepted, render
from deliveries.statistics import counters
from subscriptions import fail_points, idempotency, ids
from subscriptions.idempotency import Scope
from subscriptions.limits.batcher import Together
from subscriptions.schemas.work import Work

# Emits of one statement. A web process has fewer threads than this.
_AT_MOST = 100


class Gathered(NamedTuple):
    event: Stored
    data: dict[str, Any]
    known: Known


class Emit(NamedTuple):
    """One request: a single event, or a batch that is accepted as a whole or not at all."""

    new_events: Sequence[NewEvent]
    key_id: UUID
    now: datetime
    # Where the answer is kept, if the request came with an Idempotency-Key.
    scope: Scope | None
    show: Callable[[list[Gathered]], bytes]


class _Ready(NamedTuple):
    """An emit of which everything is believed to be acceptable."""

    emit: Emit
    # Of each of its events.
    names: list[cache.Name]
    gathered: list[Gathered]


class _Undone(Exception):
    """Rolled back, to be done the long way."""


def accept(emit: Emit) -> bytes | None:
    """The answer, its events stored, counted and rung for; or None, with nothing written, if it needs the long way."""
    if any(new.ordering_key is not None for new in emit.new_events):
        return None
    ready = _ready(emit)
    if ready is None:
        return None
    if len(emit.new_events) == 1:
        return _singles().do(ready)
    if emit.scope is None and all(map(is_plain, emit.new_events)):
        return _batches().do(ready)
    # A batch is stored as a whole, and a key or an id that is taken would undo all that were stored with it.
    return _accept_all([ready])[0]


def _ready(emit: Emit) -> _Ready | None:
    default_version = default_api_version()
    names = [(new.consumer, new.type, new.api_version or default_version) for new in emit.new_events]
    # Kept with each: another thread may forget what is remembered before this one has answered.
    all_known = cache.recall(names)
    if None in all_known:
        if not _learn(names):
            return None
        all_known = cache.recall(names)
    gathered, work = [], Work()
    for new, name, known in zip(emit.new_events, names, all_known, strict=True):
        if known is None:
            return None
        if not known.fits(new.data, work):
            cache.forget(name)  # the schema may be another by now
            return None
        gathered.append(Gathered(_stored(new, known, emit.now), new.data, known))
    return _Ready(emit, names, gathered)


def _learn(names: list[cache.Name]) -> bool:
    try:
        with _own_connection() as own:
            _connect(own)
            cache.learn(names)
    except (OperationalError, InterfaceError):
        # The long way tries once more, or says why not.
        return False
    return True


def _stored(new: NewEvent, known: Known, now: datetime) -> Stored:
    event_id, api_version = ids.new_uuid(), known.api_version
    public_id = new.producer_id or ids.show("evt", event_id)
    body = render(public_id=public_id, new=new, api_version=api_version, sequence=None, created_at=now)
    # In the order of its fields: by name, it takes twice as long.
    return Stored(
        event_id,
        public_id,
        known.consumer_id,
        new.type,
        api_version,
        new.producer_id,
        body,
        now,
        new.occurred_at,
        None,  # no ordering key, and so no sequence
        None,
        new.traceparent,
    )


@lru_cache(maxsize=1)
def _singles() -> "Together[_Ready, bytes | None]":
    return Together(_accept_all, at_most=_AT_MOST)


@lru_cache(maxsize=1)
def _batches() -> "Together[_Ready, bytes | None]":
    """By themselves: a single event does not wait for a thousand others."""
    return Together(_accept_all, at_most=_AT_MOST)


def _accept_all(emits: Sequence[_Ready]) -> list[bytes | None]:
    with _own_connection() as own:
        answers = _answers(emits, own)
    return [answers.get(id(each)) for each in emits]


def _answers(emits: Sequence[_Ready], own: BaseDatabaseWrapper) -> dict[int, bytes]:
    """By the emit's identity. Those that are missing were not accepted, and nothing of them was written."""
    try:
        _connect(own)
        unseen = _unseen(emits)
    except (OperationalError, InterfaceError):
        # Nothing was written: the long way tries once more, or says why not.
        return {}
    if not unseen:
        return {}
    try:
        written, answers = _store(unseen)
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
    fail_points.reach("accept.after_commit")
    bell.ring_members(written.ready)
    counters.count_accepted([event.consumer_id for event in written.stored])
    # Single events of one moment share a line; a batch has its own.
    for events in _events_of_each(unseen) if _holds_batches(unseen) else [written.stored]:
        log_accepted(events)
    return answers


def _store(emits: Sequence[_Ready]) -> tuple[Written, dict[int, bytes]]:
    events = list(chain.from_iterable(_events_of_each(emits)))
    whole = _holds_batches(emits)
    kept = any(each.emit.scope for each in emits)
    with transaction.atomic() if kept or (whole and not all(map(is_plain, events))) else nullcontext():
        written = store_if_still_true(events, [belief for each in emits for belief in _beliefs(each)], whole=whole)
        if written.changed:
            _forget(emits, {event.id for event in written.changed})
        done = emits if len(written.stored) == len(events) else _done(emits, written)
        if whole and not done:
            raise _Undone
        answers = {id(each): each.emit.show(each.gathered) for each in done}
        fail_points.reach("accept.before_commit")
        scoped = [(each.emit.scope, answers[id(each)]) for each in done]
        if not idempotency.keep([(scope, answer) for scope, answer in scoped if scope]):
            raise _Undone
    return written, answers


def _holds_batches(emits: Sequence[_Ready]) -> bool:
    """Then all of them are."""
    return len(emits[0].gathered) > 1


def _events_of_each(emits: Sequence[_Ready]) -> list[list[Stored]]:
    return [[one.event for one in each.gathered] for each in emits]


def _beliefs(ready: _Ready) -> list[Belief]:
    key_id = str(ready.emit.key_id)
    return [(one.known, key_id) for one in ready.gathered]


def _done(emits: Sequence[_Ready], written: Written) -> list[_Ready]:
    stored_ids = {event.id for event in written.stored}
    return [each for each in emits if all(one.event.id in stored_ids for one in each.gathered)]


def _unseen(emits: Sequence[_Ready]) -> Sequence[_Ready]:
    """Without those whose Idempotency-Key was here before, as far as is known."""
    scopes = [each.emit.scope for each in emits if each.emit.scope]
    if not scopes:
        return emits
    seen = iter(idempotency.seen_before(scopes))
    return [each for each in emits if each.emit.scope is None or not next(seen)]


def _forget(emits: Sequence[_Ready], changed: Container[UUID]) -> None:
    for each in emits:
        for one, name in zip(each.gathered, each.names, strict=True):
            if one.event.id in changed:
                cache.forget(name)


@contextmanager
def _own_connection() -> Iterator[BaseDatabaseWrapper]:
    """This thread's. Closed when it is old, as Django does around each request: here no request surrounds us."""
    # Each look at `connection` would search for it again.
    own = connections[DEFAULT_DB_ALIAS]
    _close_if_old(own)
    try:
        yield own
    finally:
        _close_if_old(own)


def _close_if_old(own: BaseDatabaseWrapper) -> None:
    """Inside somebody's transaction the connection is theirs."""
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
