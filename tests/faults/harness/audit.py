"""What became of every event answered with 202, told by the receivers, the API and the tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg

from tests.faults.harness.producer import Emit
from tests.faults.harness.receiver import Request

# What each path is registered with (rounds.py); the audit holds the system to it.
CAPS = {"/well": 10, "/busy": 3, "/ordered": 10, "/flaky": 6, "/sick": 4}
SCHEDULES = {"/well": 8, "/busy": 8, "/ordered": 8, "/flaky": 8, "/sick": 12}

DELIVERIES_OF = """
    SELECT coalesce(event.producer_id, event.id::text), event.id::text, endpoint.url, delivery.id::text, delivery.state,
        delivery.attempt_count, delivery.attempt_count - delivery.round_base,
        coalesce(array_agg(attempt.number || ':' || coalesce(attempt.status_code::text, attempt.error_kind)
            ORDER BY attempt.number) FILTER (WHERE attempt.number IS NOT NULL), '{}')
    FROM deliveries_event event
    JOIN deliveries_delivery delivery ON delivery.event_id = event.id
    JOIN subscriptions_endpoint endpoint ON endpoint.id = delivery.endpoint_id
    LEFT JOIN deliveries_attempt attempt ON attempt.delivery_id = delivery.id
    WHERE event.body IS NOT NULL AND convert_from(event.body, 'UTF8')::json -> 'data' ->> 'seed' = %(seed)s
    GROUP BY event.id, endpoint.url, delivery.id
"""

OVER_CAP = """
    SELECT endpoint.url, count(*), endpoint.max_in_flight
    FROM deliveries_delivery delivery JOIN subscriptions_endpoint endpoint ON endpoint.id = delivery.endpoint_id
    WHERE delivery.state = 'in_flight' GROUP BY endpoint.id HAVING count(*) > endpoint.max_in_flight
"""

BUSY = """
    SELECT lease.worker FROM deliveries_lease lease
    LEFT JOIN deliveries_delivery delivery ON delivery.leased_by = lease.id
    WHERE lease.expires_at > now() GROUP BY lease.id ORDER BY count(delivery.id) DESC
"""

OWED = """
    SELECT count(*) FROM deliveries_delivery WHERE state IN ('pending', 'in_flight')
"""

LEFT_IN_TABLES = {
    "in flight without a lease": """
        SELECT count(*) FROM deliveries_delivery delivery WHERE state = 'in_flight' AND NOT EXISTS (
            SELECT FROM deliveries_lease lease WHERE lease.id = delivery.leased_by AND lease.expires_at > now())
    """,
    "blocked behind nobody": """
        SELECT count(*) FROM deliveries_delivery waiting WHERE blocked AND NOT EXISTS (
            SELECT FROM deliveries_delivery head WHERE head.endpoint_id = waiting.endpoint_id
                AND head.ordering_key = waiting.ordering_key AND NOT head.blocked
                AND head.state IN ('pending', 'in_flight'))
    """,
    "attempts beyond the count": """
        SELECT count(*) FROM deliveries_attempt attempt
        JOIN deliveries_delivery delivery ON delivery.id = attempt.delivery_id
        WHERE attempt.number > delivery.attempt_count
    """,
    "sequences with gaps": """
        SELECT count(*) FROM (
            SELECT held.last_sequence, count(event.id) AS found FROM deliveries_orderingkey held
            LEFT JOIN deliveries_event event
                ON event.consumer_id = held.consumer_id AND event.ordering_key = held.key
            GROUP BY held.id) gaps WHERE last_sequence <> found
    """,
    "transactions left open": """
        SELECT count(*) FROM pg_stat_activity
        WHERE state LIKE 'idle in transaction%%' AND now() - state_change > interval '5 seconds'
    """,
    "locks waited for": "SELECT count(*) FROM pg_locks WHERE NOT granted",
}


@dataclass(frozen=True)
class Row:
    event: str
    path: str
    delivery: str
    state: str
    attempts_in_round: int
    # Number to status code or error kind, of what was recorded.
    attempts: dict[int, str]


@dataclass
class Audit:
    accepted: int = 0
    delivered: int = 0
    dead: int = 0
    requests: int = 0
    # How each duplicate is explained, and how many there are of each kind.
    duplicates: Counter[str] = field(default_factory=Counter)
    # Attempts of workers that died: event, path, number.
    lost_attempts: list[tuple[str, str, int]] = field(default_factory=list)
    # Promises that were broken, each with one example.
    violations: list[str] = field(default_factory=list)

    @property
    def duplicate_count(self) -> int:
        return self.duplicates.total()


def audit(
    *,
    seed: str,
    emits: list[Emit],
    requests: list[Request],
    most_at_once: Counter[str],
    connection: "psycopg.Connection",
    api: httpx.Client,
    forgets_claims: bool,
) -> Audit:
    """Of one round: its emits carry `seed` in their data, and all of it is at rest."""
    found = Audit()
    rows = _rows(connection, seed)
    own = [request for request in requests if request.body["data"]["seed"] == seed]
    found.requests = len(own)
    found.lost_attempts = [
        (row.event, row.path, number)
        for row in rows.values()
        for number, outcome in row.attempts.items()
        if outcome == "worker_lost"
    ]
    _check_accepted(found, emits, rows, _listed(api, seed))
    _check_delivered(found, rows, own)
    _explain_duplicates(found, rows, own, forgets_claims=forgets_claims)
    _check_order(found, own)
    _check_bounds(found, rows, own, most_at_once)
    for what, statement in LEFT_IN_TABLES.items():
        [count] = connection.execute(statement).fetchone() or [0]
        if count:
            found.violations.append(f"{what}: {count}")
    return found


def _rows(connection: "psycopg.Connection", seed: str) -> dict[tuple[str, str], Row]:
    rows = {}
    for public, uuid, url, delivery, state, _, in_round, attempts in connection.execute(DELIVERIES_OF, {"seed": seed}):
        path = "/" + url.rsplit("/", 1)[1]
        event = public if public != uuid else _shown(uuid)
        numbered = {int(number): outcome for number, _, outcome in (each.partition(":") for each in attempts)}
        rows[event, path] = Row(event, path, delivery, state, in_round, numbered)
    return rows


def _shown(uuid: str) -> str:
    from uuid import UUID

    from subscriptions import ids

    return ids.show("evt", UUID(uuid))


def _listed(api: httpx.Client, seed: str) -> list[str]:
    """The ids of this round's events, as the API lists them."""
    found: list[str] = []
    path: str | None = "events/?consumer=acme&limit=100"
    while path:
        page: dict[str, Any] = api.get(path).raise_for_status().json()
        mine = [event["id"] for event in page["results"] if event["data"].get("seed") == seed]
        found += mine
        # Newest first: after a page without any of ours, and with some before, there are no more.
        path = page["next"] if mine or not found else None
    return found


