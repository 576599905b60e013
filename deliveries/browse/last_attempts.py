"""How the last attempt of each delivery on a page ended: one statement for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from deliveries.browse.source import fetch
from deliveries.models import Delivery

LAST_ATTEMPTS = """
    SELECT row.id, attempt.status_code, attempt.error_kind, attempt.error_detail, attempt.duration_ms
    FROM unnest(%(ids)s::uuid[], %(counts)s::int[]) AS row (id, attempt_count)
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries_attempt
        WHERE delivery_id = row.id AND number <= row.attempt_count ORDER BY number DESC LIMIT 1
    ) attempt
"""
"""The newest attempt on record of each delivery: one step into the index each. Of one in flight, the one before."""


@dataclass(frozen=True, slots=True)
class LastAttempt:
    status_code: int | None
    error_kind: str | None
    error_detail: str | None
    duration_ms: int


def last_attempts(rows: Sequence[Delivery]) -> dict[UUID, LastAttempt]:
    """None for those that were not attempted yet, or whose attempts are forgotten."""
    if not rows:
        return {}
    given = {"ids": [row.id for row in rows], "counts": [row.attempt_count for row in rows]}
    return {row[0]: LastAttempt(*row[1:]) for row in fetch(LAST_ATTEMPTS, given)}
