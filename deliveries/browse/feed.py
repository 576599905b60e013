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
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.contrib.postgres.aggregates import BoolAnd
from django.db import connection, transaction
from django.db.models import Q

from deliveries.models import Delivery, Event
from deliveries.states import DeliveryState
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

HAS_NEWS = """
    SELECT place.number FROM unnest(%(consumer_ids)s::uuid[], %(xids)s::text[]::xid8[], %(ids)s::uuid[])
        WITH ORDINALITY AS place (consumer_id, xid, id, number)
    WHERE EXISTS (
        SELECT FROM deliveries_event event
        WHERE event.consumer_id = place.consumer_id AND (event.xid, event.id) > (place.xid, place.id)
            AND event.xid < webhooks_feed_xid(pg_snapshot_xmin(pg_current_snapshot()))
    )
"""
"""Of many readers' places, those behind which there is something to read: one look into the index for each."""

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

# So many events at most are looked through for a page of undelivered ones. A page may therefore hold fewer than its
# limit, or none, and still have a next one.
_LOOKED_THROUGH = 1000


@dataclass(frozen=True, slots=True)
class FeedPosition:
    xid: str
    id: UUID


START = FeedPosition("0", UUID(int=0))


@dataclass(frozen=True, slots=True)
class FeedReader:
    """Where in whose feed a reader stands."""

    consumer_id: UUID
    position: FeedPosition


@dataclass(frozen=True, slots=True)
class FeedPage:
    events: list[Event]
    deliveries: dict[UUID, list[Delivery]]
    # After the last event that was looked at, or where the reader was.
    position: FeedPosition


def read(consumer: Consumer, *, after: FeedPosition, limit: int, undelivered: bool = False) -> FeedPage:
    """The next events. `undelivered` leaves out those that have reached every endpoint they were owed to."""
    rows = _rows(consumer, after=after, limit=_LOOKED_THROUGH if undelivered else limit)
    if not rows:
        return FeedPage(events=[], deliveries={}, position=after)
    if undelivered:
        arrived = _arrived(consumer, [event_id for event_id, _ in rows])
        wanted = [row for row in rows if row[0] not in arrived]
        # The page ends with the last wanted event if there are more of them, else where the look ended.
        rows, last = wanted[:limit], wanted[limit - 1] if len(wanted) > limit else rows[-1]
    else:
        last = rows[-1]
    deliveries: dict[UUID, list[Delivery]] = defaultdict(list)
    event_ids = [event_id for event_id, _ in rows]
    for delivery in Delivery.objects.filter(endpoint__consumer=consumer, event_id__in=event_ids).order_by("id"):
        deliveries[delivery.event_id].append(delivery)
    found = Event.objects.in_bulk(event_ids)
    return FeedPage(
        events=[found[event_id] for event_id, _ in rows], deliveries=deliveries, position=FeedPosition(last[1], last[0])
    )


def with_news(places: Sequence[FeedReader]) -> set[int]:
    """The indexes of the places behind which there is something to read."""
    with connection.cursor() as cursor:
        cursor.execute(
            HAS_NEWS,
            {
                "consumer_ids": [place.consumer_id for place in places],
                "xids": [place.position.xid for place in places],
                "ids": [place.position.id for place in places],
            },
        )
        return {number - 1 for (number,) in cursor.fetchall()}


def _rows(consumer: Consumer, *, after: FeedPosition, limit: int) -> list[tuple[UUID, str]]:
    with connection.cursor() as cursor:
        cursor.execute(READ_FEED, {"consumer_id": consumer.id, "xid": after.xid, "id": after.id, "limit": limit})
        return list(cursor.fetchall())


def _arrived(consumer: Consumer, event_ids: list[UUID]) -> set[UUID]:
    """Of these events, the ones that every endpoint has that they were owed to. One that nobody wanted is not there.

    The database decides: a thousand events may have fifty deliveries each.
    """
    owed = Delivery.objects.filter(endpoint__consumer=consumer, event_id__in=event_ids).order_by()
    decided = owed.values_list("event_id").annotate(arrived=BoolAnd(Q(state=DeliveryState.DELIVERED)))
    return {event_id for event_id, has_arrived in decided if has_arrived}


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
