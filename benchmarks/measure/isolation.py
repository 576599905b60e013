"""isolation: healthy endpoints alone, then beside others that take the request and never answer.

Three cases: 40 healthy beside 10 that hang (20 % of all); 50 beside 10; and 400 beside 100 whose caps together (1,000
requests) are more than both workers have slots (800), so that only fairness among endpoints leaves any to the healthy.
In each pair of turns, the same healthy deliveries go out alone and with the sick ones' share on top.

Throughput is that of a drain. Latency is from emit to arrival at a steady rate through the real API, beside sick ones
whose caps are full from the first moment. It lasts longer than a request's deadline of 10 s, so it also sees the
moment at which all that hang time out at once. Breakers open only after that: the calm of a parked endpoint is no part
of either figure.

Healthy traffic that has to wait for the sick is no failure of the run: it shows, up to a bound, in the figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.load.preload import PreloadedEndpoint, add_endpoints, add_waiting, database, empty, forget, ring
from benchmarks.load.receiver import free_port, patient_receiver
from benchmarks.load.steady_producer import steady
from benchmarks.measure.drain import Drained, drain
from benchmarks.measure.emit import producer_key, serve
from benchmarks.measure.through import WORKERS
from benchmarks.report.figures import paired, spread, take_turns
from benchmarks.report.progress import say
from benchmarks.stand import Stand

# Healthy events per second while latency is measured.
RATE = 200
MAX_IN_FLIGHT = 10
# A drain that takes longer counts with what it delivered by then.
PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Case:
    healthy: int
    hanging: int
    # Pairs of drains, and of latencies, of which each side takes about half a minute.
    drains: int
    latencies: int


CASES = {
    "a_fifth": Case(40, 10, drains=9, latencies=5),
    # There to see that the first is no accident.
    "ten_beside_fifty": Case(50, 10, drains=2, latencies=1),
    "many_hang": Case(400, 100, drains=3, latencies=2),
}


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    count, seconds = (6_000, 6) if quick else (30_000, 12)
    quick_cases = {name: Case(case.healthy, case.hanging, 1, 1) for name, case in CASES.items()}
    results = {}
    with patient_receiver() as (sick_url, _):
        for name, case in (quick_cases if quick else CASES).items():
            results[name] = {
                "healthy": case.healthy,
                "hanging": case.hanging,
                "throughput": _throughput(bench, case, f"{sick_url}/hang", count=count),
                "latency": _latency(bench, case, f"{sick_url}/hang", seconds=seconds),
            }
    return results


def _throughput(bench: Stand, case: Case, sick_url: str, *, count: int) -> dict[str, Any]:
    empty(bench)
    well = _endpoints("well", case.healthy, f"{bench.receiver_url}/{{number}}")
    sick = _endpoints("sick", case.hanging, sick_url)
    alone: list[Drained] = []
    beside: list[Drained] = []
    sides = [(alone, list[PreloadedEndpoint]()), (beside, sick)]
    for turn in range(case.drains):
        for seen, others in take_turns(sides, turn):
            seen.append(drain(bench, well, count=count, workers=2, beside=others, patience_seconds=PATIENCE_SECONDS))
            forget(bench)
        shown = f"alone {alone[-1].rate:,.0f}/s, beside {beside[-1].rate:,.0f}/s"
        say(f"pair {turn + 1}, {case.healthy} + {case.hanging}: {shown}")
    rates = {side: [one.rate for one in ones] for side, ones in (("alone", alone), ("beside", beside))}
    return {
        "alone": spread(rates["alone"]),
        "beside": spread(rates["beside"]),
        "ratio": paired(rates["beside"], rates["alone"]),
        # Worker and PostgreSQL, per healthy delivery: beside, those that hang are in there.
        "alone_cpu_ms": spread([_cpu_ms(one) for one in alone]),
        "beside_cpu_ms": spread([_cpu_ms(one) for one in beside]),
    }


def _cpu_ms(drained: Drained) -> float:
    return drained.cpu_ms["worker"] + drained.cpu_ms["postgres"]


def _latency(bench: Stand, case: Case, sick_url: str, *, seconds: float) -> dict[str, Any]:
    empty(bench)
    port = free_port()
    _endpoints("well", case.healthy, f"http://127.0.0.1:{port}/{{number}}")
    sick = _endpoints("sick", case.hanging, sick_url)
    well = [f"well-{number}" for number in range(case.healthy)]
    key = producer_key()
    alone: list[dict[str, float]] = []
    beside: list[dict[str, float]] = []
    sides = [(alone, list[PreloadedEndpoint]()), (beside, sick)]
    for turn in range(case.latencies):
        for seen, others in take_turns(sides, turn):
            seen.append(_arrival(bench, key, port, seconds, well, others))
            forget(bench)
        shown = f"alone {alone[-1]['p99_ms']:.0f} ms, beside {beside[-1]['p99_ms']:.0f} ms"
        say(f"pair {turn + 1}, {case.healthy} + {case.hanging}: p99 {shown}")
    p99 = {side: [one["p99_ms"] for one in ones] for side, ones in (("alone", alone), ("beside", beside))}
    return {
        "rate": RATE,
        "seconds": seconds,
        "alone_p99_ms": spread(p99["alone"]),
        "beside_p99_ms": spread(p99["beside"]),
        "ratio": paired(p99["beside"], p99["alone"]),
        # Accepted, and not there a minute after the last was emitted.
        "missing": sum(int(one["missing"]) for one in (*alone, *beside)),
    }


def _arrival(
    bench: Stand, key: str, port: int, seconds: float, well: Sequence[str], sick: Sequence[PreloadedEndpoint]
) -> dict[str, float]:
    bench.start(*WORKERS)
    try:
        serve(bench)
        asked: dict[str, Any] = {"key": key, "rate": RATE, "receiver_port": port, "consumers": well}
        steady(bench.url, seconds=3, **asked)  # warm
        if sick:
            with database(bench) as connection:
                add_waiting(connection, sick, each=2 * MAX_IN_FLIGHT)
            ring(sick)
        # As many events for each of the sick come on top.
        unheard = [f"sick-{number}" for number in range(len(sick))]
        result = steady(bench.url, seconds=seconds, unheard=unheard, may_miss=True, **asked)
        return {**result["arrival"], "missing": result["missing"]}
    finally:
        bench.stop("web", *WORKERS, now=True)


def _endpoints(name: str, count: int, url: str) -> list[PreloadedEndpoint]:
    return add_endpoints(name=name, count=count, url=url, max_in_flight=MAX_IN_FLIGHT)
