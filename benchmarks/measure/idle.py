"""idle: CPU of the whole system, servers included, with nothing to do.

Everything that `make up` runs, but the demo: web, two delivery workers, background worker, beat, PostgreSQL, Valkey.
It delivers a few events first, so that every process has done its first work, and then settles before the count
begins. Twice: with pumps that wait for more, as they do for five minutes, and after they have ended, when the sweep is
the background worker's. Several windows each; the target is for the worse of the two.

And how long the first event takes after that, which has to wait until somebody starts a pump.
"""

import time
from typing import Any

from benchmarks.load.preload import add_endpoints, database, empty
from benchmarks.load.receiver import free_port
from benchmarks.load.steady_producer import steady
from benchmarks.measure.emit import producer_key, serve
from benchmarks.measure.through import WORKERS
from benchmarks.report.figures import significant, spread
from benchmarks.report.progress import say
from benchmarks.stand import Stand

PARTS = ("web", "worker", "background", "postgres", "redis")
WINDOWS = 3
# Until the statistics of those events are written, and what the start left to do is done.
SETTLE_SECONDS = 8
# Instead of five minutes, after which pumps end.
SHORT_IDLE = {"DELIVERY_IDLE_SECONDS": "2"}
FIRST_EVENTS = 3


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    seconds = 5 if quick else 20
    empty(bench)
    port = free_port()
    add_endpoints(name="idle", count=2, url=f"http://127.0.0.1:{port}/", max_in_flight=10)
    key = producer_key()
    try:
        _start(bench, key, port)
        time.sleep(SETTLE_SECONDS)
        waiting = _windows(bench, "waiting", seconds)
        memory = {name: significant(bench.memory_mib(name)) for name in ("web", *WORKERS)}
        bench.stop("web", *WORKERS, now=True)
        _start(bench, key, port, **SHORT_IDLE)
        _wait_until_pumps_have_ended(bench)
        time.sleep(SETTLE_SECONDS)
        ended = _windows(bench, "ended", seconds)
        first = [_first_event_ms(bench, key, port) for _ in range(FIRST_EVENTS)]
        say("the first event after that: " + ", ".join(f"{one:.0f} ms" for one in first))
    finally:
        bench.stop(now=True)
    worse = max(waiting, ended, key=lambda state: float(state["total_percent"]["median"]))
    return {
        "seconds": seconds,
        "states": {"waiting": waiting, "ended": ended},
        "total_percent": worse["total_percent"],
        "first_event_ms": spread(first),
        "memory_mib": memory,
    }


def _start(bench: Stand, key: str, port: int, **settings: str) -> None:
    with database(bench) as connection:
        # Of workers that were killed: they would pass for pumps.
        connection.execute("DELETE FROM deliveries_lease")
    bench.start(*WORKERS, **settings)
    serve(bench, **settings)
    steady(bench.url, key=key, rate=20, seconds=3, consumers=["idle-0", "idle-1"], receiver_port=port)


def _windows(bench: Stand, state: str, seconds: float) -> dict[str, Any]:
    say(f"pumps {state}: counting for {WINDOWS} times {seconds} s")
    windows = [_window(bench, seconds) for _ in range(WINDOWS)]
    totals = [sum(window.values()) for window in windows]
    percent = {part: spread([window[part] for window in windows]) for part in PARTS}
    say(", ".join(f"{total:.2f} %" for total in totals) + " of a core")
    return {"percent": percent, "total_percent": spread(totals)}


def _window(bench: Stand, seconds: float) -> dict[str, float]:
    before, begun = bench.cpu(), time.monotonic()
    time.sleep(seconds)
    after, passed = bench.cpu(), time.monotonic() - begun
    return {part: 100 * (after[part] - before[part]) / passed for part in PARTS}


def _wait_until_pumps_have_ended(bench: Stand) -> None:
    with database(bench) as connection:

        def is_empty() -> bool:
            [[running]] = connection.execute("SELECT count(*) FROM deliveries_lease").fetchall()
            return bool(running == 0)

        bench.wait_until(is_empty, seconds=60, what="the pumps to end", every=0.25)


def _first_event_ms(bench: Stand, key: str, port: int) -> float:
    _wait_until_pumps_have_ended(bench)
    result = steady(bench.url, key=key, rate=1, seconds=1, consumers=["idle-0"], receiver_port=port)
    return float(result["arrival"]["p50_ms"])
