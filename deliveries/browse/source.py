"""From a filter to a statement that reads candidates in an index's order, and the conditions no index knows.

The statement names its index by its shape: state and reason stand in it as literals, because a prepared statement does
not use a partial index for a parameter, and what is looked up for each candidate is a scalar subquery, which no planner
turns into a join over the whole table.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from deliveries.browse.filter import FIELDS, Filter
from deliveries.models import Event
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.models import Endpoint

# Candidates looked at for one answer: few where each is looked up by itself, more where they lie side by side.
# What they cost is paid when none of it is in memory: a page on a cold disk should answer within a second or so.
WINDOW = 5_000
WIDE_WINDOW = 40_000
# An ordering key of so many events at most is looked up by its events. With more of them, deliveries are walked in
# their own order, and each is asked for its event's key.
_EVENTS_OF_KEY = 500

FIND_EVENTS_OF_KEY = """
    SELECT found.id, found.consumer_id FROM unnest(%(consumers)s::uuid[]) AS consumer (id) CROSS JOIN LATERAL (
        SELECT event.id, event.consumer_id FROM deliveries_event event
        WHERE event.consumer_id = consumer.id AND event.ordering_key = %(key)s
        ORDER BY event.sequence DESC LIMIT %(limit)s
    ) found LIMIT %(limit)s
