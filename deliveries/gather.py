"""Part of accept: plain events that arrive at the same moment are stored by one statement.

Plain: no id of the producer's own, no ordering key, no Idempotency-Key, so nothing but one statement is to be written.
What it takes to accept one (who the consumer is, what the type asks of its data) is remembered from the last time, and
the statement that stores the event looks at it again: a key revoked or a type archived meanwhile stores nothing.
Whatever is not as expected is left to `deliveries/ingest.py`, which says what is wrong or puts it right.
"""

import hashlib
from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from deliveries import bell, catalogue, tally
from deliveries.ingest import NewEvent, default_api_version, log_accepted, render
from deliveries.store import Belief, Stored, is_plain, store_if_still_true
from subscriptions import ids
from subscriptions.together import Together

# Events of one statement. A web process has fewer threads than this.
_AT_MOST = 100
# Consumers and types that a process remembers.
_MOST_REMEMBERED = 10_000


class Gathered(NamedTuple):
    event: Stored
    data: dict[str, Any]
    # How its consumer is shown.
    consumer: str


class _Plain(NamedTuple):
    id: UUID
    public_id: str
    new: NewEvent
    api_version: str
    body: bytes
    created_at: datetime
    key_id: UUID

    @property
    def name(self) -> tuple[str, str, str]:
        return self.new.consumer, self.new.type, self.api_version


class _Remembered(NamedTuple):
    consumer_id: UUID
    consumer_uid: str | None
    schema_hash: str | None
    # Of the type's schema.
    validator: Any


# By the consumer's name, the type and its version. Never relied on without `store_if_still_true`.
_memory: dict[tuple[str, str, str], _Remembered] = {}


def accept(new: NewEvent, *, key_id: UUID, now: datetime) -> Gathered | None:
    """Stored, counted and rung for; or None, with nothing written, where this event needs the long way."""
    return _together().do(_plain(new, key_id, now, default_api_version())) if is_plain(new) else None


def accept_batch(new_events: Sequence[NewEvent], *, key_id: UUID, now: datetime) -> list[Gathered] | None:
    """All of them; or None, with nothing written, where one of them needs the long way."""
    if not all(map(is_plain, new_events)):
        return None
    default_version = default_api_version()
    plain = [_plain(new, key_id, now, default_version) for new in new_events]
    gathered = _accept_all(plain, whole=True)
    return [one for one in gathered if one is not None] or None


def _plain(new: NewEvent, key_id: UUID, now: datetime, default_version: str) -> _Plain:
    event_id, api_version = ids.new_uuid(), new.api_version or default_version
    public_id = ids.show("evt", event_id)
    body = render(public_id=public_id, new=new, api_version=api_version, sequence=None, created_at=now)
    return _Plain(event_id, public_id, new, api_version, body, now, key_id)


@lru_cache(maxsize=1)
def _together() -> "Together[_Plain, Gathered | None]":
    return Together(_accept_all, at_most=_AT_MOST)


def _accept_all(plain: Sequence[_Plain], *, whole: bool = False) -> list[Gathered | None]:
    """No request of Django's surrounds this, so nobody else sees to the connection. `whole`: all of them or none."""
    # This thread's own. Each look at `connection` would search for it again.
    own = connections[DEFAULT_DB_ALIAS]
    _close_if_old(own)
    try:
        return _accepted(plain, whole, own)
    finally:
        _close_if_old(own)


def _accepted(plain: Sequence[_Plain], whole: bool, own: BaseDatabaseWrapper) -> list[Gathered | None]:
    try:
        _connect(own)
        _learn({one.name for one in plain if one.name not in _memory})
    except (OperationalError, InterfaceError):
        # Nothing was written: the long way tries once more, or says why not.
        return [None] * len(plain)
    # Kept with each: another thread may forget what is remembered before this one has answered.
    believed = [_believed(one, _memory.get(one.name)) for one in plain]
    good = [each for each in believed if each is not None]
    if not good or (whole and len(good) < len(plain)):
        return [None] * len(plain)
    try:
        stored, endpoint_ids = store_if_still_true(good, whole=whole)
    except (OperationalError, InterfaceError):
        raise
    except DatabaseError:
        # One of them cannot be stored, and so none was. Each finds out by itself.
        return [None] * len(plain)
    bell.ring(endpoint_ids)
    tally.count_accepted(event.consumer_id for event in stored)
    log_accepted(stored)
    stored_ids = {event.public_id for event in stored}
    return [_gathered(one, each, stored_ids) for one, each in zip(plain, believed, strict=True)]


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


def _learn(names: Iterable[tuple[str, str, str]]) -> None:
    """Only what may be accepted as it is: a living consumer, a type that is in use and not archived."""
    names = list(names)
    if not names:
        return
    known = catalogue.look_up(
        {consumer for consumer, _, _ in names},
        {(type, version) for _, type, version in names},
        register=settings.UNKNOWN_EVENT_TYPES == "register",
    )
    if len(_memory) + len(names) > _MOST_REMEMBERED:
        _memory.clear()
    for consumer, type, version in names:
        consumer_id = known.consumer_ids.get(consumer)
        if consumer_id is not None and type in known.types.used and type not in known.types.archived:
            schema = known.types.schemas.get((type, version))
            _memory[consumer, type, version] = _Remembered(
                consumer_id=consumer_id,
                consumer_uid=known.uids[consumer_id],
                schema_hash=schema and hashlib.md5(schema.encode(), usedforsecurity=False).hexdigest(),
                validator=schema and catalogue.validator(schema),
            )


def _believed(one: _Plain, known: _Remembered | None) -> tuple[Stored, Belief] | None:
    if known is None or (known.validator and not known.validator.is_valid(one.new.data)):
        return None
    event = Stored(
        id=one.id,
        public_id=one.public_id,
        consumer_id=known.consumer_id,
        type=one.new.type,
        api_version=one.api_version,
        producer_id=None,
        body=one.body,
        created_at=one.created_at,
        occurred_at=one.new.occurred_at,
        ordering_key=None,
        sequence=None,
        traceparent=one.new.traceparent,
    )
    return event, Belief(key_id=one.key_id, consumer_uid=known.consumer_uid, schema_hash=known.schema_hash)


def _gathered(one: _Plain, believed: tuple[Stored, Belief] | None, stored_ids: Container[str]) -> Gathered | None:
    if believed is None or one.public_id not in stored_ids:
        # Something has changed, or the key is gone: next time we look anew.
        _memory.pop(one.name, None)
        return None
    event, belief = believed
    return Gathered(event, one.new.data, belief.consumer_uid or ids.show("con", event.consumer_id))
