"""Part of accept: the one way in for every emit. Emits that arrive at the same moment share a transaction.

1. `emit` judges its own events (`ingest.draft`), each request in its own thread.
2. It joins one of three queues. Single events do not wait for batches, and neither for events with an ordering key,
   which wait for whoever holds that key.
3. One of those that wait works for all of them (`subscriptions/limits/batcher.py`): it finds the answers kept under
   their Idempotency-Keys, stores the events (`ingest.store`), keeps the new answers, commits, and rings the bell.
4. A request that the group could not decide leaves it, and is tried again alone, in its own thread. It undoes nothing
   of the others: a producer id that is taken and a key that is known are found without a rollback.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple
from uuid import UUID

import psycopg
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections, transaction
from django.utils import timezone
from psycopg.errors import DeadlockDetected, LockNotAvailable

from deliveries import bell, ingest
from deliveries.ingest import Accepted, Draft, NewEvent, RefusedEvent, Result
from subscriptions import idempotency, keys
from subscriptions.access.key_tree import KeyEnded as KeyEnded
from subscriptions.idempotency import InProgress, Scope, StoredAnswer
from subscriptions.limits.batcher import Batcher
from subscriptions.process import fail_points, request_id

# Emits of one transaction. A web process has fewer threads than this.
_MAX_EMITS = 100


class Emit(NamedTuple):
    """One request: a single event or a batch, and how to answer it."""

    new_events: Sequence[NewEvent]
    key_id: UUID
    # What its Idempotency-Key is unique within, if it came with one.
    scope: Scope | None
    # The answer's body. What it raises is the request's answer, and nothing is kept under its Idempotency-Key.
    present: Callable[[Sequence[Result]], bytes]


class IdContended(Exception):
    """Others used the same id each time that it was tried."""


class _Request:
    """An emit in its queue, with its drafts."""

    __slots__ = ("drafts", "emit", "now", "request_id")

    def __init__(self, emit: Emit, now: datetime) -> None:
        self.emit = emit
        self.now = now
        # Its log line may be written by the thread of another request.
        self.request_id = request_id.current()
        self.drafts: list[Draft | RefusedEvent] = []
        self.draft()

    def draft(self) -> None:
        self.drafts = ingest.draft(self.emit.new_events, now=self.now, key_id=str(self.emit.key_id))


class _RolledBack(Exception):
    """The group's transaction was undone. Its causes are tried alone; all others are stored together once more."""

    def __init__(self, causes: set[_Request]) -> None:
        self.causes = causes


# A request's results, or its answer if it was kept, or what to raise. None if it was not decided.
_Decided = list[Result] | StoredAnswer | Exception | None


def emit(emit: Emit) -> StoredAnswer:
    """The answer to events that are stored, counted and rung for. Raises what `present` does, IdContended, KeyEnded and
    `idempotency`'s KeyReused and InProgress."""
    return _emit(emit) if emit.scope is None else idempotency.counted(lambda: _emit(emit))


def _emit(emit: Emit) -> StoredAnswer:
    _replace_dead_connection()
    request = _Request(emit, timezone.now())
    decided = _queue(request).do(request)
    for _ in range(ingest.TRIES):
        if decided is not None:
            break
        if not keys.is_living(emit.key_id):
            raise KeyEnded
        request.draft()
        decided = _accept_all([request])[0]
    if isinstance(decided, list):
        return StoredAnswer(status_code=202, body=emit.present(decided))
    if isinstance(decided, StoredAnswer):
        return decided
    raise decided or IdContended


def _queue(request: _Request) -> "Batcher[_Request, _Decided]":
    events = request.emit.new_events
    if any(new.ordering_key is not None for new in events):
        return queue("ordered")
    return queue("single" if len(events) == 1 else "batch")


@lru_cache(maxsize=3)
def queue(name: str) -> "Batcher[_Request, _Decided]":
    return Batcher(_accept_all, max_items=_MAX_EMITS)


def _accept_all(requests: Sequence[_Request]) -> list[_Decided]:
    """What became of each. An error that one of them may have caused leaves each to be tried alone."""
    decided: dict[int, _Decided] = {}
    left = list(requests)
    try:
        _replace_dead_connection()
        for _ in range(ingest.TRIES):
            try:
                decided = _accept_group(left)
                break
            except _RolledBack as error:
                left = [each for each in left if each not in error.causes]
    except (DatabaseError, InProgress) as error:
        if len(requests) == 1 or _may_be_committed(error):
            raise
    return [decided.get(id(each)) for each in requests]


