"""Rollups for the console's charts: what happened per minute, hour and day, to everything, a consumer, an endpoint.

Statistics, not the ledger. Processes count in memory and write what they counted every couple of seconds, so a crash
loses a few seconds of them, and no delivery waits for them. What must be exact (what is owed, what is dead) is read
from the deliveries themselves.
"""

import collections
import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson
import psycopg
from django.db import connection as django_connection

from deliveries import database
from deliveries.claim import Claimed
from deliveries.models import Span, Tally, TallySubject
from deliveries.retry import Dead, Delivered
from deliveries.settle import Outcome

# Upper ends of the buckets in which times are counted (milliseconds); one more bucket takes what is above the last.
BOUNDS_MS = (
    5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 20_000, 30_000,
    60_000, 120_000, 300_000, 600_000, 1_800_000, 7_200_000, 36_000_000, 86_400_000,
)  # fmt: skip
BUCKETS = len(BOUNDS_MS) + 1
EVERYTHING = UUID(int=0)
FLUSH_SECONDS = 2.0
# Minutes are read by the charts of up to a day.
_MINUTES_KEPT = timedelta(days=2)

ADD = """
    INSERT INTO deliveries_tally (
        span, subject_kind, subject_id, at, accepted, delivered, failed, dead, durations, latencies
    )
    SELECT given.span, given.kind, given.id, date_trunc(given.span, to_timestamp(given.at) AT TIME ZONE 'UTC')
        AT TIME ZONE 'UTC', given.accepted, given.delivered, given.failed, given.dead, given.durations, given.latencies
    FROM json_to_recordset(%(rows)s::json) AS given (
        span text, kind text, id uuid, at bigint, accepted int, delivered int, failed int, dead int,
        durations int[], latencies int[]
    )
    -- The same order in every process, so that two of them never wait for each other in a circle.
    ORDER BY given.span, given.id, given.at
    ON CONFLICT (span, subject_id, at) DO UPDATE SET
        accepted = deliveries_tally.accepted + excluded.accepted,
        delivered = deliveries_tally.delivered + excluded.delivered,
        failed = deliveries_tally.failed + excluded.failed,
        dead = deliveries_tally.dead + excluded.dead,
        durations = ARRAY(
            SELECT a + b FROM unnest(deliveries_tally.durations, excluded.durations) WITH ORDINALITY AS _ (a, b, n)
            ORDER BY n
        ),
        latencies = ARRAY(
            SELECT a + b FROM unnest(deliveries_tally.latencies, excluded.latencies) WITH ORDINALITY AS _ (a, b, n)
            ORDER BY n
        )
"""
"""Adds counts to the minutes, hours and days they belong to."""

logger = logging.getLogger(__name__)


class Counts:
    """One subject, one minute."""

    __slots__ = ("accepted", "dead", "delivered", "durations", "failed", "latencies")

    def __init__(self) -> None:
        self.accepted = self.delivered = self.failed = self.dead = 0
        self.durations = [0] * BUCKETS
        self.latencies = [0] * BUCKETS

    def add(self, other: "Counts") -> None:
        self.accepted += other.accepted
        self.delivered += other.delivered
        self.failed += other.failed
        self.dead += other.dead
        self.durations = [a + b for a, b in zip(self.durations, other.durations, strict=True)]
        self.latencies = [a + b for a, b in zip(self.latencies, other.latencies, strict=True)]


