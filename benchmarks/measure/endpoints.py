"""endpoints: CPU per delivery with 10, 100, 1,000 and 10,000 endpoints, the number of deliveries always the same.

Ten endpoints with two thousand deliveries each, or ten thousand with two each: the work is the same, and what differs
is how many lanes a claim has to visit, and how many endpoints' statistics there are to write. Those of thousands are
written once a minute; a drain is shorter and pays for all of them, so the largest size is shown at its dearest. All
endpoints exist all the time; a turn uses one group. One worker, which has been at work for a while: on each side it
has made ten thousand deliveries before, so it has met each endpoint. What a first meeting costs is told apart.
"""

from typing import Any

from benchmarks.load.preload import add_endpoints, empty
from benchmarks.measure.drain import Drained, drain
from benchmarks.report.figures import paired, significant, spread, take_turns
from benchmarks.report.progress import say
from benchmarks.stand import Stand

SIZES = (10, 100, 1_000, 10_000)
# The least and the most are compared, so they are measured one after the other.
IN_ORDER = (1_000, 100, 10, 10_000)


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    turns, count = (1, 10_000) if quick else (5, 20_000)
    empty(bench)
    groups = {
        size: add_endpoints(
            name=f"of{size}", count=size, url=f"{bench.receiver_url}/{size}/{{number}}", max_in_flight=100
        )
        for size in SIZES
    }
    seen: dict[int, list[Drained]] = {size: [] for size in SIZES}
    for turn in range(turns):
        for size in take_turns(IN_ORDER, turn):
            seen[size].append(drain(bench, groups[size], count=count, workers=1, warm_up=max(SIZES)))
            shown = f"{seen[size][-1].system_cpu_ms:.3f} ms of CPU each, {seen[size][-1].rate:,.0f}/s"
            say(f"turn {turn + 1}, {size:,} endpoints: {shown}")
    cold = drain(bench, groups[max(SIZES)], count=max(SIZES), workers=1).system_cpu_ms
    say(f"the first delivery to each of {max(SIZES):,} endpoints: {cold:.3f} ms of CPU")
    cost = {size: [one.system_cpu_ms for one in drains] for size, drains in seen.items()}
    return {
        "count": count,
        "sizes": {str(size): _summary(drains) for size, drains in seen.items()},
        "first_cpu_ms": significant(cold),
        "growth": paired(cost[SIZES[-1]], cost[SIZES[0]]),
    }


def _summary(drains: list[Drained]) -> dict[str, Any]:
    return {
        "rate": spread([one.rate for one in drains]),
        "system_cpu_ms": spread([one.system_cpu_ms for one in drains]),
        "ending_cpu_ms": spread([one.ending_cpu_ms for one in drains]),
        "cpu_ms": {part: spread([one.cpu_ms[part] for one in drains]) for part in ("worker", "postgres", "redis")},
    }
