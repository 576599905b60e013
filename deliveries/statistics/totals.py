"""Adds up what was counted (`deltas.py`): into totals since the beginning, for /metrics, and into minutes, for charts.

Each delta is taken out in the transaction that adds it, so that every reader sees it once: in the total, or beside it.
Any number of processes on any number of machines may add up and read at the same time, and all read the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db import connection, transaction

from deliveries.statistics import deltas
from deliveries.statistics.buckets import BOUNDS_MS
from deliveries.statistics.models import TallySubject, Total

EVERYTHING = UUID(int=0)
BEGINNING = datetime.fromtimestamp(0, UTC)
# Deltas taken in one transaction, and how many such in one run: more than any machine of ours makes in a minute.
_AT_ONCE = 20_000
# How long reading everything may take (milliseconds).
_READ_TIMEOUT_MS = 5000
_RUNS = 100
# Dead rows that are worth a clean-up. Left to autovacuum, a minute of deltas would lie there and be read over.
_CLEAN_UP_FROM = 2_000
# Rows of one statement.
_TALLIES_AT_ONCE = 500
# Counters that the console shows by the hour.
_BY_HOUR = {deltas.IDEMPOTENCY}
# What is no delta: bucketed times, and their sums in milliseconds.
DURATION, DURATION_SUM = "duration", "duration_ms"
LATENCY, LATENCY_SUM = "latency", "latency_ms"

# One advisory lock for the whole cluster: two that add up at once would only wait for each other.
_LOCK_NUMBER = 7_305_510_213

_GROUPED = """
    SELECT date_trunc('minute', delta.at), counter, label, subject_id, endpoint.consumer_id,
        -- So many bounds are below the time. `width_bucket` counts those that it equals, too.
        width_bucket(duration_ms - 1, %(bounds)s::int[]), width_bucket(latency_ms - 1, %(bounds)s::int[]),
        sum(count), sum(duration_ms), sum(latency_ms), count(*)
    FROM {source} delta
    LEFT JOIN subscriptions_endpoint endpoint ON endpoint.id = delta.subject_id
    GROUP BY 1, 2, 3, 4, 5, 6, 7
"""

TAKE = f"""
    WITH taken AS (
        DELETE FROM deliveries_delta WHERE ctid = ANY (ARRAY(SELECT ctid FROM deliveries_delta LIMIT %(limit)s))
        RETURNING *
    )
    {_GROUPED.format(source="taken")}
"""
"""Takes deltas out, as many as the limit says, and answers with their sums."""

READ = f"""
    SELECT NULL::timestamptz, counter, label, NULL::uuid, NULL::uuid, NULL::int, NULL::int, value, NULL::bigint,
        NULL::bigint, 0
    FROM deliveries_total WHERE at = %(beginning)s
    UNION ALL
    ({_GROUPED.format(source="deliveries_delta")})
"""
"""The totals since the beginning, and the deltas that are not in them yet, under one snapshot."""

ADD_TOTALS = """
    INSERT INTO deliveries_total (counter, label, at, value)
    SELECT * FROM unnest(%(counters)s::text[], %(labels)s::text[], %(ats)s::timestamptz[], %(values)s::bigint[])
    ON CONFLICT (at, counter, label) DO UPDATE SET value = deliveries_total.value + excluded.value
"""

ADD_TALLIES = """
    INSERT INTO deliveries_tally (
        span, subject_kind, subject_id, at, accepted, delivered, failed, dead, durations, latencies
    )
    SELECT 'minute', given.kind, given.id, to_timestamp(given.at), given.accepted, given.delivered, given.failed,
        given.dead, given.durations, given.latencies
    FROM json_to_recordset(%(rows)s::json) AS given (
        kind text, id uuid, at bigint, accepted int, delivered int, failed int, dead int,
        durations int[], latencies int[]
    )
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

# Of a counter and its label.
Sums = Counter[tuple[str, str]]


class DeltaGroup(NamedTuple):
    """Deltas that differ in nothing; or a total as it is stored. In the order of the statements' columns."""

    minute: datetime | None
    counter: str
    label: str
    subject_id: UUID | None
    # Whose endpoint it is, where the subject is one.
    consumer_id: UUID | None
    duration: int | None
    latency: int | None
    times: int
    duration_ms: int | None
    latency_ms: int | None
    # How many deltas.
    rows: int


def fold(*, at_once: int = _AT_ONCE) -> int:
    """Adds up all there is, and says how many deltas that was. Where another process is at it, it does nothing."""
    folded = 0
    for _ in range(_RUNS):
        taken = _fold_some(at_once)
        folded += taken
        if taken < at_once:
            break
    if folded >= _CLEAN_UP_FROM and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            # Its pages stay with the table, or it would have to be locked for that.
            cursor.execute("VACUUM (TRUNCATE false, SKIP_LOCKED) deliveries_delta")
    return folded


