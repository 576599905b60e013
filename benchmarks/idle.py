"""idle: CPU of the whole system, servers included, with nothing to do.

Everything that `make up` runs, but the demo: web, two delivery workers, background worker, beat, PostgreSQL, Valkey.
It delivers a few events first, so that every process has done its first work, and then settles before the count
begins.
"""

import time
from typing import Any

from benchmarks.emit import producer_key, serve
from benchmarks.figures import significant
from benchmarks.preload import add_endpoints, empty
from benchmarks.progress import say
from benchmarks.receiver import free_port
from benchmarks.stand import Stand
from benchmarks.steady import steady
from benchmarks.through import WORKERS

PARTS = ("web", "worker", "background", "postgres", "redis")
# Longer than a pump waits for more before its task ends.
SETTLE_SECONDS = 12


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    seconds = 10 if quick else 30
    empty(bench)
    port = free_port()
    add_endpoints(name="idle", count=2, url=f"http://127.0.0.1:{port}/", max_in_flight=10)
    key = producer_key()
    bench.start(*WORKERS)
    try:
        serve(bench)
        steady(bench.url, key=key, rate=20, seconds=3, consumers=["idle-0", "idle-1"], receiver_port=port)
        say(f"settling for {SETTLE_SECONDS} s, then counting for {seconds} s")
        time.sleep(SETTLE_SECONDS)
        before, begun = bench.cpu(), time.monotonic()
        time.sleep(seconds)
        after, passed = bench.cpu(), time.monotonic() - begun
        memory = {name: significant(bench.memory_mib(name)) for name in ("web", *WORKERS)}
    finally:
        bench.stop("web", *WORKERS, now=True)
    percent = {part: significant(100 * (after[part] - before[part]) / passed) for part in PARTS}
    total = significant(sum(percent.values()))
    say(f"{total:.2f} % of a core: " + ", ".join(f"{part} {share:.2f}" for part, share in percent.items()))
    return {"seconds": seconds, "percent": percent, "total_percent": total, "memory_mib": memory}
