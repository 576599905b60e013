"""The catch-up feed: every event of a consumer, in an order in which nothing is ever skipped.

Ids are made before commit, so an event with a smaller id can become visible after one with a larger id: a reader that
remembers the last id would miss it. Each event therefore carries the id of the transaction that stored it. A reader
only sees events of transactions below the oldest one still running (`pg_snapshot_xmin`): below that horizon nothing can
appear any more, so (transaction, id) is a position that stays true. An event waits for the horizon to pass it, which
takes as long as the longest transaction under way.

A dump that is restored into a fresh cluster brings ids that its counter has not reached: such events would be hidden,
and new ones would come before positions that readers hold. `go_on_after_restore` puts an offset on the counter.
"""

from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction

from deliveries.models import Delivery, Event
from subscriptions.models import Consumer

READ_FEED = """
    SELECT event.id, event.xid::text FROM deliveries_event event
    WHERE event.consumer_id = %(consumer_id)s AND (event.xid, event.id) > (%(xid)s::xid8, %(id)s)
        AND event.xid < webhooks_feed_xid(pg_snapshot_xmin(pg_current_snapshot()))
    -- Not a bare `xid`: that would be the text above, where 1000 comes before 999.
    ORDER BY event.xid, event.id
    LIMIT %(limit)s
"""
"""The next events of a consumer after a position, as far as the feed can already be sure of their order."""


IS_AHEAD = """
    SELECT EXISTS (
        SELECT FROM (SELECT xid FROM deliveries_event ORDER BY id DESC LIMIT 100) newest
        WHERE xid >= webhooks_feed_xid(pg_snapshot_xmax(pg_current_snapshot()))
    )
"""
"""Whether new events carry ids that the counter has not given out yet: never, unless they were restored."""

GO_ON = """
    INSERT INTO deliveries_feedoffset AS held (id, xids)
    SELECT 1, ahead + %(margin)s FROM (
        SELECT (SELECT xid::text::numeric FROM deliveries_event ORDER BY xid DESC LIMIT 1)
            - webhooks_feed_xid(pg_snapshot_xmax(pg_current_snapshot()))::text::numeric AS ahead
    ) counted WHERE ahead >= 0
    ON CONFLICT (id) DO UPDATE SET xids = held.xids + excluded.xids
"""
"""Moves the offset so that the next event comes after every stored one, by a margin."""

# Readers may hold positions of events that were accepted after the dump and went down with the old cluster: new events
# come after those too. Ids have 64 bits.
_MARGIN = 2**32


@dataclass(frozen=True, slots=True)
class Position:
    xid: str
    id: UUID


START = Position("0", UUID(int=0))


@dataclass(frozen=True, slots=True)
class Page:
    events: list[Event]
    deliveries: dict[UUID, list[Delivery]]
    # After the last event, or where the reader was.
    position: Position


def read(consumer: Consumer, *, after: Position, limit: int) -> Page:
    with connection.cursor() as cursor:
        cursor.execute(READ_FEED, {"consumer_id": consumer.id, "xid": after.xid, "id": after.id, "limit": limit})
        rows: list[tuple[UUID, str]] = cursor.fetchall()
    if not rows:
        return Page(events=[], deliveries={}, position=after)
    found = Event.objects.in_bulk([event_id for event_id, _ in rows])
    deliveries: dict[UUID, list[Delivery]] = defaultdict(list)
    for delivery in Delivery.objects.filter(endpoint__consumer=consumer, event_id__in=list(found)).order_by("id"):
        deliveries[delivery.event_id].append(delivery)
    last_id, last_xid = rows[-1]
    return Page(
        events=[found[event_id] for event_id, _ in rows], deliveries=deliveries, position=Position(last_xid, last_id)
    )


def is_ahead() -> bool:
    """Cheap enough to ask now and then: see `go_on_after_restore`."""
    with connection.cursor() as cursor:
        cursor.execute(IS_AHEAD)
        return bool((cursor.fetchone() or [False])[0])


@transaction.atomic
def go_on_after_restore() -> bool:
    """True if the events were ahead of the counter. Reads all events once; run it before new ones are accepted."""
    with connection.cursor() as cursor:
        cursor.execute("LOCK TABLE deliveries_event IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(GO_ON, {"margin": _MARGIN})
        return bool(cursor.rowcount == 1)
