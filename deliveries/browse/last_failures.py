"""How the newest failed attempt of certain endpoints ended: the cause that is told beside an endpoint that fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from deliveries.browse.source import fetch
from deliveries.sql.fragments import DEAD, PENDING
from subscriptions import ids

LAST_FAILURES = f"""
    SELECT owner.id, last.delivery_id, last.status_code, last.error_kind, last.error_detail, last.started_at
    FROM unnest(%(endpoint_ids)s::uuid[]) AS owner (id) CROSS JOIN LATERAL (
        SELECT attempt.* FROM (
            (SELECT id, attempt_count FROM deliveries_delivery
                WHERE state = {DEAD} AND endpoint_id = owner.id ORDER BY id DESC LIMIT 10)
            UNION
            (SELECT id, attempt_count FROM deliveries_delivery
                WHERE state = {PENDING} AND NOT blocked AND endpoint_id = owner.id ORDER BY due_at LIMIT 10)
            UNION
            (SELECT id, attempt_count FROM deliveries_delivery
                WHERE state = {PENDING} AND NOT blocked AND endpoint_id = owner.id ORDER BY due_at DESC LIMIT 10)
        ) near
        CROSS JOIN LATERAL (
            SELECT * FROM deliveries_attempt
            WHERE delivery_id = near.id AND number <= near.attempt_count ORDER BY number DESC LIMIT 1
        ) attempt
        WHERE near.attempt_count > 0 AND attempt.error_kind IS NOT NULL ORDER BY attempt.started_at DESC LIMIT 1
    ) last
"""
"""Of each endpoint, the newest failed attempt among its newest dead letters and both ends of what it is owed: a few
steps into an index each, however much that is."""


@dataclass(frozen=True, slots=True)
class LastFailure:
    delivery_id: UUID
    status_code: int | None
    error_kind: str | None
    error_detail: str | None
    started_at: datetime

    @property
    def delivery(self) -> str:
        return ids.show("dlv", self.delivery_id)


def last_failures(endpoint_ids: Sequence[UUID]) -> dict[UUID, LastFailure]:
    if not endpoint_ids:
        return {}
    rows = fetch(LAST_FAILURES, {"endpoint_ids": list(endpoint_ids)})
    return {endpoint_id: LastFailure(*failure) for endpoint_id, *failure in rows}
