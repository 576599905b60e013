"""Which figures are drawn, and how. Pure."""

from collections.abc import Mapping
from typing import Any

from benchmarks.report.figures import Spread
from benchmarks.report.plots import Plot, PlotBar

NAMES = ("deliver", "emit", "through", "isolation", "endpoints", "in_flight")
CPU_PARTS = ("worker", "postgres", "redis")


def all_of(measures: Mapping[str, Any]) -> dict[str, Plot]:
    """By file name; only of what was measured."""
    makers = (_deliver, _emit, _through, _isolation, _endpoints, _in_flight)
    return {name: make(measures[name]) for name, make in zip(NAMES, makers, strict=True) if name in measures}


def _deliver(found: Mapping[str, Any]) -> Plot:
    return Plot(
        "Deliveries a second, beside the bare loop",
        "deliveries/s",
        ["one process", "two processes"],
        ["bare loop", "ours"],
        [[_bar(found[side][what]) for side in ("one", "two")] for what in ("bare_rate", "rate")],
    )


def _emit(found: Mapping[str, Any]) -> Plot:
    names = {
        "noop": "no-op DRF view",
        "single": "single",
        "once": "with id and key",
        "ordered": "with ordering key",
        "through_django": "through Django",
        "batch": "batch of 100",
    }
    sides = [side for side in names if side in found]
    rates = [[_bar(found[side]["rate"]) for side in sides]]
    groups = [names[side] for side in sides]
    return Plot("Events a second, beside a view that does nothing", "events/s", groups, ["events"], rates)


def _through(found: Mapping[str, Any]) -> Plot:
    names = ("p50_ms", "p95_ms", "p99_ms")
    return Plot(
        "From emit to arrival",
        "milliseconds, logarithmic",
        [f"{rate} events/s" for rate in found],
        [name.removesuffix("_ms") for name in names],
        [[_bar(side["arrival"][name]) for side in found.values()] for name in names],
        logarithmic=True,
    )


def _isolation(found: Mapping[str, Any]) -> Plot:
    return Plot(
        "Healthy endpoints' throughput, alone and beside others that never answer",
        "deliveries/s",
        [f"{case['healthy']} beside {case['hanging']}" for case in found.values()],
        ["alone", "beside"],
        [[_bar(case["throughput"][side]) for case in found.values()] for side in ("alone", "beside")],
    )


def _endpoints(found: Mapping[str, Any]) -> Plot:
    sizes = found["sizes"]
    return Plot(
        "CPU per delivery, by number of endpoints",
        "milliseconds",
        [f"{int(size):,}" for size in sizes],
        CPU_PARTS,
        [[_bar(side["cpu_ms"][part]) for side in sizes.values()] for part in CPU_PARTS],
    )


def _in_flight(found: Mapping[str, Any]) -> Plot:
    levels = found["levels"]
    return Plot(
        "A worker's memory, by requests in flight",
        "MiB",
        [f"{int(level):,}" for level in levels],
        ["worker"],
        [[_bar(side["memory_mib"]) for side in levels.values()]],
    )


def _bar(found: Spread) -> PlotBar:
    several = len(found["turns"]) > 1
    return PlotBar(found["median"], found["low"] if several else None, found["high"] if several else None)
