"""Pages of events: everybody's by id, a consumer's in the order of its feed, an ordering key's by sequence.

Each of these orders has an index. What no index knows is looked for in a window, as with deliveries.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from deliveries.browse.source import fetch
from deliveries.models import Event
from subscriptions import ids
from subscriptions.event_types import NOTIFICATION_TYPES

WINDOW = 50_000
# Whether an event has a delivery in some state is asked of each of its consumer's endpoints.
_WINDOW_OF_STATES = 5_000
# Whether an endpoint has had an event is one look into an index.
_WINDOW_OF_MISSED = 20_000
# The id is made moments before the row is stored, on another clock perhaps: never so long before or after.
_SLACK = timedelta(hours=1)

FIND_PRODUCER_ID = """
    SELECT found.id, found.consumer_id
    FROM subscriptions_consumer consumer CROSS JOIN LATERAL (
        SELECT event.id, event.consumer_id FROM deliveries_event event
        WHERE event.consumer_id = consumer.id AND event.producer_id = %(producer_id)s
    ) found
    WHERE %(of_deleted)s OR consumer.deleted_at IS NULL
    LIMIT %(limit)s
"""
"""The events to which producers gave this id: one probe of the index per consumer, whatever the number of events."""

LAST_BEFORE = "SELECT xid::text FROM deliveries_event WHERE id < %(id)s ORDER BY id DESC LIMIT 1"
FIRST_AFTER = "SELECT xid::text FROM deliveries_event WHERE id >= %(id)s ORDER BY id LIMIT 1"
"""Which transaction stored an event at about this time."""

IN_STATE = """EXISTS (
    SELECT FROM subscriptions_endpoint endpoint CROSS JOIN LATERAL (
        SELECT state FROM deliveries_delivery WHERE endpoint_id = endpoint.id AND event_id = c.id OFFSET 0
    ) delivery
    WHERE endpoint.consumer_id = c.consumer_id AND delivery.state = %(state)s
)"""
"""Whether one of its deliveries is in this state."""

MISSED = """c.body IS NOT NULL AND (
    '*' = ANY (%(patterns)s::text[]) AND c.type <> ALL (%(named_only)s::text[]) OR c.type = ANY (%(patterns)s::text[])
    OR EXISTS (SELECT FROM unnest(%(families)s::text[]) AS family (start) WHERE starts_with(c.type, family.start))
) AND NOT EXISTS (
    SELECT FROM deliveries_delivery WHERE endpoint_id = %(missed_by)s AND event_id = c.id
)"""
"""Whether an endpoint with these patterns wants the event, and has no delivery of it."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events. All of it must hold."""

    consumer_id: UUID | None = None
    type: str | None = None
    ordering_key: str | None = None
    # One of its deliveries is in this state.
    state: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    of_deleted_consumers: bool = True
    # This endpoint has no delivery of it, and it is of one of these patterns of event types.
    missed_by: UUID | None = None
    patterns: tuple[str, ...] = ()

    @property
    def order(self) -> str:
        if self.consumer_id is None:
            return "id"
        return "xid" if self.ordering_key is None else "sequence"

    def position(self, key: str, event_id: UUID) -> "EventPosition | None":
        """None if no event of this order can stand there."""
        is_number = key.isascii() and key.isdigit() and len(key) < 20 and int(key) < 2**63
        return EventPosition(key, event_id) if is_number or self.order == "id" else None


@dataclass(frozen=True)
class EventPosition:
    # The transaction that stored it, or its sequence number; what it is says nothing where the order is that of ids.
    key: str
    id: UUID


@dataclass(frozen=True)
class EventWalk:
    rows: list[Event]
    following: EventPosition | None
    # How many were looked at without finding enough; None if the page is full or nothing is left.
    looked_at: int | None
    order: str

    def position_of(self, row: Event) -> EventPosition:
        return EventPosition(str(getattr(row, self.order)), row.id)


@dataclass
class _Source:
    """What the index is asked, and what is then asked of the rows."""

    order: str
    indexed: list[str] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    window: int = WINDOW

    def candidates(self, *, forward: bool) -> str:
        where = f"WHERE {' AND '.join(self.indexed)}" if self.indexed else ""
        return f"SELECT e.* FROM deliveries_event e {where} ORDER BY {self.sorted('e', forward=forward)}"

    def sorted(self, name: str, *, forward: bool) -> str:
        way = "ASC" if forward else "DESC"
        return f"{name}.xid {way}, {name}.id {way}" if self.order == "xid" else f"{name}.{self.order} {way}"

    def begin_after(self, after: EventPosition, *, forward: bool) -> None:
        beyond = ">" if forward else "<"
        self.given |= {"key": after.key, "id": after.id}
        self.indexed.append(
            {
                "id": f"e.id {beyond} %(id)s",
                "xid": f"(e.xid, e.id) {beyond} (%(key)s::xid8, %(id)s)",
                "sequence": f"e.sequence {beyond} %(key)s::bigint",
            }[self.order]
        )


