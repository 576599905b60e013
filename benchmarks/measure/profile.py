"""profile: where the time goes, statement by statement and file by file, and what a delivery writes to the disk.

A full drain, emits one by one and in batches, and steady rates at which little is shared: what an event costs in small
company, beside what it costs in a crowd, says what a claim, a settlement and an emit's statement cost by themselves.
Then the drain once more to other receivers: behind TLS, on many hosts, with a new connection each. Counting and
sampling cost something themselves, so rates are left to the other measures. `python -m benchmarks.measure.profile`
runs it alone.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.load.many_receivers import by_receiver
from benchmarks.load.preload import PreloadedEndpoint, add_endpoints, add_waiting, database, empty, ring
from benchmarks.load.producer import load
from benchmarks.load.receiver import free_port
from benchmarks.load.steady_producer import steady
from benchmarks.measure.drain import DrainWatch, at_work
from benchmarks.measure.emit import AT_ONCE, CONSUMERS, SIDES, producer_key, serve
from benchmarks.measure.plans import explained
from benchmarks.measure.python_samples import sampled
from benchmarks.measure.statements import Counted, counted, observed
from benchmarks.report.figures import significant
from benchmarks.report.progress import say
from benchmarks.stand import Stand

ENDPOINTS = 20
# Events a second: so slow that an emit, a claim and a settlement each have one to themselves, and faster. The model's
# costs come from the last, and the one before it says how well they foretell another rate.
STEADY = {"lone": 20, "some": 100, "more": 400}
SHOWN_STATEMENTS = 8
SHOWN_GROUPS = 12
PLANS = ("claim.CLAIM_DUE", "settle.SETTLE")
PARTS = ("web", "worker", "postgres", "redis")


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    count = 3_000 if quick else 10_000
    with observed(bench):
        out = _out(bench, count=count)
        way_in = _way_in(bench, count=count // 2)
        by_rate = _steady(bench, seconds=6 if quick else 20)
    return {
        "deliver": out["counted"],
        "emit": way_in["counted"],
        **by_rate,
        "plans": out["plans"],
        "python": {"worker": out["python"], "web": way_in["python"]},
        "receivers": by_receiver(bench, count=count // 2),
        "waits": _waits(),
    }


def _waits() -> dict[str, float]:
    """What we wait for on purpose, in seconds, and a worker's slots: of the code that these figures are of."""
    from django.conf import settings

    from deliveries import bell, deliver
    from deliveries.pump import settler

    return {
        "bell_gather": bell._GATHER_SECONDS,
        "pump_gather": deliver._GATHER_RINGS,
        "settle_gather": settler._GATHER_SECONDS,
        "passed_over": deliver._PASSED_OVER_PAUSE,
        "slots": settings.DELIVERY_CONCURRENCY,
    }