def _may_be_committed(error: Exception) -> bool:
    """The connection was lost, perhaps after the commit. Who waited too long for a lock was rolled back."""
    is_lost = isinstance(error, OperationalError | InterfaceError)
    return is_lost and not isinstance(error.__cause__, LockNotAvailable | DeadlockDetected)


def _accept_group(requests: Sequence[_Request]) -> dict[int, _Decided]:
    """One transaction. What was decided, by the request's identity."""
    decided = _kept_answers(requests)
    group = _one_per_key([each for each in requests if id(each) not in decided])
    if not group:
        return decided
    owners = [each for each in group for _ in each.drafts]
    with _transaction(group):
        try:
            results, ready = ingest.store(list(chain.from_iterable(each.drafts for each in group)))
        except ingest.Conflict as conflict:
            raise _RolledBack({owners[place] for place in conflict.places}) from None
        rest = iter(results)
        own = {each: list(islice(rest, len(each.drafts))) for each in group}
        _must_be_whole(own)
        decided |= {id(each): _presented(each.emit, results) for each, results in own.items()}
        fail_points.reach("accept.before_commit")
        _keep_answers(group, decided)
    fail_points.reach("accept.after_commit")
    _tell(own, ready)
    return decided


def _kept_answers(requests: Sequence[_Request]) -> dict[int, _Decided]:
    """By the request's identity: the answers to those whose Idempotency-Key was here before."""
    scoped = [(each, each.emit.scope) for each in requests if each.emit.scope]
    if not scoped:
        return {}
    found = idempotency.find_all([scope for _, scope in scoped])
    return {id(each): answer for (each, _), answer in zip(scoped, found, strict=True) if answer is not None}


def _one_per_key(requests: Sequence[_Request]) -> list[_Request]:
    """Of several with one Idempotency-Key the first. The others are tried alone, and find its answer."""
    firsts: dict[object, _Request] = {}
    for each in requests:
        firsts.setdefault(each.emit.scope.name if each.emit.scope else each, each)
    return list(firsts.values())


def _transaction(requests: Sequence[_Request]) -> AbstractContextManager[None]:
    """None for single events that one statement stores, and nothing else."""
    return nullcontext() if all(map(_takes_one_statement, requests)) else transaction.atomic()


def _takes_one_statement(request: _Request) -> bool:
    # None of a batch's events may have been well-formed.
    if len(request.drafts) != 1 or request.emit.scope is not None:
        return False
    [first] = request.drafts
    return isinstance(first, RefusedEvent) or not first.writes_more


def _must_be_whole(own: dict[_Request, list[Result | None]]) -> None:
    """No part of a batch is committed while the rest is not decided."""
    halves = {each for each, results in own.items() if None in results and any(map(_is_accepted, results))}
    if halves:
        raise _RolledBack(halves)


def _is_accepted(result: Result | None) -> bool:
    return isinstance(result, Accepted)


def _presented(emit: Emit, results: list[Result | None]) -> _Decided:
    """Of a request without an Idempotency-Key, its own thread makes the answer: nobody else need wait for that."""
    decided = [result for result in results if result is not None]
    if len(decided) < len(results):
        return None
    if emit.scope is None:
        return decided
    try:
        return StoredAnswer(status_code=202, body=emit.present(decided))
    except Exception as error:
        return error


def _keep_answers(group: Sequence[_Request], decided: dict[int, _Decided]) -> None:
    answers = [(each.emit.scope, decided[id(each)]) for each in group if each.emit.scope]
    wanted = [(scope, answer) for scope, answer in answers if scope and isinstance(answer, StoredAnswer)]
    taken = idempotency.keep(wanted) if wanted else set()
    if taken:
        # Another process has kept one under the same key, a moment ago.
        raise _RolledBack({each for each in group if each.emit.scope and each.emit.scope.name in taken})


def _tell(own: Mapping[_Request, list[Result | None]], ready: set[str]) -> None:
    """After the commit."""
    bell.ring_members(ready)
    ingest.log_accepted(
        [
            (each.request_id, [result.event for result in results if isinstance(result, Accepted)])
            for each, results in own.items()
        ]
    )


def _replace_dead_connection() -> None:
    """Of a connection that has died while it was idle, as all do when PostgreSQL restarts.

    A living one has nothing to say before it is asked. Of a dead one, the first look may find its last message; the
    second then finds the end. Polling the socket would tell as much, and let the other threads go first.
    """
    # Each look at Django's `connection` would search for it again.
    own = connections[DEFAULT_DB_ALIAS]
    if own.connection is not None and not own.in_atomic_block:
        try:
            own.connection.pgconn.consume_input()
            own.connection.pgconn.consume_input()
        except psycopg.Error:
            own.close()
    own.ensure_connection()
