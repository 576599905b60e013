"""Step: settle. Many outcomes at once: attempts are recorded, deliveries move on, endpoints' health follows.

Every move is guarded by the state and the attempt's number. A worker that comes back late, after its deliveries were
claimed again, finds another number and changes nothing. Only a delivery that was never sent gives its number back
(pump/release.py), and it has no outcome that could come here.

Healthy endpoints take one statement for the whole batch. Where an endpoint fails or recovers, its lane is locked first
and written after the deliveries have moved, in the same transaction, in the lock order that sql/fragments.py states.

Somebody may hold one of these rows for long. Whoever settles with `skip_locked` waits for none of them: outcomes that
need such a row are set aside, and all others are written.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from psycopg import AsyncConnection
from psycopg.rows import class_row

from deliveries.health.breaker import Breaker, EndpointHealth, HealthVerdict, Signal, judge
from deliveries.retry import Dead, Delivered, RetryAt, Verdict
from deliveries.sql import arrays, fragments
from deliveries.sql.compact import compact
from deliveries.sql.fragments import (
    DEAD,
    DELIVERED,
    DISABLE_ENDPOINTS,
    IN_FLIGHT,
    PENDING,
    notice_of_death,
    unblock_next,
)
from deliveries.states import DeliveryState
from deliveries.statistics import deltas
from subscriptions import ids
from subscriptions.models import EndpointStatus

SETTLE = compact(f"""
    -- 1. given: the outcomes, from one JSON document.
    -- 2. moved: each delivery that still waits for this very attempt becomes delivered, pending again, or dead.
    -- 3. recorded: the attempts of the moved ones.
    -- 4. noticed: one notice for each that died.
    -- 5. unblocked: where one of an ordering key ended, the next of that key may go.
    WITH given AS MATERIALIZED (
        -- The guard is a column here, not a condition on the table: PostgreSQL would expect hardly any row in flight,
        -- and for so few compare each with each, or read all that are in flight anywhere.
        SELECT *, {IN_FLIGHT} AS state_before FROM json_to_recordset(%(outcomes)s::json) AS outcome (
            delivery_id uuid, number int, state text, wait float8, dead_reason text, attempt_id uuid,
            started_at timestamptz, duration_ms int, url text, address text, status_code int, error_kind text,
            error_detail text, request_headers text, response_headers text, response_body text
        )
    ), moved AS (
        UPDATE deliveries_delivery delivery
        SET state = given.state,
            due_at = CASE WHEN given.state = {PENDING}
                THEN now() + given.wait * interval '1 second' ELSE delivery.due_at END,
            dead_reason = given.dead_reason,
            finished_at = CASE WHEN given.state <> {PENDING} THEN now() END,
            leased_by = NULL
        FROM given
        WHERE delivery.id = ANY (%(delivery_ids)s::uuid[]) AND delivery.id = given.delivery_id
            AND delivery.state = given.state_before AND delivery.attempt_count = given.number
        RETURNING given.*, delivery.endpoint_id, delivery.ordering_key, delivery.round_base, delivery.created_at
    ), recorded AS (
        INSERT INTO deliveries_attempt (
            id, delivery_id, number, started_at, duration_ms, url, address, status_code, error_kind, error_detail,
            request_headers, response_headers, response_body
        )
        SELECT attempt_id, delivery_id, number, started_at, duration_ms, url, address, status_code, error_kind,
            error_detail, request_headers::jsonb, response_headers::jsonb, decode(response_body, 'hex')
        FROM moved
    ), counted AS (
        INSERT INTO deliveries_delta (counter, label, subject_id, duration_ms, latency_ms)
        SELECT CASE state WHEN {PENDING} THEN 'failed' ELSE state END,
            coalesce(status_code / 100 || 'xx', error_kind), endpoint_id, duration_ms,
            -- A replay says nothing about how fast events arrive. A number has room for 24 days.
            CASE WHEN state = {DELIVERED} AND round_base = 0
                THEN greatest(0, least(extract(epoch FROM now() - created_at) * 1000, 2147483647))::int END
        FROM moved
    ), noticed AS (
        {notice_of_death("moved", delivery_id="delivery_id", where=f"state = {DEAD}")}
    ), unblocked AS (
        {unblock_next("moved", where=f"AND moved.state <> {PENDING}")} RETURNING endpoint_id
    )
    SELECT delivery_id, number, endpoint_id IN (SELECT endpoint_id FROM unblocked) FROM moved
