"""Step: settle. Many outcomes at once: each attempt is recorded and its delivery moves on, in one statement.

Every move is guarded by the state and the attempt's number. A worker that comes back late, after its deliveries were
claimed again, finds another number and changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from deliveries.retry import Dead, Delivered, RetryAt, Verdict
from subscriptions import ids

SETTLE = """
    WITH given AS (
        SELECT * FROM unnest(
            %(delivery_ids)s::uuid[], %(numbers)s::int[], %(states)s::text[], %(waits)s::float8[],
            %(dead_reasons)s::text[], %(attempt_ids)s::uuid[], %(started_ats)s::timestamptz[],
            %(durations_ms)s::int[], %(urls)s::text[],
            %(addresses)s::text[], %(status_codes)s::int[], %(error_kinds)s::text[], %(error_details)s::text[],
            %(request_headers)s::text[], %(response_headers)s::text[], %(response_bodies)s::bytea[]
        ) AS outcome (
            delivery_id, number, state, wait, dead_reason, attempt_id, started_at, duration_ms, url, address,
            status_code, error_kind, error_detail, request_headers, response_headers, response_body
        )
    ), moved AS (
        UPDATE deliveries_delivery delivery
        SET state = given.state,
            due_at = CASE WHEN given.state = 'pending'
                THEN now() + given.wait * interval '1 second' ELSE delivery.due_at END,
            dead_reason = given.dead_reason,
            finished_at = CASE WHEN given.state <> 'pending' THEN now() END,
            leased_by = NULL
        FROM given
        WHERE delivery.id = ANY (%(delivery_ids)s::uuid[]) AND delivery.id = given.delivery_id
            AND delivery.state = 'in_flight' AND delivery.attempt_count = given.number
        RETURNING delivery.id
    ), recorded AS (
        INSERT INTO deliveries_attempt (
            id, delivery_id, number, started_at, duration_ms, url, address, status_code, error_kind, error_detail,
            request_headers, response_headers, response_body
        )
        SELECT attempt_id, delivery_id, number, started_at, duration_ms, url, address, status_code, error_kind,
            error_detail, request_headers::jsonb, response_headers::jsonb, response_body
        FROM given JOIN moved ON moved.id = given.delivery_id
    )
    SELECT id FROM moved
"""
"""Records attempts and moves their deliveries on, as far as each delivery still waits for this very attempt."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt came to, and what was decided about its delivery."""

    delivery_id: UUID
    number: int
    verdict: Verdict
    decided_at: datetime
    started_at: datetime
    duration_ms: int
    url: str
    request_headers: Sequence[tuple[str, str]] = ()
    address: str | None = None
    status_code: int | None = None
    error_kind: str | None = None
    error_detail: str | None = None
    response_headers: Sequence[tuple[str, str]] | None = None
    response_body: bytes | None = None


async def settle(connection: AsyncConnection, outcomes: Sequence[Outcome]) -> set[UUID]:
    """The deliveries that moved. One that is missing had been claimed again meanwhile."""
    cursor = await connection.execute(SETTLE, _columns(outcomes), prepare=True)
    return {row[0] for row in await cursor.fetchall()}


def _columns(outcomes: Sequence[Outcome]) -> dict[str, list[object]]:
    return {
        "delivery_ids": [outcome.delivery_id for outcome in outcomes],
        "numbers": [outcome.number for outcome in outcomes],
        "states": [_state(outcome.verdict) for outcome in outcomes],
        "waits": [_wait(outcome) for outcome in outcomes],
        "dead_reasons": [outcome.verdict.reason if isinstance(outcome.verdict, Dead) else None for outcome in outcomes],
        "attempt_ids": [ids.new_uuid() for _ in outcomes],
        "started_ats": [outcome.started_at for outcome in outcomes],
        "durations_ms": [outcome.duration_ms for outcome in outcomes],
        "urls": [outcome.url for outcome in outcomes],
        "addresses": [outcome.address for outcome in outcomes],
        "status_codes": [outcome.status_code for outcome in outcomes],
        "error_kinds": [outcome.error_kind for outcome in outcomes],
        "error_details": [outcome.error_detail for outcome in outcomes],
        "request_headers": [_json(outcome.request_headers) for outcome in outcomes],
        "response_headers": [
            None if outcome.response_headers is None else _json(outcome.response_headers) for outcome in outcomes
        ],
        "response_bodies": [outcome.response_body for outcome in outcomes],
    }


def _state(verdict: Verdict) -> str:
    match verdict:
        case Delivered():
            return "delivered"
        case RetryAt():
            return "pending"
        case Dead():
            return "dead"


def _wait(outcome: Outcome) -> float:
    """Seconds from the decision, so that only the database's clock says when a delivery is due."""
    if isinstance(outcome.verdict, RetryAt):
        return max(0.0, (outcome.verdict.at - outcome.decided_at).total_seconds())
    return 0.0


def _json(headers: Sequence[tuple[str, str]]) -> str:
    return orjson.dumps(headers).decode()
