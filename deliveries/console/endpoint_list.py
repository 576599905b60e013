"""All endpoints, with what is the matter with each: the newest first, or the worst by success, backlog or answer time.

Sorting looks at every endpoint that the filters leave: at ten thousand of them, their sums of the time asked for or
their backlogs, both counted within bounds by PostgreSQL.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse

from deliveries.browse.backlog import Owed, read_owed_of
from deliveries.browse.backlog_counts import count_backlogs
from deliveries.console import waiting
from deliveries.console.failing import Failing, failing
from deliveries.console.page import render
from deliveries.pages import keyset
from deliveries.sql import clock
from deliveries.statistics import figures
from deliveries.statistics.by_endpoint import EndpointFigures, figures_by_endpoint
from subscriptions import consumers
from subscriptions.models import Endpoint, EndpointStatus

# What the list is sorted by, and how the choice is called.
SORTS = {"": "newest", "success": "lowest success rate", "backlog": "longest backlog", "latency": "slowest answers"}
SPANS = ("1h", "24h", "7d")
# The backlogs of a page's endpoints are counted up to here in all, and so far of each.
_COUNTED_UP_TO = 50_000
_COUNTED_OF_EACH = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """One endpoint of a list."""

    endpoint: Endpoint
    figures: EndpointFigures
    failing: Failing | None
    owed: Owed | None
    # Why deliveries wait that could go out, where it does not fail.
    waits: waiting.WaitAdvice | None


def index(request: HttpRequest) -> HttpResponse:
    name, status, text, sort = (request.GET.get(key, "").strip() for key in ("consumer", "status", "q", "sort"))
    consumer = consumers.find(name) if name else None
    rows = _filtered(status, text)
    if name:
        rows = rows.filter(consumer=consumer) if consumer else rows.none()
    span = figures.RANGES[within if (within := request.GET.get("range", "")) in SPANS else "24h"]
    sort = sort if sort in SORTS else ""
    page = keyset.ranked(request, rows, _ranks(sort, span)) if sort else keyset.page(request, rows)
    return render(
        request,
        "endpoints.html",
        title="Endpoints",
        page=page,
        rows=list_rows(page.rows, span=span, now=clock.now()),
        consumer=name,
        chosen=status,
        statuses=["failing", *EndpointStatus.values],
        sort=sort,
        sorts=SORTS.items(),
        span=span,
        spans=[figures.RANGES[each] for each in SPANS],
        q=text,
        problem=f"There is no consumer {name}." if name and consumer is None else "",
    )


def list_rows(endpoints: Iterable[Endpoint], *, span: figures.Range, now: datetime) -> list[Row]:
    """With `lane` and `consumer` loaded. A fixed number of statements, however many there are."""
    endpoints = list(endpoints)
    ids = [endpoint.id for endpoint in endpoints]
    found = figures_by_endpoint(span, endpoint_ids=ids, with_durations=True) if ids else {}
    owed = read_owed_of(ids, up_to=min(_COUNTED_OF_EACH, _COUNTED_UP_TO // max(1, len(ids))))
    return [
        _row(endpoint, found.get(endpoint.id, EndpointFigures()), owed.get(endpoint.id), now=now)
        for endpoint in endpoints
    ]


def _row(endpoint: Endpoint, sums: EndpointFigures, owed: Owed | None, *, now: datetime) -> Row:
    trouble = failing(endpoint, now=now)
    return Row(endpoint, sums, trouble, owed, None if trouble else _waits(owed, sums, now=now))


def _filtered(status: str, text: str) -> QuerySet[Endpoint]:
    rows = Endpoint.objects.select_related("consumer", "lane").filter(deleted_at__isnull=True)
    if status == "failing":
        rows = rows.filter(lane__failure_count__gt=0)
    elif status in EndpointStatus.values:
        rows = rows.filter(status=status)
    if text:
        rows = rows.filter(Q(url__icontains=text) | Q(description__icontains=text))
    return rows


def _ranks(sort: str, span: figures.Range) -> dict[UUID, float]:
    """The worst is the lowest; an endpoint without a figure has none."""
    if sort == "backlog":
        return {endpoint_id: -float(count) for endpoint_id, count in count_backlogs().items()}
    sums = figures_by_endpoint(span, with_durations=sort == "latency")
    if sort == "latency":
        return {endpoint_id: -p95 for endpoint_id, each in sums.items() if (p95 := each.p95) is not None}
    return {endpoint_id: rate for endpoint_id, each in sums.items() if (rate := each.success_rate) is not None}


def _waits(owed: Owed | None, sums: EndpointFigures, *, now: datetime) -> waiting.WaitAdvice | None:
    if owed is None or owed.oldest_due_at is None or now - owed.oldest_due_at <= waiting.LATE_AFTER:
        return None
    is_slow = (sums.p50 or 0) >= waiting.SLOW_FROM_MS
    return waiting.advise(owed, slow=[owed.endpoint_id] if is_slow else [])
