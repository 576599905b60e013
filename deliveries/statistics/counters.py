"""Statistics for the console's charts: what happened per minute, to everything, a consumer, an endpoint.

Not the ledger. Processes count in memory and write what they counted every couple of seconds; where thousands of
consumers and endpoints are busy, what is theirs once a minute. A crash loses that much of them, and no delivery waits
for them. What must be exact (what is owed, what is dead) is read from the deliveries themselves. Hours and days are
summed up later (rollup.py).
"""

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Any
from uuid import UUID

import orjson
import psycopg

from deliveries.claim import Claimed
from deliveries.models import TallySubject
from deliveries.pump import database
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
# Each consumer's and endpoint's own is a row, and there may be thousands: so few of them are written with every flush,
# more of them this seldom (seconds), and so many at once at the latest.
_FEW = 500
_SELDOM = 60.0
_MANY = 50_000

ADD = """
    INSERT INTO deliveries_tally (
        span, subject_kind, subject_id, at, accepted, delivered, failed, dead, durations, latencies
    )
    SELECT 'minute', given.kind, given.id, to_timestamp(given.at), given.accepted, given.delivered, given.failed,
        given.dead, given.durations, given.latencies
    FROM json_to_recordset(%(rows)s::json) AS given (
        kind text, id uuid, at bigint, accepted int, delivered int, failed int, dead int,
        durations int[], latencies int[]
    )
    -- The same order in every process, so that two of them never wait for each other in a circle.
    ORDER BY given.id, given.at
    ON CONFLICT (span, subject_id, at) DO UPDATE SET
        accepted = deliveries_tally.accepted + excluded.accepted,
        delivered = deliveries_tally.delivered + excluded.delivered,
        failed = deliveries_tally.failed + excluded.failed,
        dead = deliveries_tally.dead + excluded.dead,
        -- One of the two may end earlier.
        durations = ARRAY(
            SELECT coalesce(a, 0) + coalesce(b, 0)
            FROM unnest(deliveries_tally.durations, excluded.durations) WITH ORDINALITY AS _ (a, b, n) ORDER BY n
        ),
        latencies = ARRAY(
            SELECT coalesce(a, 0) + coalesce(b, 0)
            FROM unnest(deliveries_tally.latencies, excluded.latencies) WITH ORDINALITY AS _ (a, b, n) ORDER BY n
        )
"""
"""Adds counts to the minutes they belong to."""

logger = logging.getLogger(__name__)


class Counts:
    """One subject, one minute."""

    __slots__ = ("accepted", "dead", "delivered", "durations", "failed", "kind", "latencies")

    def __init__(self, kind: TallySubject) -> None:
        self.kind = kind
        self.accepted = self.delivered = self.failed = self.dead = 0
        # As long as they need to be: most end early.
        self.durations: list[int] = []
        self.latencies: list[int] = []


# By the minute (since 1970) and the subject's id, as a number: a UUID's own hash is slow.
_Counted = dict[tuple[int, int], Counts]
# An enum's members are slow to look up, too.
_EVERYTHING, _CONSUMER, _ENDPOINT = TallySubject.EVERYTHING, TallySubject.CONSUMER, TallySubject.ENDPOINT


