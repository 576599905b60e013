"""emit: single events and batches of 100 per second, beside a view that does nothing on the same server.

The no-op view is a Django REST framework view behind the same middleware, parsing the same body with the framework's
own parser: what the framework costs before we begin. Nothing is delivered meanwhile (the endpoint is paused), so the
CPU seen is emitting alone; every 2xx is then checked to be a row. Turns alternate: no-op, single, once, batch, no-op, …
"""

import json
import urllib.request
from typing import Any

from benchmarks.figures import paired, spread
from benchmarks.load import NUMBER, load
from benchmarks.preload import add_endpoints, database, empty
from benchmarks.progress import say
from benchmarks.stand import Failed, Stand

AT_ONCE = 32
BATCH = 100
# An event whose body on the wire has about 450 bytes.
EVENT = {"consumer": "emit-0", "type": "bench.event", "data": {"filler": "x" * 300}}
SIDES: dict[str, tuple[str, Any, int]] = {
    "noop": ("/api/v1/noop", EVENT, 1),
    "single": ("/api/v1/events/", EVENT, 1),
    # As a careful producer sends it: with an id of its own and an Idempotency-Key.
    "once": ("/api/v1/events/", {**EVENT, "id": f"order-{NUMBER}"}, 1),
    "batch": ("/api/v1/events/batch/", {"events": [EVENT] * BATCH}, BATCH),
}
HEADERS = {"once": f"Idempotency-Key: {NUMBER}\r\n"}


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    turns = 3 if quick else 7
    counts = dict.fromkeys(SIDES, 2000 if quick else 4000) | {"batch": 100 if quick else 250}
    # Each of the server's threads has a connection, on which a statement is planned eight times before a plan is kept.
    warm = dict.fromkeys(SIDES, 1000) | {"batch": 400}
    empty(bench)
    add_endpoints(name="emit", count=1, url=f"{bench.receiver_url}/emit", max_in_flight=10)
    with database(bench) as connection:
        connection.execute("UPDATE subscriptions_endpoint SET status = 'paused'")
    key = producer_key()
    serve(bench)
    seen: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    try:
        for side in SIDES:
            _turn(bench, side, key=key, count=warm[side])
        for turn in range(turns):
            for side in SIDES:
                seen[side].append(_turn(bench, side, key=key, count=counts[side]))
            shown = ", ".join(f"{side} {seen[side][-1]['rate']:,.0f}" for side in SIDES)
            say(f"turn {turn + 1}, events/s: {shown}")
    finally:
        bench.stop("web")
    rates = {side: [one["rate"] for one in ones] for side, ones in seen.items()}
    return {
        **{side: _summary(ones) for side, ones in seen.items()},
        "single_by_noop": paired(rates["single"], rates["noop"]),
        "once_by_noop": paired(rates["once"], rates["noop"]),
        "batch_by_single": paired(rates["batch"], rates["single"]),
    }


def producer_key() -> str:
    from subscriptions import keys
    from subscriptions.models import Role

    return keys.issue(role=Role.PRODUCER)[1]


def serve(bench: Stand, **settings: str) -> None:
    """The web server, with the no-op view beside the real ones."""
    bench.start("web", DJANGO_SETTINGS_MODULE="benchmarks.settings", **settings)

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{bench.url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    bench.wait_until(answers, seconds=60, what="the web server")


def _turn(bench: Stand, side: str, *, key: str, count: int) -> dict[str, Any]:
    path, body, events = SIDES[side]
    stored, before = _stored(bench), bench.cpu()
    result = load(bench.url + path, key=key, body=body, count=count, at_once=AT_ONCE, headers=HEADERS.get(side, ""))
    after = bench.cpu()
    added, owed = _stored(bench) - stored, 0 if side == "noop" else count * events
    if added != owed:
        raise Failed(f"{side}: {added} events were stored, not {owed}. The last answer: {result['last'][:500]}")
    if side == "batch":
        assert {one["status"] for one in json.loads(result["last"])["results"]} == {"accepted"}
    parts = {part: 1000 * (after[part] - before[part]) / (count * events) for part in ("web", "postgres", "redis")}
    times = {name: result[name] for name in ("p50_ms", "p95_ms", "p99_ms")}
    return {"rate": result["rate"] * events, "load_cpu_ms": 1000 * result["cpu"] / count, "cpu_ms": parts, **times}


def _stored(bench: Stand) -> int:
    with database(bench) as connection:
        return int(connection.execute("SELECT count(*) FROM deliveries_event").fetchall()[0][0])


def _summary(ones: list[dict[str, Any]]) -> dict[str, Any]:
    plain = ("rate", "p50_ms", "p95_ms", "p99_ms", "load_cpu_ms")
    return {
        **{name: spread([one[name] for one in ones]) for name in plain},
        "cpu_ms": {part: spread([one["cpu_ms"][part] for one in ones]) for part in ones[0]["cpu_ms"]},
    }