class Counter:
    """Counts by minute, consumer and endpoint. Used by one thread at a time, or under its owner's lock."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, UUID, UUID | None], Counts] = {}

    def attempted(self, delivery: Claimed, outcome: Outcome) -> None:
        now = time.time()
        counts = self._of(int(now) // 60, delivery.consumer_id, delivery.endpoint_id)
        counts.durations[bisect_left(BOUNDS_MS, outcome.duration_ms)] += 1
        if not isinstance(outcome.verdict, Delivered):
            counts.failed += 1
            counts.dead += isinstance(outcome.verdict, Dead)
            return
        counts.delivered += 1
        # A replay says nothing about how fast events arrive.
        if delivery.number == delivery.attempt_in_round:
            # An event's id begins with the millisecond at which it was accepted.
            counts.latencies[bisect_left(BOUNDS_MS, now * 1000 - (delivery.event_id.int >> 80))] += 1

    def accepted(self, consumer_id: UUID, count: int) -> None:
        self._of(int(time.time()) // 60, consumer_id, None).accepted += count

    def take(self) -> str | None:
        """What was counted since the last time, as ADD wants it; None when that is nothing."""
        taken, self._counts = self._counts, {}
        if not taken:
            return None
        sums: dict[tuple[str, str, UUID, int], Counts] = {}
        for (minute, consumer_id, endpoint_id), counts in taken.items():
            subjects = [(TallySubject.EVERYTHING, EVERYTHING), (TallySubject.CONSUMER, consumer_id)]
            if endpoint_id is not None:
                subjects.append((TallySubject.ENDPOINT, endpoint_id))
            starts = (minute * 60, minute // 60 * 3600, minute // 1440 * 86_400)
            for span, at in zip((Span.MINUTE, Span.HOUR, Span.DAY), starts, strict=True):
                for kind, subject_id in subjects:
                    sums.setdefault((span.value, kind.value, subject_id, at), Counts()).add(counts)
        return orjson.dumps([_row(*key, counts) for key, counts in sums.items()]).decode()

    def _of(self, minute: int, consumer_id: UUID, endpoint_id: UUID | None) -> Counts:
        key = (minute, consumer_id, endpoint_id)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = Counts()
        return counts


async def flush(counter: Counter, connection: psycopg.AsyncConnection) -> None:
    """For the pump. Statistics that cannot be written are let go: nothing waits for them."""
    if rows := counter.take():
        try:
            await connection.execute(ADD, {"rows": rows})
        except psycopg.Error as error:
            logger.warning("tally.lost", extra={"fields": {"error": repr(error)}})


def count_accepted(consumer_ids: Iterable[UUID]) -> None:
    """For the web server: counted here, written by a thread of this process."""
    _writer().count(consumer_ids)


def forget(*, kept_days: int) -> int:
    now = datetime.now(UTC)
    old_minutes, _ = Tally.objects.filter(span=Span.MINUTE, at__lt=now - _MINUTES_KEPT).delete()
    old_rest, _ = Tally.objects.exclude(span=Span.MINUTE).filter(at__lt=now - timedelta(days=kept_days)).delete()
    return old_minutes + old_rest


def add_now(rows: str) -> None:
    with django_connection.cursor() as cursor:
        cursor.execute(ADD, {"rows": rows})


def _row(span: str, kind: str, subject_id: UUID, at: int, counts: Counts) -> dict[str, Any]:
    return {
        "span": span, "kind": kind, "id": subject_id, "at": at, "accepted": counts.accepted,
        "delivered": counts.delivered, "failed": counts.failed, "dead": counts.dead,
        "durations": _literal(counts.durations), "latencies": _literal(counts.latencies),
    }  # fmt: skip


def _literal(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


class _Writer:
    """One daemon thread per web process, started by the first event (after any fork)."""

    def __init__(self) -> None:
        self._counter = Counter()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="tally", daemon=True).start()

    def count(self, consumer_ids: Iterable[UUID]) -> None:
        counts = collections.Counter(consumer_ids)
        with self._lock:
            for consumer_id, count in counts.items():
                self._counter.accepted(consumer_id, count)

    def _run(self) -> None:
        while True:
            time.sleep(FLUSH_SECONDS)
            with self._lock:
                rows = self._counter.take()
            if rows is None:
                continue
            try:
                # A connection of its own, for a moment: Django's belong to the threads that answer requests.
                with psycopg.connect(database.conninfo(), autocommit=True, connect_timeout=5) as connection:
                    connection.execute(ADD, {"rows": rows})
            except Exception as error:  # Statistics must not end the thread that writes them.
                logger.warning("tally.lost", extra={"fields": {"error": repr(error)}})


@lru_cache(maxsize=1)
def _writer() -> _Writer:
    return _Writer()