class Counter:
    """Counts by minute, consumer and endpoint. Used by one thread at a time, or under its owner's lock."""

    def __init__(self) -> None:
        self._overall: _Counted = {}
        self._subjects: _Counted = {}
        self._whole_at = time.monotonic()

    def attempted(self, delivery: Claimed, outcome: Outcome) -> None:
        now = time.time()
        minute = int(now) // 60
        duration = bisect_left(BOUNDS_MS, outcome.duration_ms)
        # A replay says nothing about how fast events arrive.
        first_round = delivery.number == delivery.attempt_in_round
        # An event's id begins with the millisecond at which it was accepted.
        latency = bisect_left(BOUNDS_MS, now * 1000 - (delivery.event_id.int >> 80)) if first_round else None
        is_delivered, is_dead = isinstance(outcome.verdict, Delivered), isinstance(outcome.verdict, Dead)
        for counts in (
            _of(self._overall, minute, EVERYTHING, _EVERYTHING),
            _of(self._subjects, minute, delivery.consumer_id, _CONSUMER),
            _of(self._subjects, minute, delivery.endpoint_id, _ENDPOINT),
        ):
            _add(counts.durations, duration)
            if not is_delivered:
                counts.failed += 1
                counts.dead += is_dead
                continue
            counts.delivered += 1
            if latency is not None:
                _add(counts.latencies, latency)

    def accepted(self, consumer_ids: Collection[UUID]) -> None:
        """One for each time that a consumer is named."""
        if not consumer_ids:
            return
        minute = int(time.time()) // 60
        _of(self._overall, minute, EVERYTHING, _EVERYTHING).accepted += len(consumer_ids)
        for consumer_id in consumer_ids:
            _of(self._subjects, minute, consumer_id, _CONSUMER).accepted += 1

    def take(self, *, whole: bool = False) -> Iterator[str]:
        """What was counted since the last time, as ADD wants it, some hundreds of rows at a time.

        The overall figures each time, what is a consumer's or an endpoint's own when it is time, or if `whole`.
        """
        overall, self._overall = self._overall, {}
        subjects: _Counted = {}
        if whole or self._is_time_for_subjects():
            subjects, self._subjects = self._subjects, {}
            self._whole_at = time.monotonic()
        return _documents(overall, subjects)

    def _is_time_for_subjects(self) -> bool:
        return not _FEW < len(self._subjects) < _MANY or time.monotonic() - self._whole_at >= _SELDOM


def _documents(overall: _Counted, subjects: _Counted) -> Iterator[str]:
    """The overall figures by themselves: all processes write that row, and nobody should have to wait for it long."""
    rows = iter(subjects.items())
    parts = [list(overall.items())] if overall else []
    for part in chain(parts, iter(lambda: list(islice(rows, _FEW)), [])):
        yield orjson.dumps([_row(*key, counts) for key, counts in part]).decode()


def _of(counted: _Counted, minute: int, subject_id: UUID, kind: TallySubject) -> Counts:
    key = (minute, subject_id.int)
    counts = counted.get(key)
    if counts is None:
        counts = counted[key] = Counts(kind)
    return counts


def _add(buckets: list[int], place: int) -> None:
    if place >= len(buckets):
        buckets += [0] * (place + 1 - len(buckets))
    buckets[place] += 1


async def flush(counter: Counter, connection: psycopg.AsyncConnection, *, whole: bool = False) -> None:
    """For the pump. Statistics that cannot be written are let go: nothing waits for them."""
    try:
        for rows in counter.take(whole=whole):
            await connection.execute(ADD, {"rows": rows})
    except psycopg.Error as error:
        logger.warning("tally.lost", extra={"fields": {"error": repr(error)}})


def count_accepted(consumer_ids: Collection[UUID]) -> None:
    """For the web server: counted here, written by a thread of this process."""
    _writer().count(consumer_ids)


def _row(minute: int, subject_id: int, counts: Counts) -> dict[str, Any]:
    return {
        "kind": counts.kind.value, "id": f"{subject_id:032x}", "at": minute * 60, "accepted": counts.accepted,
        "delivered": counts.delivered, "failed": counts.failed, "dead": counts.dead,
        "durations": _literal(counts.durations), "latencies": _literal(counts.latencies),
    }  # fmt: skip


def _literal(buckets: list[int]) -> str:
    """As PostgreSQL reads an array."""
    return "{" + str(buckets)[1:-1] + "}"


class _Writer:
    """One daemon thread per web process, started by the first event (after any fork)."""

    def __init__(self) -> None:
        self._counter = Counter()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="tally", daemon=True).start()

    def count(self, consumer_ids: Collection[UUID]) -> None:
        with self._lock:
            self._counter.accepted(consumer_ids)

    def _run(self) -> None:
        while True:
            time.sleep(FLUSH_SECONDS)
            with self._lock:
                documents = self._counter.take()
            first = next(documents, None)
            if first is None:
                continue
            try:
                # A connection of its own, for a moment: Django's belong to the threads that answer requests.
                with psycopg.connect(database.conninfo(), autocommit=True, connect_timeout=5) as connection:
                    for rows in chain([first], documents):
                        connection.execute(ADD, {"rows": rows})
            except Exception as error:  # Statistics must not end the thread that writes them.
                logger.warning("tally.lost", extra={"fields": {"error": repr(error)}})


@lru_cache(maxsize=1)
def _writer() -> _Writer:
    return _Writer()
