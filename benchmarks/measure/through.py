"""through: from emit to arrival, at 50, 200 and 500 events a second, with everything running as `make up` runs it.

Open loop, through the real API, to a receiver in the producer's own process, so one clock sees both ends. Each rate
takes several turns, alternating; a latency is the time from the moment an event was due to be sent until the last
byte of its delivery was there.
"""

from typing import Any

from benchmarks.load.preload import add_endpoints, empty
from benchmarks.load.receiver import free_port
from benchmarks.load.steady_producer import steady
from benchmarks.measure.emit import producer_key, serve
from benchmarks.report.figures import Spread, spread
from benchmarks.report.progress import say
from benchmarks.stand import Stand

RATES = (50, 200, 500)
CONSUMERS = 20
WORKERS = ("deliveries1", "deliveries2", "background", "beat")


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    turns, seconds = (1, 6) if quick else (3, 8)
    empty(bench)
    port = free_port()
    add_endpoints(name="through", count=CONSUMERS, url=f"http://127.0.0.1:{port}/{{number}}", max_in_flight=10)
    consumers = [f"through-{number}" for number in range(CONSUMERS)]
    key = producer_key()
    bench.start(*WORKERS)
    seen: dict[int, list[dict[str, Any]]] = {rate: [] for rate in RATES}
    try:
        serve(bench)
        steady(bench.url, key=key, rate=100, seconds=3, consumers=consumers, receiver_port=port)  # warm
        for turn in range(turns):
            for rate in RATES:
                result = steady(bench.url, key=key, rate=rate, seconds=seconds, consumers=consumers, receiver_port=port)
                seen[rate].append(result)
                shown = ", ".join(f"{name[:-3]} {value:.1f} ms" for name, value in result["arrival"].items())
                say(f"turn {turn + 1}, {rate}/s: {shown}")
    finally:
        bench.stop("web", *WORKERS, now=True)
    return {str(rate): _summary(results) for rate, results in seen.items()}


def _summary(results: list[dict[str, Any]]) -> dict[str, dict[str, Spread]]:
    return {
        what: {name: spread([result[what][name] for result in results]) for name in results[0][what]}
        for what in ("arrival", "answer")
    }