"""
"""The newest events of an ordering key: one probe of the index per consumer, whatever the number of events."""

# Reasons are words of ours; anything else is nobody's.
_REASON = re.compile(r"[a-z][a-z_]{0,62}")
COLUMNS = "d.id, d.event_id, d.endpoint_id, d.state, d.attempt_count, d.dead_reason, d.finished_at"


@dataclass(frozen=True)
class WalkPosition:
    """The last delivery seen: its key (its id, or its event's where that is the order) and its id."""

    key: UUID
    id: UUID


@dataclass
class Source:
    key: str
    # Of which endpoints; None for all of them.
    endpoint_ids: list[UUID] | None
    # Of which events, each with its consumer; None for all of them.
    events: list[tuple[UUID, UUID]] | None
    # In the index, and of each candidate `c`.
    indexed: list[str] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    window: int = WIDE_WINDOW
    # Few by nature: in flight, of certain events, or selected one by one.
    is_few: bool = False
    has_reason: bool = False

    def candidates(self, *, take: int, after: WalkPosition | None = None, forward: bool = False) -> str:
        """The next `take` of them beyond a position, newest first unless `forward`."""
        way, beyond = ("ASC", ">") if forward else ("DESC", "<")
        # Literals: a planner that does not know how many are wanted expects a tenth of the table.
        limit = f"LIMIT {take:d}"
        # Not `id` twice: the planner would sort by the second one too.
        order = f"id {way}" if self.key == "id" else f"event_id {way}, id {way}"
        reached, passed = self._beyond(after, beyond)
        where = " AND ".join([*self.indexed, *reached]) or "true"
        if self.is_few:
            # All of them, then in order. OFFSET 0 keeps the planner from walking the table in that order instead.
            few = f"SELECT {COLUMNS} FROM {self._few()} WHERE {where} AND {passed} OFFSET 0"
            return f"SELECT * FROM ({few}) few ORDER BY {order} {limit}"
        if not self.is_keyed:
            return f"SELECT {COLUMNS} FROM deliveries_delivery d WHERE {where} ORDER BY {order} {limit}"
        owned = "d.endpoint_id = k.endpoint_id AND " if self.key == "event_id" else ""
        # An event has a delivery at every endpoint: some at the position are passed over, some at the end cut off.
        keys = self.keys(where, way=way, take=take + 2 * len(self.endpoint_ids or []))
        return f"""
            SELECT {COLUMNS} FROM ({keys}) k CROSS JOIN LATERAL (
                SELECT * FROM deliveries_delivery d WHERE {owned}d.{self.key} = k.key OFFSET 0
            ) d WHERE {passed} ORDER BY {order} {limit}
        """

    def keys(self, where: str, *, way: str, take: int) -> str:
        """Keys alone, which an index holds in their order: with any other column, a planner that does not know how
        much an endpoint has to its name would read all of it and sort."""
        if self.endpoint_ids is None:
            return f"SELECT d.id AS key FROM deliveries_delivery d WHERE {where} ORDER BY d.id {way} LIMIT {take:d}"
        self.given["endpoint_ids"] = self.endpoint_ids
        return f"""
            SELECT owner.endpoint_id, each.key
            FROM unnest(%(endpoint_ids)s::uuid[]) AS owner (endpoint_id) CROSS JOIN LATERAL (
                SELECT d.{self.key} AS key FROM deliveries_delivery d
                WHERE d.endpoint_id = owner.endpoint_id AND {where} ORDER BY d.{self.key} {way} LIMIT {take:d}
            ) each ORDER BY each.key {way} LIMIT {take:d}
        """

    def counted(self) -> str:
        """Candidates for counting by endpoint: the keys are enough where nothing is asked of the rows."""
        if self.is_keyed and self.endpoint_ids is not None and not self.narrow:
            return self.keys(" AND ".join(self.indexed) or "true", way="DESC", take=self.window)
        return self.candidates(take=self.window)

    @property
    def is_keyed(self) -> bool:
        return not self.is_few and (self.endpoint_ids is not None or self.has_reason)

    def _beyond(self, after: WalkPosition | None, beyond: str) -> tuple[list[str], str]:
        """What the index is asked, and what is then asked of the rows."""
        if after is None:
            return [], "true"
        self.given["after_id"] = after.id
        if self.key == "id":
            return [f"d.id {beyond} %(after_id)s"], "true"
        self.given["after_key"] = after.key
        return [f"d.event_id {beyond}= %(after_key)s"], f"(d.event_id, d.id) {beyond} (%(after_key)s, %(after_id)s)"

    def _few(self) -> str:
        """Few deliveries `d`: of certain events, endpoint by endpoint of their consumers, or of certain endpoints."""
        of = ""
        if self.endpoint_ids is not None:
            self.given["endpoint_ids"] = self.endpoint_ids
            of = "= ANY (%(endpoint_ids)s::uuid[])"
        if self.events is not None:
            self.given["event_ids"] = [event_id for event_id, _ in self.events]
            self.given["owner_ids"] = [consumer_id for _, consumer_id in self.events]
            return f"""
                unnest(%(event_ids)s::uuid[], %(owner_ids)s::uuid[]) AS owner (event_id, consumer_id)
                JOIN subscriptions_endpoint endpoint ON endpoint.consumer_id = owner.consumer_id
                    {f"AND endpoint.id {of}" if of else ""}
                CROSS JOIN LATERAL (
                    SELECT each.* FROM deliveries_delivery each
                    WHERE each.endpoint_id = endpoint.id AND each.event_id = owner.event_id OFFSET 0
                ) d
            """
        return f"(SELECT * FROM deliveries_delivery WHERE endpoint_id {of}) d" if of else "deliveries_delivery d"


def source(wanted: Filter, *, only_replayable: bool = False, finished_by: datetime | None = None) -> Source:
    """Candidates for a filter. With `only_replayable`, without what a replay passes over: what deleted endpoints were
    owed, what is not finished, and what has lost its payload. With `finished_by`, only what was finished by then."""
    endpoint_ids, events = _scope(wanted, only_replayable=only_replayable)
    dead, live = wanted.state == DeliveryState.DEAD, wanted.state == DeliveryState.IN_FLIGHT
    found = Source(key=order_of(wanted), endpoint_ids=endpoint_ids, events=events)
    found.is_few = live or events is not None or wanted.delivery_ids is not None
    if wanted.delivery_ids is not None:
        found.indexed.append("d.id = ANY (%(delivery_ids)s::uuid[])")
        found.given["delivery_ids"] = list(wanted.delivery_ids)
    if dead or live:
        found.indexed.append(f"d.state = '{wanted.state}'")
    elif wanted.state is not None:
        found.narrow.append(f"c.state = '{wanted.state}'" if wanted.state in DeliveryState.values else "false")
    if wanted.dead_reason is not None:
        _add_reason(found, wanted.dead_reason, indexed=dead)
    _add_times(found, wanted)
    _add_conditions(found, wanted)
    if only_replayable:
        _add_replayable(found, dead=dead)
    if finished_by is not None:
        found.given["finished_by"] = finished_by
        found.narrow.append("c.finished_at <= %(finished_by)s")
    return found


def order_of(wanted: Filter) -> str:
    """The order of a filter's deliveries. It depends on the filter alone: a position stays good while rows change."""
    of_endpoints = wanted.endpoint_id is not None or wanted.consumer_id is not None
    has_own_index = wanted.state in (DeliveryState.DEAD, DeliveryState.IN_FLIGHT)
    is_named = wanted.event_id is not None or wanted.delivery_ids is not None
    return "event_id" if of_endpoints and not has_own_index and not is_named else "id"


def _scope(wanted: Filter, *, only_replayable: bool) -> tuple[list[UUID] | None, list[tuple[UUID, UUID]] | None]:
    """Of which endpoints, and of which events. A consumer's deliveries are those of its endpoints, deleted ones too."""
    events: list[tuple[UUID, UUID]] | None = None
    if wanted.event_id is not None:
        events = list(Event.objects.filter(id=wanted.event_id).values_list("id", "consumer_id"))
    elif wanted.ordering_key is not None:
        of_key = events_of_key(wanted.ordering_key, consumer_id=wanted.consumer_id, limit=_EVENTS_OF_KEY + 1)
        events = of_key if len(of_key) <= _EVENTS_OF_KEY else None
    if wanted.endpoint_id is None and wanted.consumer_id is None:
        return None, events
    owned = Endpoint.objects.filter(deleted_at__isnull=True) if only_replayable else Endpoint.objects.all()
    if wanted.endpoint_id is not None:
        owned = owned.filter(id=wanted.endpoint_id)
    if wanted.consumer_id is not None:
        owned = owned.filter(consumer_id=wanted.consumer_id)
    return list(owned.order_by("id").values_list("id", flat=True)), events


def events_of_key(key: str, *, consumer_id: UUID | None, limit: int) -> list[tuple[UUID, UUID]]:
    """Ids of the newest events of an ordering key, and of their consumers."""
    every = "ARRAY(SELECT id FROM subscriptions_consumer)"
    statement = FIND_EVENTS_OF_KEY if consumer_id else FIND_EVENTS_OF_KEY.replace("%(consumers)s::uuid[]", every)
    given = {"key": key, "limit": limit} | ({"consumers": [consumer_id]} if consumer_id else {})
    return [(event_id, owner_id) for event_id, owner_id in fetch(statement, given)]


def _add_reason(found: Source, reason: str, *, indexed: bool) -> None:
    """A literal too: for a parameter, a planner may take the index that has every reason in it."""
    is_one = _REASON.fullmatch(reason) is not None
    found.has_reason = True
    (found.indexed if indexed else found.narrow).append(
        f"{'d' if indexed else 'c'}.dead_reason = '{reason}'" if is_one else "false"
    )


def _add_times(found: Source, wanted: Filter) -> None:
    """Ids are time-ordered, a delivery's and its event's alike; the delivery's is the one that counts."""
    if wanted.since is not None:
        found.given["since"] = ids.first_at(wanted.since)
        if found.key == "id":
            found.indexed.append("d.id >= %(since)s")
        else:
            found.narrow.append("c.id >= %(since)s")
            # An event is accepted moments before its deliveries are made, never hours.
            found.given["since_event"] = ids.first_at(wanted.since - timedelta(hours=1))
            found.indexed.append("d.event_id >= %(since_event)s")
    if wanted.until is not None:
        found.given["until"] = ids.first_at(wanted.until)
        found.indexed.append(f"d.{found.key} < %(until)s")
        if found.key == "event_id":
            found.narrow.append("c.id < %(until)s")


def _add_replayable(found: Source, *, dead: bool) -> None:
    if found.endpoint_ids is None:
        found.narrow.append("(SELECT deleted_at IS NULL FROM subscriptions_endpoint WHERE id = c.endpoint_id)")
    if not dead:
        # Retention never empties the payload of a dead letter, so only the others are asked.
        found.narrow.append("c.finished_at IS NOT NULL")
        found.narrow.append("(SELECT body IS NOT NULL FROM deliveries_event WHERE id = c.event_id)")


def _add_conditions(found: Source, wanted: Filter) -> None:
    looks_up = False
    for declared in FIELDS:
        value = getattr(wanted, declared.name)
        if value is not None and declared.condition:
            found.given[declared.name] = value
            found.narrow.append(declared.condition)
            looks_up = looks_up or "SELECT" in declared.condition
    if found.is_keyed or looks_up:
        found.window = WINDOW


def fetch(statement: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Every row, with those of the parameters that the statement names."""
    with connection.cursor() as cursor:
        cursor.execute(statement, {name: value for name, value in given.items() if f"%({name})s" in statement})
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
