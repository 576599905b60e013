"""endpoints/{id}/stats/ and consumers/{id}/stats/: how deliveries went, in figures that statistics/ has counted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.statistics import figures
from deliveries.statistics.figures import RANGES, Range, Sums
from subscriptions.access.scopes import DELIVERIES_READ
from subscriptions.api.describe import Operation, Parameter, choices, id_of
from subscriptions.api.problems import Problem
from subscriptions.api.views import EVERYONE, ApiView, consumer_or_404, endpoint_or_404

_DEFAULT_SPAN = "24h"
_SPAN = Parameter("span", "How far back, until now.", {"type": "string", **choices(*RANGES), "default": _DEFAULT_SPAN})


class PercentilesOut(TypedDict):
    """Milliseconds that half, 95 of 100 and 99 of 100 stay below; null where nothing was measured.

    Estimated within the bucket that holds it.
    """

    p50: float | None
    p95: float | None
    p99: float | None


class FiguresOut(TypedDict):
    """What happened in a stretch of time."""

    attempts: Annotated[int, "Requests sent: `delivered` and `failed` together."]
    delivered: Annotated[int, "Attempts that succeeded, each the end of a delivery."]
    failed: Annotated[int, "Attempts that failed."]
    dead: Annotated[int, "Deliveries that became dead letters: with a failed attempt, or without (expired, given up)."]
    success_rate: Annotated[float | None, "`delivered` of `attempts`, from 0 to 1; null where there were none."]
    duration_ms: Annotated[PercentilesOut, "How long attempts took."]
    latency_ms: Annotated[PercentilesOut, "From the event's acceptance to its delivery, replays left out."]


class BucketOut(FiguresOut):
    """What happened in one step of the span."""

    at: Annotated[datetime, "When the step begins. The last one is still filling."]


class ConsumerFiguresOut(FiguresOut):
    """What happened in a stretch of time, to all endpoints of a consumer."""

    accepted: Annotated[int, "Events accepted."]


class ConsumerBucketOut(ConsumerFiguresOut):
    """What happened in one step of the span, to all endpoints of a consumer."""

    at: Annotated[datetime, "When the step begins. The last one is still filling."]


class EndpointStatsOut(TypedDict):
    """An endpoint's statistics, added up every few seconds."""

    endpoint: Annotated[str, id_of("ep")]
    span: Annotated[str, choices(*RANGES)]
    since: datetime
    step_seconds: Annotated[int, "How much time one bucket stands for."]
    total: FiguresOut
    buckets: Annotated[list[BucketOut], "Oldest first, the empty ones too."]


class ConsumerStatsOut(TypedDict):
    """A consumer's statistics, added up every few seconds."""

    consumer: Annotated[str, "The consumer's uid, or its id where it has none."]
    span: Annotated[str, choices(*RANGES)]
    since: datetime
    step_seconds: Annotated[int, "How much time one bucket stands for."]
    total: ConsumerFiguresOut
    buckets: Annotated[list[ConsumerBucketOut], "Oldest first, the empty ones too."]


class EndpointStats(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}
    parameters = {"GET": (_SPAN,)}
    operations = {"GET": Operation("get_endpoint_stats", EndpointStatsOut)}

    def get(self, request: Request, endpoint: str) -> Response:
        """Read how an endpoint's deliveries went: counts, success rate and times, by span."""
        found, span = endpoint_or_404(request, endpoint), _span(request)
        entries = figures.series(span, found.id)
        shown: EndpointStatsOut = {
            "endpoint": found.public_id,
            "span": span.name,
            "since": entries[0].at,
            "step_seconds": int(span.step.total_seconds()),
            "total": _figures(figures.total(entries)),
            "buckets": [{"at": entry.at, **_figures(entry)} for entry in entries],
        }
        return Response(shown)


class ConsumerStats(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": DELIVERIES_READ}
    parameters = {"GET": (_SPAN,)}
    operations = {"GET": Operation("get_consumer_stats", ConsumerStatsOut)}

    def get(self, request: Request, consumer: str) -> Response:
        """Read how a consumer's deliveries went, over all its endpoints: counts, success rate and times, by span."""
        found, span = consumer_or_404(request, consumer), _span(request)
        entries = figures.series(span, found.id)
        total = figures.total(entries)
        shown: ConsumerStatsOut = {
            "consumer": str(found),
            "span": span.name,
            "since": entries[0].at,
            "step_seconds": int(span.step.total_seconds()),
            "total": {"accepted": total.accepted, **_figures(total)},
            "buckets": [{"at": entry.at, "accepted": entry.accepted, **_figures(entry)} for entry in entries],
        }
        return Response(shown)


def _span(request: Request) -> Range:
    name = request.query_params.get("span", _DEFAULT_SPAN)
    if name not in RANGES:
        raise Problem(400, "invalid_parameter", f"`span` is one of {', '.join(RANGES)}.")
    return RANGES[name]


def _figures(sums: Sums) -> FiguresOut:
    return {
        "attempts": sums.attempts,
        "delivered": sums.delivered,
        "failed": sums.failed,
        "dead": sums.dead,
        "success_rate": None if sums.success_rate is None else round(sums.success_rate, 4),
        "duration_ms": _percentiles(sums.durations),
        "latency_ms": _percentiles(sums.latencies),
    }


def _percentiles(counts: Sequence[int]) -> PercentilesOut:
    p50, p95, p99 = (figures.percentile(counts, share) for share in (0.5, 0.95, 0.99))
    return {"p50": _rounded(p50), "p95": _rounded(p95), "p99": _rounded(p99)}


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 1)