def read() -> Sums:
    """Everything that was counted since the beginning and has been committed, to the unit."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Without a background worker the deltas pile up. Whoever scrapes then must not pile up, too.
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(_READ_TIMEOUT_MS)])
        cursor.execute(READ, {"bounds": list(BOUNDS_MS), "beginning": BEGINNING})
        return _sums(DeltaGroup(*row) for row in cursor.fetchall())


def by_hour(counter: str, *, since: datetime) -> dict[str, int]:
    """How often, by label, since the hour in which that moment lies."""
    hour = since.replace(minute=0, second=0, microsecond=0)
    rows = Total.objects.filter(counter=counter, at__gte=max(hour, BEGINNING + timedelta(hours=1)))
    found: Counter[str] = Counter()
    for label, value in rows.values_list("label", "value"):
        found[label] += value
    return dict(found)


def forget(*, kept_days: int, now: datetime) -> int:
    """Hours that nobody asks for any more."""
    old = Total.objects.filter(at__gt=BEGINNING, at__lt=now - timedelta(days=kept_days))
    return old.delete()[0]


@transaction.atomic
def _fold_some(at_once: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK_NUMBER])
        if not (cursor.fetchone() or [False])[0]:
            return 0
        cursor.execute(TAKE, {"bounds": list(BOUNDS_MS), "limit": at_once})
        groups = [DeltaGroup(*row) for row in cursor.fetchall()]
        if not groups:
            return 0
        cursor.execute(ADD_TOTALS, _total_columns(groups))
        for rows in _tallies(groups):
            cursor.execute(ADD_TALLIES, {"rows": rows})
        return sum(group.rows for group in groups)


def _sums(groups: Iterable[DeltaGroup]) -> Sums:
    sums: Sums = Counter()
    for group in groups:
        sums[group.counter, group.label] += group.times
        if group.duration is not None:
            sums[DURATION, str(group.duration)] += group.times
            sums[DURATION_SUM, ""] += group.duration_ms or 0
        if group.latency is not None:
            sums[LATENCY, str(group.latency)] += group.times
            sums[LATENCY_SUM, ""] += group.latency_ms or 0
    return sums


def _total_columns(groups: list[DeltaGroup]) -> dict[str, list[Any]]:
    rows = [(*name, BEGINNING, value) for name, value in _sums(groups).items()]
    hours: Counter[tuple[str, str, datetime]] = Counter()
    for group in groups:
        if group.counter in _BY_HOUR and group.minute is not None:
            hours[group.counter, group.label, group.minute.replace(minute=0)] += group.times
    rows += [(*name, value) for name, value in hours.items()]
    counters, labels, ats, values = (list(column) for column in zip(*sorted(rows), strict=True))
    return {"counters": counters, "labels": labels, "ats": ats, "values": values}


@dataclass(slots=True)
class _Counts:
    """One subject, one minute."""

    kind: TallySubject
    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    dead: int = 0
    # As long as they need to be: most end early.
    durations: list[int] | None = None
    latencies: list[int] | None = None


def _tallies(groups: Iterable[DeltaGroup]) -> Iterator[str]:
    """As ADD_TALLIES wants them, some hundreds at a time."""
    counted: dict[tuple[int, UUID], _Counts] = {}
    for group in groups:
        if group.subject_id is None or group.minute is None:
            continue
        minute = int(group.minute.timestamp())
        for subject_id, kind in _subjects(group):
            counts = counted.setdefault((minute, subject_id), _Counts(kind))
            _add(counts, group)
    rows = iter(counted.items())
    for part in iter(lambda: list(islice(rows, _TALLIES_AT_ONCE)), []):
        yield orjson.dumps([_row(*key, counts) for key, counts in part]).decode()


def _subjects(group: DeltaGroup) -> Iterator[tuple[UUID, TallySubject]]:
    assert group.subject_id is not None
    yield EVERYTHING, TallySubject.EVERYTHING
    if group.counter == deltas.ACCEPTED:
        yield group.subject_id, TallySubject.CONSUMER
        return
    yield group.subject_id, TallySubject.ENDPOINT
    # None where the endpoint is gone by now.
    if group.consumer_id is not None:
        yield group.consumer_id, TallySubject.CONSUMER


def _add(counts: _Counts, group: DeltaGroup) -> None:
    if group.counter == deltas.ACCEPTED:
        counts.accepted += group.times
    elif group.counter == deltas.DELIVERED:
        counts.delivered += group.times
    else:
        counts.failed += group.times if group.counter in (deltas.FAILED, deltas.DEAD) else 0
        counts.dead += group.times if group.counter in (deltas.DEAD, deltas.BURIED) else 0
    if group.duration is not None:
        counts.durations = _with(counts.durations or [], group.duration, group.times)
    if group.latency is not None:
        counts.latencies = _with(counts.latencies or [], group.latency, group.times)


def _with(buckets: list[int], place: int, count: int) -> list[int]:
    buckets += [0] * (place + 1 - len(buckets))
    buckets[place] += count
    return buckets


def _row(minute: int, subject_id: UUID, counts: _Counts) -> dict[str, Any]:
    return {
        "kind": counts.kind.value, "id": subject_id, "at": minute, "accepted": counts.accepted,
        "delivered": counts.delivered, "failed": counts.failed, "dead": counts.dead,
        "durations": _literal(counts.durations or []), "latencies": _literal(counts.latencies or []),
    }  # fmt: skip


def _literal(buckets: list[int]) -> str:
    """As PostgreSQL reads an array."""
    return "{" + str(buckets)[1:-1] + "}"