def walk_events(
    wanted: EventFilter,
    *,
    size: int,
    after: EventPosition | None = None,
    forward: bool = False,
    with_bodies: bool = False,
    window: int | None = None,
) -> EventWalk:
    """Newest first from a position, or from it to newer ones (`forward`, and then oldest first)."""
    source = _source(wanted)
    if after is not None:
        source.begin_after(after, forward=forward)
    window = window or source.window
    given = source.given | {"take": window if source.narrow else size + 1, "size": size + 1}
    candidates, key = source.candidates(forward=forward), f"c.{source.order}::text"
    found = fetch(
        f"SELECT {key}, c.id FROM ({candidates} LIMIT %(take)s) c WHERE {' AND '.join(source.narrow) or 'true'}"
        f" ORDER BY {source.sorted('c', forward=forward)} LIMIT %(size)s",
        given,
    )
    positions = [EventPosition(*row) for row in found]
    rows = _rows([each.id for each in positions[:size]], with_bodies=with_bodies)
    if len(positions) > size:
        return EventWalk(rows, positions[size - 1], None, source.order)
    ends: list[Any] = []
    if source.narrow:
        ends = fetch(f"SELECT {key}, c.id FROM ({candidates} OFFSET %(take)s - 1 LIMIT 1) c", given)
    return EventWalk(rows, EventPosition(*ends[0]) if ends else None, window if ends else None, source.order)


def count_events(wanted: EventFilter, *, window: int | None = None) -> tuple[int, bool]:
    """How many of the newest, as many as the window holds, and whether there are more beyond it."""
    source = _source(wanted)
    window = window or source.window
    [[count, looked_at]] = fetch(
        f"SELECT count(*) FILTER (WHERE {' AND '.join(source.narrow) or 'true'}), count(*)"
        f" FROM ({source.candidates(forward=False)} LIMIT %(take)s) c",
        source.given | {"take": window},
    )
    return count, looked_at >= window


def events_by_producer_id(
    producer_id: str, *, limit: int = 20, of_deleted_consumers: bool = True
) -> list[tuple[UUID, UUID]]:
    """Ids of events and of their consumers."""
    given = {"producer_id": producer_id, "limit": limit, "of_deleted": of_deleted_consumers}
    return [(event_id, consumer_id) for event_id, consumer_id in fetch(FIND_PRODUCER_ID, given)]


def _source(wanted: EventFilter) -> _Source:
    source = _Source(wanted.order)
    source.given |= {"type": wanted.type, "ordering_key": wanted.ordering_key, "state": wanted.state}
    if wanted.consumer_id is not None:
        source.indexed.append("e.consumer_id = %(consumer_id)s")
        source.given["consumer_id"] = wanted.consumer_id
    elif not wanted.of_deleted_consumers:
        source.narrow.append("(SELECT deleted_at IS NULL FROM subscriptions_consumer WHERE id = c.consumer_id)")
    if wanted.ordering_key is not None:
        by_index = source.order == "sequence"
        (source.indexed if by_index else source.narrow).append(
            f"{'e' if by_index else 'c'}.ordering_key = %(ordering_key)s"
        )
    if wanted.type is not None:
        source.narrow.append("c.type = %(type)s")
    if wanted.state is not None:
        source.narrow.append(IN_STATE)
        source.window = _WINDOW_OF_STATES
    if wanted.missed_by is not None:
        families = [pattern[:-1] for pattern in wanted.patterns if pattern.endswith(".*")]
        source.given |= {"missed_by": wanted.missed_by, "patterns": list(wanted.patterns), "families": families}
        source.given["named_only"] = sorted(NOTIFICATION_TYPES.values())
        source.narrow.append(MISSED)
        source.window = _WINDOW_OF_MISSED
    _add_times(source, wanted)
    return source


def _add_times(source: _Source, wanted: EventFilter) -> None:
    """Ids are time-ordered. In the order of a feed, the transactions of about then are where to look for them."""
    for name, at, condition in (("since", wanted.since, ">="), ("until", wanted.until, "<")):
        if at is None:
            continue
        source.given[name] = ids.first_at(at)
        by_index = source.order == "id"
        (source.indexed if by_index else source.narrow).append(f"{'e' if by_index else 'c'}.id {condition} %({name})s")
        if source.order != "xid":
            continue
        statement, beyond = (LAST_BEFORE, at - _SLACK) if name == "since" else (FIRST_AFTER, at + _SLACK)
        for [xid] in fetch(statement, {"id": ids.first_at(beyond)}):
            source.given[f"{name}_xid"] = xid
            source.indexed.append(f"e.xid {condition[0]}= %({name}_xid)s::xid8")


def _rows(event_ids: list[UUID], *, with_bodies: bool) -> list[Event]:
    events = Event.objects.select_related("consumer")
    rows = (events if with_bodies else events.defer("body")).in_bulk(event_ids)
    return [rows[each] for each in event_ids if each in rows]