def _check_accepted(found: Audit, emits: list[Emit], rows: dict[tuple[str, str], Row], listed: list[str]) -> None:
    accepted = [event for emit in emits for event in emit.event_ids]
    found.accepted = len(accepted)
    with_rows = {event for event, _ in rows}
    _note(found, "lost: answered 202, and no delivery exists", set(accepted) - with_rows)
    _note(found, "lost: answered 202, and the API does not list it", set(accepted) - set(listed))
    _note(found, "stored twice: an event that no 202 named", with_rows - set(accepted))
    twice = [event for event, count in Counter(accepted).items() if count > 1]
    _note(found, "one event for two emits", twice)
    unfinished = [f"{row.event} is {row.state}" for row in rows.values() if row.state not in ("delivered", "dead")]
    _note(found, "stuck", unfinished)


def _check_delivered(found: Audit, rows: dict[tuple[str, str], Row], requests: list[Request]) -> None:
    answered = {(request.event, request.path) for request in requests if request.status == 200}
    found.delivered = sum(row.state == "delivered" for row in rows.values())
    found.dead = sum(row.state == "dead" for row in rows.values())
    never = [row.event for row in rows.values() if row.state == "delivered" and (row.event, row.path) not in answered]
    _note(found, "called delivered, and the receiver never took it", never)
    # With as many attempts as these endpoints have, only the sick one may run out of them.
    _note(found, "dead although its receiver is well", [r.event for r in rows.values() if _died_in_vain(r)])
    unrecorded = [r.event for r in rows.values() if r.state == "delivered" and "200" not in r.attempts.values()]
    _note(found, "delivered without a recorded 2xx", unrecorded)


def _died_in_vain(row: Row) -> bool:
    return row.state == "dead" and row.path != "/sick"


def _explain_duplicates(
    found: Audit, rows: dict[tuple[str, str], Row], requests: list[Request], *, forgets_claims: bool
) -> None:
    """An event taken twice is explained by the record of its first attempt: who sent it died or was cut off."""
    by_delivery: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for request in requests:
        if request.status == 200:
            by_delivery[request.event, request.path].append(request)
    for name, taken in by_delivery.items():
        for request in taken[:-1]:
            outcome = rows[name].attempts.get(request.attempt) if name in rows else None
            same_number = sum(other.attempt == request.attempt for other in taken) > 1
            if same_number and forgets_claims:
                found.duplicates["claim forgotten by PostgreSQL's crash"] += 1
            elif same_number:
                found.violations.append(f"one attempt sent twice: {name} number {request.attempt}")
            elif outcome is not None and not outcome.isdigit():
                found.duplicates[outcome] += 1
            else:
                found.violations.append(f"a duplicate nobody can explain: {name} number {request.attempt}: {outcome}")


def _check_order(found: Audit, requests: list[Request]) -> None:
    """A key's sequence comes again, or the next one comes; none is skipped or overtaken."""
    last: dict[str, int] = {}
    for request in requests:
        key = request.body.get("ordering_key")
        if key is None:
            continue
        sequence = request.body["sequence"]
        if sequence not in (last.get(key, 0), last.get(key, 0) + 1):
            found.violations.append(f"out of order: {key} had {last.get(key, 0)}, then came {sequence}")
        last[key] = max(sequence, last.get(key, 0))


def _check_bounds(
    found: Audit, rows: dict[tuple[str, str], Row], requests: list[Request], most_at_once: Counter[str]
) -> None:
    for path, cap in CAPS.items():
        if most_at_once[path] > cap:
            found.violations.append(f"over the cap: {path} had {most_at_once[path]} requests at once, {cap} may be")
    over = [row.event for row in rows.values() if row.attempts_in_round > SCHEDULES[row.path]]
    _note(found, "more attempts than its schedule has", over)
    over = [request.event for request in requests if request.attempt > SCHEDULES[request.path]]
    _note(found, "more requests than its schedule has", over)


def _note(found: Audit, what: str, examples: Iterable[str]) -> None:
    named = sorted(examples)
    if named:
        found.violations.append(f"{what}: {len(named)}, e.g. {named[0]}")
