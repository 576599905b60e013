"""in_flight: what 10, 100 and 1,000 requests in flight cost one worker, in CPU per delivery and in memory.

The receiver holds each request for as many milliseconds as requests are to be in flight, so the rate aimed at is the
same at each level (1,000 a second) and only the number of open requests differs. Memory is the most that was seen
while the drain went on. How many really were in flight is read from the ledger, and reported.
"""

import time
from typing import Any

import psycopg

from benchmarks.load.preload import PreloadedEndpoint, add_endpoints, add_waiting, database, empty, ring
from benchmarks.load.receiver import patient_receiver, received
from benchmarks.measure.drain import LOOK_SECONDS, VACUUM, DrainWatch, at_work, cpu_when_ended
from benchmarks.report.figures import paired, spread
from benchmarks.report.progress import say
from benchmarks.stand import Failed, Stand

LEVELS = (10, 100, 1_000)
ENDPOINTS = 10
# The memory of a family of processes takes a while to read.
WEIGH_SECONDS = 0.25
GIVE_UP_SECONDS = 300

IN_FLIGHT = "SELECT count(*) FROM deliveries_delivery WHERE state = 'in_flight'"


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    turns, count = (1, 4_000) if quick else (2, 8_000)
    empty(bench)
    seen: dict[int, list[dict[str, float]]] = {level: [] for level in LEVELS}
    with patient_receiver() as (url, _):
        groups = {
            level: add_endpoints(
                name=f"at{level}", count=ENDPOINTS, url=f"{url}/hold/{level}", max_in_flight=level // ENDPOINTS
            )
            for level in LEVELS
        }
        for turn in range(turns):
            for level, targets in groups.items():
                one = _drain(bench, targets, url, level=level, count=count)
                seen[level].append(one)
                shown = f"{one['cpu_ms']:.3f} ms of CPU each, {one['memory_mib']:.0f} MiB"
                say(f"turn {turn + 1}, {level:,} in flight (seen {one['in_flight']:.0f}): {shown}")
    cost = {level: [one["cpu_ms"] for one in ones] for level, ones in seen.items()}
    return {
        "count": count,
        "levels": {
            str(level): {name: spread([one[name] for one in ones]) for name in ones[0]} for level, ones in seen.items()
        },
        "growth": paired(cost[LEVELS[-1]], cost[LEVELS[0]]),
    }


def _drain(bench: Stand, targets: list[PreloadedEndpoint], url: str, *, level: int, count: int) -> dict[str, float]:
    # A quarter of the slots is kept for receivers that answer quicker than these (deliveries/pump/slots.py).
    concurrency = str(-(-max(LEVELS) * 4 // 3))
    with (
        database(bench) as connection,
        at_work(bench, connection, targets, 1, DELIVERY_CONCURRENCY=concurrency),
    ):
        requests = received(url)
        connection.execute(VACUUM)
        with connection.transaction():
            add_waiting(connection, targets, each=count // ENDPOINTS)
            before = bench.cpu()
        begun = weighed = time.monotonic()
        ring(targets)
        most_in_flight, most_memory = 0, 0.0
        watch = DrainWatch(connection, targets)
        while not watch.is_drained():
            if time.monotonic() - weighed > WEIGH_SECONDS:
                most_in_flight = max(most_in_flight, _in_flight(connection))
                most_memory = max(most_memory, bench.memory_mib("deliveries1"))
                weighed = time.monotonic()
            if time.monotonic() - begun > GIVE_UP_SECONDS:
                raise Failed(f"{level} in flight: not drained after {GIVE_UP_SECONDS} s.")
            time.sleep(LOOK_SECONDS)
        seconds, after = time.monotonic() - begun, cpu_when_ended(bench, connection, 1)
    if (requests := received(url) - requests) != count:
        raise Failed(f"{count} deliveries, but the receiver counted {requests} requests.")
    used = sum(after[part] - before[part] for part in ("worker", "postgres", "redis"))
    return {
        "cpu_ms": 1000 * used / count,
        "memory_mib": most_memory,
        "in_flight": most_in_flight,
        "rate": count / seconds,
    }


def _in_flight(connection: psycopg.Connection) -> int:
    return int(connection.execute(IN_FLIGHT).fetchall()[0][0])
