"""Pages of events: everybody's by id, a consumer's in the order of its feed, which an index has."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from deliveries.browse.source import fetch
from deliveries.models import Event
from subscriptions.models import Consumer

WINDOW = 50_000

FIND_PRODUCER_ID = """
    SELECT found.id, found.consumer_id
    FROM subscriptions_consumer consumer CROSS JOIN LATERAL (
        SELECT event.id, event.consumer_id FROM deliveries_event event
        WHERE event.consumer_id = consumer.id AND event.producer_id = %(producer_id)s
    ) found
    LIMIT %(limit)s
"""
"""The events to which producers gave this id: one probe of the index per consumer, whatever the number of events."""


@dataclass(frozen=True)
class EventPosition:
    # The transaction that stored it, for a consumer's events; empty for everybody's.
    xid: str
    id: UUID


@dataclass(frozen=True)
class EventWalk:
    rows: list[Event]
    following: EventPosition | None
    looked_at: int | None


def walk_events(
    *, consumer: Consumer | None, type: str | None, size: int, after: EventPosition | None = None, forward: bool = False
) -> EventWalk:
    """Newest first from a position, or from it to newer ones (`forward`, and then oldest first)."""
    given: dict[str, Any] = {"type": type, "take": WINDOW if type else size + 1, "size": size + 1}
    given |= {"consumer_id": consumer.id} if consumer else {}
    given |= {"xid": after.xid, "id": after.id} if after else {}
    candidates = _candidates(consumer, after, forward=forward)
    narrow = "c.type = %(type)s" if type else "true"
    order = _order("c", consumer, forward=forward)
    found = fetch(
        f"SELECT c.xid::text, c.id FROM ({candidates} LIMIT %(take)s) c WHERE {narrow} ORDER BY {order} LIMIT %(size)s",
        given,
    )
    positions = [EventPosition(*row) for row in found]
    rows = Event.objects.select_related("consumer").defer("body").in_bulk([each.id for each in positions[:size]])
    shown = [rows[each.id] for each in positions[:size] if each.id in rows]
    if len(positions) > size:
        return EventWalk(shown, positions[size - 1], None)
    ends: list[Any] = []
    if type:
        ends = fetch(f"SELECT c.xid::text, c.id FROM ({candidates} OFFSET %(take)s - 1 LIMIT 1) c", given)
    return EventWalk(shown, EventPosition(*ends[0]) if ends else None, WINDOW if ends else None)


def events_by_producer_id(producer_id: str, *, limit: int = 20) -> list[tuple[UUID, UUID]]:
    """Ids of events and of their consumers."""
    found = fetch(FIND_PRODUCER_ID, {"producer_id": producer_id, "limit": limit})
    return [(event_id, consumer_id) for event_id, consumer_id in found]


def _candidates(consumer: Consumer | None, after: EventPosition | None, *, forward: bool) -> str:
    beyond, conditions = ">" if forward else "<", []
    if consumer is not None:
        conditions.append("e.consumer_id = %(consumer_id)s")
    if after is not None:
        both = f"(e.xid, e.id) {beyond} (%(xid)s::xid8, %(id)s)"
        conditions.append(both if consumer is not None else f"e.id {beyond} %(id)s")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return (
        f"SELECT e.xid, e.id, e.type FROM deliveries_event e {where} ORDER BY {_order('e', consumer, forward=forward)}"
    )


def _order(name: str, consumer: Consumer | None, *, forward: bool) -> str:
    way = "ASC" if forward else "DESC"
    return f"{name}.xid {way}, {name}.id {way}" if consumer is not None else f"{name}.id {way}"
