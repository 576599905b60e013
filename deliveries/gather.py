"""Part of accept: plain events that arrive at the same moment are stored by one statement.

Plain: no id of the producer's own, no ordering key, no Idempotency-Key, so nothing but one statement is to be written.
Whatever is not as expected (a key revoked a moment ago, an unknown consumer, a type's first event) is left to
`deliveries/ingest.py`, which says what is wrong or puts it right.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from deliveries import bell, catalogue, tally
from deliveries.ingest import NewEvent, render, takes_one_statement, version_of
from deliveries.store import Stored, store
from subscriptions import ids
from subscriptions.together import Together

# Events of one statement. A web process has fewer threads than this.
_AT_MOST = 100


class Gathered(NamedTuple):
    event: Stored
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


def accept(new: NewEvent, *, key_id: UUID, now: datetime) -> Gathered | None:
    """Stored, counted and rung for; or None, with nothing written, where this event needs the long way."""
    if not takes_one_statement([new]):
        return None
    event_id, api_version = ids.new_uuid(), version_of(new)
    public_id = ids.show("evt", event_id)
    body = render(public_id=public_id, new=new, api_version=api_version, sequence=None, created_at=now)
    return _together().do(_Plain(event_id, public_id, new, api_version, body, now, key_id))


@lru_cache(maxsize=1)
def _together() -> "Together[_Plain, Gathered | None]":
    return Together(_accept_all, at_most=_AT_MOST)


def _accept_all(plain: Sequence[_Plain]) -> list[Gathered | None]:
    try:
        known = _known(plain)
    except (OperationalError, InterfaceError):
        # Nothing was written, and the connection may have died while it was idle: the long way makes a new one.
        connection.close_if_unusable_or_obsolete()
        return [None] * len(plain)
    good = {event.id: event for event in (_checked(one, known) for one in plain) if event}
    try:
        counts, endpoint_ids = store(list(good.values())) if good else ({}, [])
    except (OperationalError, InterfaceError):
        raise
    except DatabaseError:
        # One of them cannot be stored, and so none was. Each finds out by itself.
        return [None] * len(plain)
    bell.ring(endpoint_ids)
    tally.count_accepted(event.consumer_id for event in good.values())
    return [
        Gathered(event._replace(delivery_count=counts[one.id]), known.shown[event.consumer_id])
        if (event := good.get(one.id))
        else None
        for one in plain
    ]


def _known(plain: Sequence[_Plain]) -> catalogue.Known:
    return catalogue.look_up(
        {one.new.consumer for one in plain},
        {(one.new.type, one.api_version) for one in plain},
        register=settings.UNKNOWN_EVENT_TYPES == "register",
        key_ids={one.key_id for one in plain},
    )


def _checked(one: _Plain, known: catalogue.Known) -> Stored | None:
    consumer_id = known.consumer_ids.get(one.new.consumer)
    if consumer_id is None or one.key_id not in known.living_keys or one.new.type not in known.types.used:
        return None
    if known.types.check(one.new.type, one.api_version, one.new.data) is not None:
        return None
    return Stored(
        id=one.id,
        public_id=one.public_id,
        consumer_id=consumer_id,
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
