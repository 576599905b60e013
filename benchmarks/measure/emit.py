"""emit: single events and batches of 100 per second, beside a view that does nothing on the same server.

The no-op view is a Django REST framework view that parses the same body with the framework's own parser: what Django,
its middleware and the framework cost before we begin. Our own emits need not go through all that: those of a caller
who was here a moment ago are answered before Django (deliveries/api/answer_before_django.py), single or batch, with and
without an id, an Idempotency-Key, an ordering key. `through_django` is a single emit that goes on to the view, as all
do whose request is out of the ordinary.

Events rotate over 200 consumers, each with an endpoint, and five types. Nothing is delivered meanwhile (the endpoints
are paused), so the CPU seen is emitting alone; every 2xx is then checked to be a row. Sides take turns.
"""

import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from benchmarks.load.preload import add_endpoints, database, empty
from benchmarks.load.producer import NUMBER, load
from benchmarks.report.figures import paired, spread, take_turns
from benchmarks.report.progress import say
from benchmarks.stand import Failed, Stand

AT_ONCE = 32
BATCH = 100
CONSUMERS, TYPES = 200, 5
# Each with about 450 bytes on the wire.
EVENTS = [
    {"consumer": f"emit-{number}", "type": f"bench.event_{kind}", "data": {"filler": "x" * 300}}
    for kind in range(TYPES)
    for number in range(CONSUMERS)
]
BATCHES = [{"events": EVENTS[start : start + BATCH]} for start in range(0, len(EVENTS), BATCH)]
SIDES: dict[str, tuple[str, Sequence[Any], int]] = {
    "noop": ("/api/v1/noop", EVENTS, 1),
    "single": ("/api/v1/events/", EVENTS, 1),
    # As a careful producer sends it: with an id of its own and an Idempotency-Key.
    "once": ("/api/v1/events/", [{**event, "id": f"order-{NUMBER}"} for event in EVENTS], 1),
    # Each consumer's events in their order.
    "ordered": ("/api/v1/events/", [{**event, "ordering_key": "account"} for event in EVENTS], 1),
    # Whatever has a query string goes through Django, and the view finds no parameter in this one.
    "through_django": ("/api/v1/events/?&", EVENTS, 1),
    "batch": ("/api/v1/events/batch/", BATCHES, BATCH),
    # The same a consumer at a time, as a producer does who sends each tenant's day.
    "batch_one": ("/api/v1/events/batch/", [{"events": [event] * BATCH} for event in EVENTS[::BATCH]], BATCH),
}
BATCH_SIDES = ("batch", "batch_one")
HEADERS = {"once": f"Idempotency-Key: {NUMBER}\r\n"}


def measure(bench: Stand, *, quick: bool) -> dict[str, Any]:
    turns = 3 if quick else 9
    counts = dict.fromkeys(SIDES, 2000 if quick else 4000) | dict.fromkeys(BATCH_SIDES, 100 if quick else 250)
    counts["through_django"] //= 2
    # Each of the server's threads has a connection, on which a statement is planned eight times before a plan is kept;
    # each of its processes has consumers and types to learn, which batches teach it soonest.
    warm = dict.fromkeys(BATCH_SIDES, 200) | {side: 1000 for side in SIDES if side not in BATCH_SIDES}
    empty(bench)
    add_endpoints(name="emit", count=CONSUMERS, url=f"{bench.receiver_url}/emit", max_in_flight=10)
    with database(bench) as connection:
        connection.execute("UPDATE subscriptions_endpoint SET status = 'paused'")
    key = producer_key()
    serve(bench)
    seen: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    try:
        for side in warm:
            _turn(bench, side, key=key, count=warm[side])
        for turn in range(turns):
            for side in take_turns(list(SIDES), turn):
                seen[side].append(_turn(bench, side, key=key, count=counts[side]))
            shown = ", ".join(f"{side} {seen[side][-1]['rate']:,.0f}" for side in SIDES)
            say(f"turn {turn + 1}, events/s: {shown}")
    finally:
        bench.stop("web")
    rates = {side: [one["rate"] for one in ones] for side, ones in seen.items()}
    return {
        **{side: _summary(ones) for side, ones in seen.items()},
        **{
            f"{side}_by_noop": paired(rates[side], rates["noop"])
            for side in ("single", "once", "ordered", "through_django")
        },
        **{f"{side}_by_single": paired(rates[side], rates["single"]) for side in BATCH_SIDES},
    }


def producer_key() -> str:
    from subscriptions import keys
    from subscriptions.models import Role

    return keys.issue(role=Role.PRODUCER)[1]


def serve(bench: Stand, **settings: str) -> None:
    """The web server, with the no-op view beside the real ones."""
    bench.start("web", DJANGO_SETTINGS_MODULE="benchmarks.load.noop_settings", **settings)

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{bench.url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    bench.wait_until(answers, seconds=60, what="the web server")


def _turn(bench: Stand, side: str, *, key: str, count: int) -> dict[str, Any]:
    path, bodies, events = SIDES[side]
    stored, before = _stored(bench), bench.cpu()
    asked: dict[str, Any] = {"key": key, "bodies": bodies, "headers": HEADERS.get(side, "")}
    result = load(bench.url + path, count=count, at_once=AT_ONCE, **asked)
    after = bench.cpu()
    added, owed = _stored(bench) - stored, 0 if side == "noop" else count * events
    if added != owed:
        raise Failed(f"{side}: {added} events were stored, not {owed}. The last answer: {result['last'][:500]}")
    if side in BATCH_SIDES:
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
