"""What /metrics shows: the totals and the gauges, under the names that docs/metrics.md promises.

All of it comes from PostgreSQL, so every web process tells the same of the whole cluster, whichever is asked.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.exposition import choose_encoder

from deliveries.replaying.models import ReplayStatus
from deliveries.statistics import deltas, totals
from deliveries.statistics.buckets import BOUNDS_MS, BUCKETS
from deliveries.statistics.gauges import Gauges
from deliveries.statistics.totals import Sums
from subscriptions.models import EndpointStatus

# Attempts take 30 seconds at most.
_DURATION_BUCKETS = BOUNDS_MS.index(30_000) + 1
_IDEMPOTENCY = ["new database", "replayed database", "reused database", "in_progress database"]


def written(sums: Sums, gauges: Gauges | None, *, build: dict[str, str], accept: str) -> tuple[bytes, str]:
    """The answer to a scrape, in the format that its `Accept` asks for, and what that format is called."""
    try:
        encode, content_type = choose_encoder(accept)
    except ValueError:  # a version or an escaping that does not exist
        encode, content_type = choose_encoder("")
    openmetrics = content_type.startswith("application/openmetrics-text")
    return encode(_Metrics(sums, gauges, build=build, openmetrics=openmetrics)), content_type


class _Metrics:
    """What prometheus-client calls a collector.

    In OpenMetrics a counter and a gauge of one name are one family twice. There `webhooks_deliveries_total`, which goes
    by the same name as what is owed now, is of unknown type; its name and values are the same.
    """

    def __init__(self, sums: Sums, gauges: Gauges | None, *, build: dict[str, str], openmetrics: bool) -> None:
        self._sums = sums
        # None where they took too long.
        self._gauges = gauges
        self._build = build
        self._openmetrics = openmetrics

    def collect(self) -> Iterator[Metric]:
        sums = self._sums
        yield _counter("events_accepted", "Events that were answered with 202.", {(): sums[deltas.ACCEPTED, ""]})
        yield _ended(sums, UnknownMetricFamily if self._openmetrics else CounterMetricFamily)
        yield _counter(
            "attempts",
            "Requests to receivers, by how they ended and what was answered or went wrong.",
            _attempts(sums),
            labels=["outcome", "kind"],
        )
        yield _histogram(
            "attempt_duration", "How long requests to receivers took.", sums, totals.DURATION, _DURATION_BUCKETS
        )
        yield _histogram(
            "delivery_latency",
            "From an event's acceptance to its delivery; replays do not count.",
            sums,
            totals.LATENCY,
            BUCKETS - 1,
        )
        yield _counter(
            "breaker_transitions",
            "Circuit breakers of endpoints that opened or closed.",
            _labelled(sums, deltas.BREAKER, ["open", "closed"]),
            labels=["to"],
        )
        yield _counter(
            "idempotency",
            "Requests with an Idempotency-Key, by what came of them and which layer knew.",
            {
                tuple(label.split(" ")): count
                for (label,), count in _labelled(sums, deltas.IDEMPOTENCY, _IDEMPOTENCY).items()
            },
            labels=["result", "layer"],
        )
        yield _counter(
            "refused_addresses",
            "URLs and addresses that the guard refused, at registration and at the dial.",
            _labelled(sums, deltas.REFUSED, ["address_not_allowed"]),
            labels=["reason"],
        )
        yield _counter(
            "leases_lost",
            "Deliveries taken back from workers whose lease ran out.",
            {(): sums[deltas.FAILED, "worker_lost"] + sums[deltas.DEAD, "worker_lost"]},
        )
        yield _counter(
            "replays",
            "Replay jobs that began, were done, or were cancelled.",
            _labelled(sums, deltas.REPLAYS, ReplayStatus.values),
            labels=["status"],
        )
        yield InfoMetricFamily("webhooks_build", "What runs here.", value=self._build)
        if self._gauges is not None:
            yield from _gauges(self._gauges)


def _ended(sums: Sums, family: type[CounterMetricFamily] | type[UnknownMetricFamily]) -> Metric:
    ended = family(
        "webhooks_deliveries_total",
        "Deliveries that ended, by how. One that is replayed ends once more.",
        labels=["state"],
    )
    ended.add_metric(["delivered"], _of(sums, deltas.DELIVERED))
    ended.add_metric(["dead"], _of(sums, deltas.DEAD, deltas.BURIED))
    return ended


def _gauges(gauges: Gauges) -> Iterator[Metric]:
    deliveries = GaugeMetricFamily(
        "webhooks_deliveries",
        "Deliveries now: pending ones that will go out, in flight, parked behind their endpoint, dead letters.",
        labels=["state"],
    )
    for state, count in gauges.deliveries.items():
        deliveries.add_metric([state], count)
    yield deliveries
    yield GaugeMetricFamily(
        "webhooks_oldest_due_seconds",
        "For how long the delivery that waits longest has been due, of endpoints that may be sent to.",
        value=gauges.oldest_due_seconds,
    )
    endpoints = GaugeMetricFamily("webhooks_endpoints", "Endpoints by status.", labels=["status"])
    for status in EndpointStatus.values:
        endpoints.add_metric([status], gauges.endpoints.get(status, 0))
    yield endpoints


def _counter(
    name: str, help: str, values: Mapping[tuple[str, ...], int], *, labels: Iterable[str] = ()
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"webhooks_{name}", help, labels=list(labels))
    for label_values, value in sorted(values.items()):
        family.add_metric(list(label_values), value)
    return family


def _of(sums: Sums, *counters: str) -> int:
    return sum(count for (counter, _), count in sums.items() if counter in counters)


def _labelled(sums: Sums, counter: str, known: Iterable[str]) -> dict[tuple[str, ...], int]:
    """Those that are known from the start are there from the start: a rate needs a zero to begin from."""
    found: dict[tuple[str, ...], int] = {(label,): 0 for label in known}
    return found | {(label,): count for (name, label), count in sums.items() if name == counter}


def _attempts(sums: Sums) -> dict[tuple[str, ...], int]:
    outcomes = {deltas.DELIVERED: "succeeded", deltas.FAILED: "failed", deltas.DEAD: "failed"}
    found: dict[tuple[str, ...], int] = {("succeeded", "2xx"): 0, ("failed", "5xx"): 0}
    for (counter, label), count in sums.items():
        if counter in outcomes:
            name = (outcomes[counter], label)
            found[name] = found.get(name, 0) + count
    return found


def _histogram(name: str, help: str, sums: Sums, counter: str, buckets: int) -> HistogramMetricFamily:
    counts = [sums[counter, str(place)] for place in range(BUCKETS)]
    cumulated = [float(count) for count in accumulate(counts)]
    return HistogramMetricFamily(
        f"webhooks_{name}_seconds",
        help,
        buckets=[
            # As OpenMetrics wants them written: with a point.
            *((repr(bound / 1000), cumulated[place]) for place, bound in enumerate(BOUNDS_MS[:buckets])),
            ("+Inf", cumulated[-1]),
        ],
        sum_value=sums[f"{counter}_ms", ""] / 1000,
    )
