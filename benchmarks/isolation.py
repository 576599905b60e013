"""isolation: healthy endpoints alone, then beside others that take the request and never answer.

Two cases: 40 healthy beside 10 that hang (20 % of all), and 50 beside 10. In each pair of turns, the same healthy
deliveries go out alone and with the sick ones' share on top. Throughput is that of a drain; latency is from emit to
arrival at a steady rate through the real API. Both last less than a request's deadline of 10 s, so no breaker has
opened yet: this is the worst moment, not the calm after it.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.drain import drain
from benchmarks.emit import producer_key, serve
from benchmarks.figures import paired, spread, take_turns
from benchmarks.preload import Target, add_endpoints, empty, forget
from benchmarks.progress import say
from benchmarks.receiver import free_port, patient_receiver
from benchmarks.stand import Stand
from benchmarks.steady import steady
from benchmarks.through import WORKERS

CASES = {"a_fifth": (40, 10), "ten_beside_fifty": (50, 10)}
# Healthy events per second while latency is measured.
RATE = 100


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    count, seconds = (6_000, 5) if quick else (12_000, 8)
    names = ["a_fifth"] if quick else list(CASES)
    # Pairs of drains and of latencies; of the latter each takes half a minute. The second case is there to see that the
    # first is no accident.
    pairs = {"a_fifth": (1, 1) if quick else (7, 3), "ten_beside_fifty": (3, 1)}
    results = {}
    with patient_receiver() as (sick_url, _):
        for name in names:
            healthy, hanging = CASES[name]
            drains, latencies = pairs[name]
            results[name] = {
                "healthy": healthy,
                "hanging": hanging,
                "throughput": _throughput(bench, healthy, f"{sick_url}/hang", hanging, turns=drains, count=count),
                "latency": _latency(bench, healthy, f"{sick_url}/hang", hanging, turns=latencies, seconds=seconds),
            }
    return results


def _throughput(bench: Stand, healthy: int, sick_url: str, hanging: int, *, turns: int, count: int) -> dict[str, Any]:
    empty(bench)
    well = add_endpoints(name="well", count=healthy, url=f"{bench.receiver_url}/{{number}}", max_in_flight=10)
    sick = add_endpoints(name="sick", count=hanging, url=sick_url, max_in_flight=10)
    alone: list[float] = []
    beside: list[float] = []
    sides = [(alone, list[Target]()), (beside, sick)]
    for turn in range(turns):
        for rates, others in take_turns(sides, turn):
            rates.append(drain(bench, well, count=count, workers=2, beside=others).rate)
            forget(bench)
        say(f"pair {turn + 1}, {healthy} + {hanging}: alone {alone[-1]:,.0f}/s, beside {beside[-1]:,.0f}/s")
    return {"alone": spread(alone), "beside": spread(beside), "ratio": paired(beside, alone)}


def _latency(bench: Stand, healthy: int, sick_url: str, hanging: int, *, turns: int, seconds: float) -> dict[str, Any]:
    empty(bench)
    port = free_port()
    add_endpoints(name="well", count=healthy, url=f"http://127.0.0.1:{port}/{{number}}", max_in_flight=10)
    add_endpoints(name="sick", count=hanging, url=sick_url, max_in_flight=10)
    well, sick = [f"well-{n}" for n in range(healthy)], [f"sick-{n}" for n in range(hanging)]
    key = producer_key()
    alone: list[dict[str, float]] = []
    beside: list[dict[str, float]] = []
    for turn in range(turns):
        for seen, others in ((alone, list[str]()), (beside, sick)):
            seen.append(_arrival(bench, key, port, seconds, well, others))
            forget(bench)
        shown = f"alone {alone[-1]['p99_ms']:.0f} ms, beside {beside[-1]['p99_ms']:.0f} ms"
        say(f"pair {turn + 1}, {healthy} + {hanging}: p99 {shown}")
    p99 = {side: [one["p99_ms"] for one in ones] for side, ones in (("alone", alone), ("beside", beside))}
    return {
        "rate": RATE,
        "alone_p99_ms": spread(p99["alone"]),
        "beside_p99_ms": spread(p99["beside"]),
        "ratio": paired(p99["beside"], p99["alone"]),
    }


def _arrival(
    bench: Stand, key: str, port: int, seconds: float, well: Sequence[str], sick: Sequence[str]
) -> dict[str, float]:
    bench.start(*WORKERS)
    try:
        serve(bench)
        asked: dict[str, Any] = {"key": key, "rate": RATE, "receiver_port": port}
        steady(bench.url, seconds=3, consumers=well, **asked)  # warm
        result = steady(bench.url, seconds=seconds, consumers=well, unheard=sick, **asked)
        arrival: dict[str, float] = result["arrival"]
        return arrival
    finally:
        bench.stop("web", *WORKERS, now=True)