def _out(bench: Stand, *, count: int) -> dict[str, Any]:
    """The same drain three times: counted, sampled, explained. Each look would show in the other figures."""
    empty(bench)
    url = f"{bench.receiver_url}/profile/{{number}}"
    targets = add_endpoints(name="profile", count=ENDPOINTS, url=url, max_in_flight=100)
    with database(bench) as connection, at_work(bench, connection, targets, 1):
        _preload(bench, targets, count)
        before = bench.cpu()
        with counted(bench) as found:
            _finish(bench, targets)
        deliver = _side(found, before, bench.cpu(), count)
        _preload(bench, targets, 2 * count)
        with sampled(bench.children["deliveries1"].pid) as shares:
            _finish(bench, targets)
        _preload(bench, targets, count // 5)
        with explained(bench) as plans:
            _finish(bench, targets)
    say(f"a delivery: {deliver['wal_bytes']:,.0f} bytes of WAL, {deliver['claims']:.3f} claims")
    shown = {name: nodes for name, nodes in plans.items() if name in PLANS}
    return {"counted": deliver, "plans": shown, "python": dict(list(shares.items())[:SHOWN_GROUPS])}


def _preload(bench: Stand, targets: Sequence[PreloadedEndpoint], count: int) -> None:
    with database(bench) as connection:
        add_waiting(connection, targets, each=count // len(targets))


def _finish(bench: Stand, targets: Sequence[PreloadedEndpoint]) -> None:
    with database(bench) as connection:
        ring(targets)
        bench.wait_until(DrainWatch(connection, targets).is_drained, seconds=300, what="the last delivery", every=0.25)


def _side(found: Counted, before: dict[str, float], after: dict[str, float], count: int) -> dict[str, Any]:
    return {
        "count": count,
        "cpu_ms": {part: significant(1000 * (after[part] - before[part]) / count) for part in PARTS},
        "wal_bytes": significant(found.wal_bytes / count),
        "flush_ms": found.flush_ms,
        "claims": significant(found.calls("claim.CLAIM_DUE") / count),
        "settlements": significant(found.calls("settle.SETTLE") / count),
        "stores": significant(found.calls("insert.STORE_PLAIN") / count),
        "statements": found.statements[:SHOWN_STATEMENTS],
    }


def _way_in(bench: Stand, *, count: int) -> dict[str, Any]:
    """Emits to endpoints that are paused: nothing is delivered meanwhile."""
    empty(bench)
    add_endpoints(name="emit", count=CONSUMERS, url=f"{bench.receiver_url}/emit", max_in_flight=10)
    with database(bench) as connection:
        connection.execute("UPDATE subscriptions_endpoint SET status = 'paused'")
    key, sides = producer_key(), {}
    serve(bench)
    try:
        for side in ("single", "batch"):
            path, bodies, events = SIDES[side]
            requests = count * 4 // events if events > 1 else count

            def emit(requests: int, path: str = path, bodies: Sequence[Any] = bodies) -> None:
                load(bench.url + path, key=key, bodies=bodies, count=requests, at_once=AT_ONCE)

            emit(1000 if events == 1 else 200)  # warm
            before = bench.cpu()
            with counted(bench) as found:
                emit(requests)
            sides[side] = _side(found, before, bench.cpu(), requests * events)
            say(f"an emit, {side}: {sides[side]['wal_bytes']:,.0f} bytes of WAL")
        with sampled(bench.children["web"].pid) as shares:
            load(bench.url + SIDES["single"][0], key=key, bodies=SIDES["single"][1], count=2 * count, at_once=AT_ONCE)
    finally:
        bench.stop("web")
    return {"counted": sides, "python": dict(list(shares.items())[:SHOWN_GROUPS])}


def _steady(bench: Stand, *, seconds: int) -> dict[str, Any]:
    """Events at a rate through the whole system, without what the processes use when there is nothing to do."""
    empty(bench)
    port, workers, found = free_port(), ("deliveries1", "deliveries2"), {}
    add_endpoints(name="steady", count=ENDPOINTS, url=f"http://127.0.0.1:{port}/{{number}}", max_in_flight=10)
    consumers, key = [f"steady-{number}" for number in range(ENDPOINTS)], producer_key()
    bench.start(*workers)
    try:
        serve(bench)
        steady(bench.url, key=key, rate=100, seconds=3, consumers=consumers, receiver_port=port)  # warm
        before = bench.cpu()
        time.sleep(seconds)
        idle = {part: used - before[part] for part, used in bench.cpu().items()}
        for name, rate in STEADY.items():
            before = bench.cpu()
            with counted(bench) as one:
                took = steady(bench.url, key=key, rate=rate, seconds=seconds, consumers=consumers, receiver_port=port)
            after = {part: used - idle[part] for part, used in bench.cpu().items()}
            found[name] = {"rate": rate, "arrival": took["arrival"], **_side(one, before, after, rate * seconds)}
            shown = ", ".join(f"{part} {used:.2f}" for part, used in found[name]["cpu_ms"].items())
            say(f"an event at {rate}/s, ms of CPU: {shown}")
    finally:
        bench.stop("web", *workers, now=True)
    return found


if __name__ == "__main__":
    from benchmarks.cli import main

    sys.exit(main(["profile", *sys.argv[1:]]))
