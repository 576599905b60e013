"""deliver: a preloaded backlog drained by one and by two workers, beside the bare loop with as many processes.

The bare loop signs and POSTs the same number of bodies of the same size to the same receiver, with nothing written
down. Its turns alternate with ours, now one side first and now the other, and each ratio is taken inside a turn.
"""

from typing import Any

from benchmarks.load.bare_loop import bare
from benchmarks.load.preload import BODY_SIZE, add_endpoints, empty
from benchmarks.measure.drain import drain
from benchmarks.report.figures import paired, spread, take_turns
from benchmarks.report.progress import say
from benchmarks.stand import Stand

ENDPOINTS = 20


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    turns, count = (2, 6_000) if quick else (9, 40_000)
    empty(bench)
    targets = add_endpoints(
        name="deliver", count=ENDPOINTS, url=f"{bench.receiver_url}/deliver/{{number}}", max_in_flight=100
    )
    loops: dict[int, list[Any]] = {1: [], 2: []}
    drains: dict[int, list[Any]] = {1: [], 2: []}
    for turn in range(turns):
        for number in (1, 2):
            for side in take_turns(("bare", "ours"), turn):
                if side == "bare":
                    loops[number].append(bare(bench, processes=number, count=count, size=BODY_SIZE))
                else:
                    drains[number].append(drain(bench, targets, count=count, workers=number))
            loop, ours = loops[number][-1], drains[number][-1]
            say(
                f"turn {turn + 1}, {number} process(es): bare {loop.rate:,.0f}/s, ours {ours.rate:,.0f}/s,"
                f" ratio {ours.rate / loop.rate:.2f}, {ours.system_cpu_ms:.3f} ms of CPU each"
            )
    rates = {number: [one.rate for one in drains[number]] for number in (1, 2)}
    return {
        "count": count,
        "endpoints": ENDPOINTS,
        "one": _side(loops[1], drains[1]),
        "two": _side(loops[2], drains[2]),
        "two_by_one": paired(rates[2], rates[1]),
    }


def _side(loops: list[Any], drains: list[Any]) -> dict[str, Any]:
    parts = ("worker", "postgres", "redis", "receiver")
    return {
        "rate": spread([one.rate for one in drains]),
        "bare_rate": spread([one.rate for one in loops]),
        "ratio": paired([one.rate for one in drains], [one.rate for one in loops]),
        "cpu_ms": {part: spread([one.cpu_ms[part] for one in drains]) for part in parts},
        "system_cpu_ms": spread([one.system_cpu_ms for one in drains]),
        "bare_cpu_ms": spread([one.cpu_ms for one in loops]),
    }
