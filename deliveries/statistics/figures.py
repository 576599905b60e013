"""Reads the rollups: series for charts, sums, percentiles, the endpoints that failed most. No history is counted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any
from uuid import UUID

from django.db.models import Sum

from deliveries.statistics import rollup
from deliveries.statistics.buckets import BOUNDS_MS, BUCKETS
from deliveries.statistics.models import Span, Tally, TallySubject
from deliveries.statistics.totals import EVERYTHING
from subscriptions.models import Endpoint


@dataclass(frozen=True)
class Range:
    name: str
    title: str
    length: timedelta
    # What one bar stands for, and the rollup it is made from.
    step: timedelta
    span: Span


RANGES = {
    each.name: each
    for each in (
        Range("1h", "1 hour", timedelta(hours=1), timedelta(minutes=1), Span.MINUTE),
        Range("24h", "24 hours", timedelta(hours=24), timedelta(minutes=15), Span.MINUTE),
        Range("7d", "7 days", timedelta(days=7), timedelta(hours=2), Span.HOUR),
        Range("30d", "30 days", timedelta(days=30), timedelta(hours=8), Span.HOUR),
    )
}


@dataclass
class Sums:
    at: datetime
    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    dead: int = 0
    durations: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    latencies: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    @property
    def attempts(self) -> int:
        return self.delivered + self.failed

    @property
    def success_rate(self) -> float | None:
        return self.delivered / self.attempts if self.attempts else None

    def latency(self, share: float) -> float | None:
        return percentile(self.latencies, share)

    def duration(self, share: float) -> float | None:
        return percentile(self.durations, share)


def series(span: Range, subject_id: UUID = EVERYTHING, *, now: datetime | None = None) -> list[Sums]:
    """One entry per step, the empty ones too, oldest first. The last one is still filling."""
    now = now or datetime.now(UTC)
    step = span.step.total_seconds()
    last = int(now.timestamp() // step)
    count = int(span.length / span.step)
    entries = [Sums(datetime.fromtimestamp((last - count + 1 + index) * step, UTC)) for index in range(count)]
    rows = Tally.objects.filter(rollup.rows(span.span, since=entries[0].at), subject_id=subject_id)
    for row in rows.values_list("at", "accepted", "delivered", "failed", "dead", "durations", "latencies"):
        index = int(row[0].timestamp() // step) - (last - count + 1)
        if 0 <= index < count:
            _add(entries[index], row[1:])
    return entries


def total(entries: Sequence[Sums]) -> Sums:
    whole = Sums(entries[0].at)
    for entry in entries:
        _add(whole, (entry.accepted, entry.delivered, entry.failed, entry.dead, entry.durations, entry.latencies))
    return whole


def percentile(counts: Sequence[int], share: float) -> float | None:
    """Within the bucket that holds it, as if times were spread evenly there."""
    wanted = share * sum(counts)
    if not wanted:
        return None
    seen = 0
    for index, count in enumerate(counts):
        if seen + count >= wanted:
            low = BOUNDS_MS[index - 1] if index else 0
            high = BOUNDS_MS[min(index, len(BOUNDS_MS) - 1)]
            return low + (high - low) * (wanted - seen) / count
        seen += count
    return None


@dataclass
class FailingEndpoint:
    endpoint: Endpoint
    delivered: int
    failed: int
    dead: int

    @property
    def success_rate(self) -> float:
        return self.delivered / max(1, self.delivered + self.failed)


def worst_endpoints(span: Range, *, limit: int = 8) -> list[FailingEndpoint]:
    since = datetime.now(UTC) - span.length
    # The coarsest rollup that still fits: the sum goes over every endpoint there is.
    by = Span.MINUTE if span.name == "1h" else Span.HOUR if span.name == "24h" else Span.DAY
    rows = (
        Tally.objects.filter(rollup.rows(by, since=since), subject_kind=TallySubject.ENDPOINT)
        .values("subject_id")
        .annotate(delivered=Sum("delivered"), failed=Sum("failed"), dead=Sum("dead"))
        .filter(failed__gt=0)
        .order_by("-failed")[:limit]
    )
    sums = list(rows)
    found = Endpoint.objects.select_related("consumer", "lane").in_bulk([row["subject_id"] for row in sums])
    return [
        FailingEndpoint(found[row["subject_id"]], row["delivered"], row["failed"], row["dead"])
        for row in sums
        if row["subject_id"] in found
    ]


def median_durations(endpoint_ids: Sequence[UUID], *, span: Range) -> dict[UUID, float | None]:
    """How long the endpoints took to answer in this time, half of the attempts; none where there were no attempts."""
    sums = {endpoint_id: Sums(datetime.now(UTC)) for endpoint_id in endpoint_ids}
    rows = Tally.objects.filter(
        rollup.rows(span.span, since=datetime.now(UTC) - span.length), subject_id__in=endpoint_ids
    )
    for row in rows.values_list("subject_id", "accepted", "delivered", "failed", "dead", "durations", "latencies"):
        _add(sums[row[0]], row[1:])
    return {endpoint_id: found.duration(0.5) for endpoint_id, found in sums.items()}


def _add(sums: Sums, row: Sequence[Any]) -> None:
    accepted, delivered, failed, dead, durations, latencies = row
    sums.accepted += accepted
    sums.delivered += delivered
    sums.failed += failed
    sums.dead += dead
    # What is stored ends with its last bucket that holds something, and has nulls where a process from before added.
    sums.durations = [a + (b or 0) for a, b in zip_longest(sums.durations, durations, fillvalue=0)]
    sums.latencies = [a + (b or 0) for a, b in zip_longest(sums.latencies, latencies, fillvalue=0)]