""")
"""Records attempts and moves their deliveries on, as far as each delivery still waits for this very attempt.

Each is counted (statistics/deltas.py). A dead one leaves a notice; one that ends its turn in an ordering key lets the
next of that key go.
"""

LOCK_ENDPOINTS = """
    SELECT id FROM subscriptions_endpoint WHERE id = ANY (%(endpoint_ids)s) ORDER BY id FOR NO KEY UPDATE
"""
"""Locks the endpoints that will be disabled: before their lanes, as a person does who resumes or probes one."""

LOCK_LANES = """
    SELECT lane.endpoint_id, endpoint.max_in_flight, lane.opens_at, lane.failure_count, lane.failing_since,
        lane.last_failure_at, lane.breaker_open, lane.cooldown_seconds, lane.allowance, lane.warning_count,
        lane.recovery_owed, lane.last_error_kind
    FROM subscriptions_lane lane
    JOIN subscriptions_endpoint endpoint ON endpoint.id = lane.endpoint_id
    WHERE lane.endpoint_id = ANY (%(endpoint_ids)s)
    ORDER BY lane.endpoint_id
    FOR NO KEY UPDATE OF lane
"""
"""Locks lanes, in id order, and reads them."""

LOCK_KEYS = fragments.lock_keys(
    "SELECT * FROM unnest(%(consumer_ids)s::uuid[], %(keys)s::text[]) AS given (consumer_id, key)"
)
"""Waits until no event of these keys is being accepted."""

LOCK_DELIVERIES = """
    SELECT id FROM deliveries_delivery WHERE id = ANY (%(delivery_ids)s::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED
"""
"""Locks those deliveries that nobody else holds."""

FIND_EXISTING = {
    "endpoints": "SELECT id FROM subscriptions_endpoint WHERE id = ANY (%(missing)s::uuid[])",
    "lanes": "SELECT endpoint_id FROM subscriptions_lane WHERE endpoint_id = ANY (%(missing)s::uuid[])",
    "deliveries": "SELECT id FROM deliveries_delivery WHERE id = ANY (%(missing)s::uuid[])",
}
"""Which of the rows that could not be locked exist: somebody else holds those."""

FIND_EXISTING_KEYS = """
    SELECT consumer_id, key FROM deliveries_orderingkey
    JOIN unnest(%(consumer_ids)s::uuid[], %(keys)s::text[]) AS given (consumer_id, key) USING (consumer_id, key)
"""
"""The same for ordering keys."""

WRITE_LANES = """
    UPDATE subscriptions_lane lane
    SET opens_at = given.opens_at, failure_count = given.failure_count, failing_since = given.failing_since,
        last_failure_at = given.last_failure_at, breaker_open = given.breaker_open,
        cooldown_seconds = given.cooldown_seconds, allowance = given.allowance, warning_count = given.warning_count,
        recovery_owed = given.recovery_owed, last_error_kind = given.last_error_kind
    FROM unnest(
        %(endpoint_ids)s::uuid[], %(opens_ats)s::timestamptz[], %(failure_counts)s::int[],
        %(failing_sinces)s::timestamptz[], %(last_failure_ats)s::timestamptz[], %(breaker_opens)s::bool[],
        %(cooldowns)s::int[], %(allowances)s::int[], %(warning_counts)s::int[],
        %(recoveries_owed)s::bool[], %(last_error_kinds)s::text[]
    ) AS given (
        endpoint_id, opens_at, failure_count, failing_since, last_failure_at, breaker_open, cooldown_seconds,
        allowance, warning_count, recovery_owed, last_error_kind
    )
    WHERE lane.endpoint_id = given.endpoint_id
"""
"""Writes locked lanes back."""

STORE_NOTICES = """
    INSERT INTO deliveries_notice (id, endpoint_id, kind, reason)
    SELECT webhooks_uuid7(), * FROM unnest(%(endpoint_ids)s::uuid[], %(kinds)s::text[], %(reasons)s::text[])
"""
"""Writes down what changed in endpoints' health, and why."""


# What a breaker has turned to.
_TURNS: dict[str, str] = {"breaker_opened": "open", "breaker_closed": "closed"}


class Outcome(NamedTuple):
    """What one attempt came to, and what was decided about its delivery and says about its endpoint."""

    delivery_id: UUID
    endpoint_id: UUID
    number: int
    verdict: Verdict
    decided_at: datetime
    started_at: datetime
    duration_ms: int
    url: str
    # None: the attempt says nothing about the endpoint's health.
    signal: Signal | None = None
    endpoint_is_well: bool = True
    # The consumer and key, for ordered endpoints.
    ordering: tuple[UUID, str] | None = None
    request_headers: Sequence[tuple[str, str]] = ()
    address: str | None = None
    status_code: int | None = None
    error_kind: str | None = None
    error_detail: str | None = None
    response_headers: Sequence[tuple[str, str]] | None = None
    response_body: bytes | None = None
    # When a delivery that goes back unsent was due (pump/release.py).
    claimed_due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    # Deliveries with the attempt's number. One that is missing had been claimed again meanwhile.
    moved: set[tuple[UUID, int]]
    # Endpoints with something new to send: the next of an ordering key.
    unblocked: set[UUID]
    # Not written, because somebody else holds a row they need. Only with `skip_locked`.
    set_aside: frozenset[tuple[UUID, int]] = frozenset()


async def settle(
    connection: AsyncConnection, outcomes: Sequence[Outcome], *, breaker: Breaker, skip_locked: bool = False
) -> Settled:
    """With `skip_locked`, outcomes that need a row somebody else holds are set aside, and nobody waits."""
    if skip_locked:
        return await _settle_past_locks(connection, outcomes, breaker=breaker)
    ailing = sorted({outcome.endpoint_id for outcome in outcomes if _concerns_health(outcome)})
    keys = sorted({outcome.ordering for outcome in outcomes if outcome.ordering})
    if not ailing and not keys:
        return await _move(connection, outcomes)
    async with connection.transaction():
        await _lock_endpoints(connection, outcomes)
        lanes = await _locked_lanes(connection, ailing)
        await lock_keys(connection, keys)
        settled = await _move(connection, outcomes)
        if lanes:
            moved = [outcome for outcome in outcomes if (outcome.delivery_id, outcome.number) in settled.moved]
            await _write_health(connection, lanes, moved, breaker)
    return settled


async def _settle_past_locks(connection: AsyncConnection, outcomes: Sequence[Outcome], *, breaker: Breaker) -> Settled:
    """In the order of all locks: each step leaves out what could not be locked, and all that depends on it."""
    async with connection.transaction():
        free = [
            outcome for outcome, is_held in zip(outcomes, await _held(connection, outcomes), strict=True) if not is_held
        ]
        set_aside = {(outcome.delivery_id, outcome.number) for outcome in outcomes}
        set_aside -= {(outcome.delivery_id, outcome.number) for outcome in free}
        # Whatever is locked again here is ours already.
        settled = await settle(connection, free, breaker=breaker) if free else Settled(moved=set(), unblocked=set())
    return replace(settled, set_aside=frozenset(set_aside))


async def _held(connection: AsyncConnection, outcomes: Sequence[Outcome]) -> list[bool]:
    """Of each outcome, whether somebody else holds a row that it needs. The other rows are locked now."""
    disabled = [o.endpoint_id for o in outcomes if o.signal and o.signal.disable_reason]
    held_endpoints = await _lock_free(
        connection, f"{LOCK_ENDPOINTS} SKIP LOCKED", "endpoints", "endpoint_ids", disabled
    )
    ailing = [o.endpoint_id for o in outcomes if _concerns_health(o)]
    held_lanes = await _lock_free(connection, f"{LOCK_LANES} SKIP LOCKED", "lanes", "endpoint_ids", ailing)
    held_keys = await lock_free_keys(connection, {o.ordering for o in outcomes if o.ordering})
    held = [
        (o.endpoint_id in held_endpoints)
        or (_concerns_health(o) and o.endpoint_id in held_lanes)
        or (o.ordering in held_keys)
        for o in outcomes
    ]
    wanted = [o.delivery_id for o, is_held in zip(outcomes, held, strict=True) if not is_held]
    held_deliveries = await _lock_free(connection, LOCK_DELIVERIES, "deliveries", "delivery_ids", wanted)
    return [is_held or o.delivery_id in held_deliveries for o, is_held in zip(outcomes, held, strict=True)]


async def _lock_free(
    connection: AsyncConnection, statement: str, kind: str, parameter: str, wanted: Sequence[UUID]
) -> set[UUID]:
    """Locks rows by a statement whose first column is their id. Returns those that somebody else holds."""
    if not wanted:
        return set()
    locked = await (await connection.execute(statement, {parameter: list(wanted)})).fetchall()
    missing = set(wanted) - {row[0] for row in locked}
    if not missing:
        return set()
    existing = await connection.execute(FIND_EXISTING[kind], {"missing": list(missing)})
    return {row[0] for row in await existing.fetchall()}


async def lock_keys(connection: AsyncConnection, keys: Sequence[tuple[UUID, str]]) -> None:
    if keys:
        await connection.execute(LOCK_KEYS, _key_columns(keys))


async def lock_free_keys(connection: AsyncConnection, keys: Collection[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
    """Locks the keys that nobody holds, and returns the others."""
    if not keys:
        return set()
    locked = await connection.execute(f"{LOCK_KEYS} SKIP LOCKED", _key_columns(keys))
    missing = set(keys) - set(await locked.fetchall())
    if not missing:
        return set()
    existing = await connection.execute(FIND_EXISTING_KEYS, _key_columns(missing))
    return set(await existing.fetchall())


def _key_columns(keys: Collection[tuple[UUID, str]]) -> dict[str, list[Any]]:
    return {"consumer_ids": [consumer for consumer, _ in keys], "keys": [key for _, key in keys]}


def _concerns_health(outcome: Outcome) -> bool:
    signal = outcome.signal
    return signal is not None and (not signal.succeeded or not outcome.endpoint_is_well or bool(signal.disable_reason))


async def _move(connection: AsyncConnection, outcomes: Sequence[Outcome]) -> Settled:
    parameters = {
        # One document for the whole batch: writing sixteen arrays was a seventh of a worker's CPU time.
        "outcomes": orjson.dumps([_row(outcome) for outcome in outcomes]).decode(),
        "delivery_ids": arrays.uuids([outcome.delivery_id for outcome in outcomes]),
    }
    cursor = await connection.execute(SETTLE, parameters, prepare=True)
    rows = await cursor.fetchall()
    endpoint_of = {outcome.delivery_id: outcome.endpoint_id for outcome in outcomes}
    return Settled(
        moved={(delivery_id, number) for delivery_id, number, _ in rows},
        unblocked={endpoint_of[delivery_id] for delivery_id, _, let_next_go in rows if let_next_go},
    )


async def _lock_endpoints(connection: AsyncConnection, outcomes: Sequence[Outcome]) -> None:
    wanted = {outcome.endpoint_id for outcome in outcomes if outcome.signal and outcome.signal.disable_reason}
    if wanted:
        await connection.execute(LOCK_ENDPOINTS, {"endpoint_ids": list(wanted)})


async def _locked_lanes(connection: AsyncConnection, endpoint_ids: list[UUID]) -> list[EndpointHealth]:
    if not endpoint_ids:
        return []
    cursor = connection.cursor(row_factory=class_row(EndpointHealth))
    return await (await cursor.execute(LOCK_LANES, {"endpoint_ids": endpoint_ids})).fetchall()


async def _write_health(
    connection: AsyncConnection, lanes: Sequence[EndpointHealth], outcomes: Sequence[Outcome], breaker: Breaker
) -> None:
    now: datetime = (await (await connection.execute("SELECT clock_timestamp()")).fetchone() or (None,))[0]
    signals: dict[UUID, list[Signal]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.signal is not None:
            signals[outcome.endpoint_id].append(outcome.signal)
    verdicts = [judge(lane, signals[lane.endpoint_id], breaker=breaker, now=now) for lane in lanes]
    await connection.execute(WRITE_LANES, _lane_columns([verdict.lane for verdict in verdicts]))
    changes = [(verdict.lane.endpoint_id, kind, reason) for verdict in verdicts for kind, reason in verdict.changes]
    if changes:
        await connection.execute(
            STORE_NOTICES,
            {
                "endpoint_ids": [endpoint for endpoint, _, _ in changes],
                "kinds": [kind.value for _, kind, _ in changes],
                "reasons": [reason for _, _, reason in changes],
            },
        )
    turns = Counter((deltas.BREAKER, _TURNS[kind]) for _, kind, _ in changes if kind in _TURNS)
    if turns:
        await connection.execute(deltas.APPEND, deltas.columns(turns))
    await _disable(connection, verdicts)


async def _disable(connection: AsyncConnection, verdicts: Sequence[HealthVerdict]) -> None:
    """Active endpoints alone: the others in flight are answered with 410 too, and that is no news any more."""
    wanted = {verdict.lane.endpoint_id: verdict.disable_reason for verdict in verdicts if verdict.disable_reason}
    if wanted:
        given = {"endpoint_ids": list(wanted), "reasons": list(wanted.values())}
        await connection.execute(DISABLE_ENDPOINTS, given | {"statuses": [EndpointStatus.ACTIVE.value]})


def _lane_columns(lanes: Sequence[EndpointHealth]) -> dict[str, list[Any]]:
    return {
        "endpoint_ids": [lane.endpoint_id for lane in lanes],
        "opens_ats": [lane.opens_at for lane in lanes],
        "failure_counts": [lane.failure_count for lane in lanes],
        "failing_sinces": [lane.failing_since for lane in lanes],
        "last_failure_ats": [lane.last_failure_at for lane in lanes],
        "breaker_opens": [lane.breaker_open for lane in lanes],
        "cooldowns": [lane.cooldown_seconds for lane in lanes],
        "allowances": [lane.allowance for lane in lanes],
        "warning_counts": [lane.warning_count for lane in lanes],
        "recoveries_owed": [lane.recovery_owed for lane in lanes],
        "last_error_kinds": [lane.last_error_kind for lane in lanes],
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    row: dict[str, Any] = {
        "delivery_id": outcome.delivery_id,
        "number": outcome.number,
        "state": _state(outcome.verdict),
        "attempt_id": ids.new_text(),
        "started_at": outcome.started_at,
        "duration_ms": outcome.duration_ms,
        "url": outcome.url,
        "address": outcome.address,
        "status_code": outcome.status_code,
        "request_headers": _text(outcome.request_headers),
    }
    # Left out, a field is null, and there is less to read.
    if outcome.response_headers is not None:
        row["response_headers"] = _text(outcome.response_headers)
    if outcome.response_body is not None:
        row["response_body"] = outcome.response_body.hex()
    if outcome.error_kind is not None:
        row["error_kind"] = outcome.error_kind
    if outcome.error_detail is not None:
        # An attempt must not go unrecorded because somebody's host name is long.
        row["error_detail"] = outcome.error_detail[:255]
    if isinstance(outcome.verdict, RetryAt):
        # Seconds from the decision, so that only the database's clock says when a delivery is due.
        row["wait"] = max(0.0, (outcome.verdict.at - outcome.decided_at).total_seconds())
    elif isinstance(outcome.verdict, Dead):
        row["dead_reason"] = outcome.verdict.reason
    return row


def _text(headers: Sequence[tuple[str, str]]) -> str:
    """JSON in a string: inside the document PostgreSQL would read it three times over."""
    return orjson.dumps(headers).decode()


def _state(verdict: Verdict) -> DeliveryState:
    match verdict:
        case Delivered():
            return DeliveryState.DELIVERED
        case RetryAt():
            return DeliveryState.PENDING
        case Dead():
            return DeliveryState.DEAD
