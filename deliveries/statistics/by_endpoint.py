"""Reads the rollups endpoint by endpoint: what lists show beside each, and what they are sorted by.

PostgreSQL adds up; here arrives one row per endpoint. Ten thousand endpoints are a few hundred thousand rows of a day.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Sum

from deliveries.statistics import rollup
from deliveries.statistics.buckets import BUCKETS
from deliveries.statistics.figures import Range, percentile
from deliveries.statistics.models import Span, Tally, TallySubject


@dataclass(frozen=True, slots=True)
class EndpointFigures:
    delivered: int = 0
    failed: int = 0
    # Counts per bucket of how long its answers took; empty where they were not asked for.
    durations: list[int] = field(default_factory=list)

    @property
    def success_rate(self) -> float | None:
        attempts = self.delivered + self.failed
        return self.delivered / attempts if attempts else None

    @property
    def p50(self) -> float | None:
        return percentile(self.durations, 0.5)

    @property
    def p95(self) -> float | None:
        return percentile(self.durations, 0.95)


def figures_by_endpoint(
    span: Range, *, endpoint_ids: Collection[UUID] | None = None, with_durations: bool = False
) -> dict[UUID, EndpointFigures]:
    """Of these endpoints, or of all; none where there were no attempts in this time."""
    since = datetime.now(UTC) - span.length
    # The coarsest rollup that still fits, as for the endpoints that failed most.
    by = Span.MINUTE if span.name == "1h" else Span.HOUR if span.name == "24h" else Span.DAY
    rows = Tally.objects.filter(rollup.rows(by, since=since), subject_kind=TallySubject.ENDPOINT)
    if endpoint_ids is not None:
        rows = rows.filter(subject_id__in=endpoint_ids)
    buckets = range(BUCKETS if with_durations else 0)
    sums = {f"bucket_{index}": Sum(f"durations__{index}") for index in buckets}
    counted = rows.order_by().values("subject_id").annotate(delivered=Sum("delivered"), failed=Sum("failed"), **sums)
    found: list[dict[str, Any]] = [dict(row) for row in counted]
    return {
        row["subject_id"]: EndpointFigures(
            row["delivered"], row["failed"], [row[f"bucket_{index}"] or 0 for index in buckets]
        )
        for row in found
        if row["delivered"] or row["failed"]
    }
