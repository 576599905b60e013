"""Dead letters by endpoint and reason: ten thousand of them usually have one cause.

Of certain endpoints, the reasons are found by skipping through an index, and each is counted up to a limit. Of
everybody, or by what no index knows, the newest are grouped, as many as the window holds, and the answer says so.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from deliveries.browse.filter import Filter
from deliveries.browse.source import Source, fetch, source
from deliveries.sql.fragments import DEAD
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.models import Endpoint

COUNTED_UP_TO = 10_000

COUNT_OF_ENDPOINTS = f"""
    SELECT owner.endpoint_id, found.dead_reason, counted.count, counted.newest
    FROM unnest(%(endpoint_ids)s::uuid[]) AS owner (endpoint_id)
    CROSS JOIN LATERAL (
        WITH RECURSIVE reason AS (
            (
                SELECT dead_reason FROM deliveries_delivery
                WHERE state = {DEAD} AND endpoint_id = owner.endpoint_id ORDER BY dead_reason LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT dead_reason FROM deliveries_delivery
                WHERE state = {DEAD} AND endpoint_id = owner.endpoint_id AND dead_reason > reason.dead_reason
                ORDER BY dead_reason LIMIT 1
            )
            FROM reason WHERE reason.dead_reason IS NOT NULL
        )
        SELECT dead_reason FROM reason WHERE dead_reason IS NOT NULL
    ) found
    CROSS JOIN LATERAL (
        SELECT count(*), (array_agg(id))[1] AS newest FROM (
            SELECT id FROM deliveries_delivery
            WHERE state = {DEAD} AND endpoint_id = owner.endpoint_id AND dead_reason = found.dead_reason
                AND id >= %(first)s AND id < %(last)s
            ORDER BY id DESC LIMIT %(up_to)s
        ) newest
    ) counted
    WHERE counted.count > 0 AND (%(reason)s::text IS NULL OR found.dead_reason = %(reason)s::text)
    ORDER BY counted.count DESC, owner.endpoint_id
"""
"""The reasons of certain endpoints' dead letters, how many of each up to a limit, and the newest one's id."""

COUNT_REASONS = f"""
    WITH RECURSIVE reason AS (
        (SELECT dead_reason FROM deliveries_delivery WHERE state = {DEAD} ORDER BY dead_reason LIMIT 1)
        UNION ALL
        SELECT (
            SELECT dead_reason FROM deliveries_delivery
            WHERE state = {DEAD} AND dead_reason > reason.dead_reason ORDER BY dead_reason LIMIT 1
        )
        FROM reason WHERE reason.dead_reason IS NOT NULL
    )
    SELECT dead_reason, (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery WHERE state = {DEAD} AND dead_reason = reason.dead_reason LIMIT %(up_to)s
        ) counted
    )
    FROM reason WHERE dead_reason IS NOT NULL
"""
"""Every reason there is among the dead letters, and how many died of it, up to a limit."""

COMMON_ERRORS = f"""
    SELECT pair.endpoint_id, pair.reason, mode() WITHIN GROUP (ORDER BY attempt.error_kind)
    FROM unnest(%(endpoint_ids)s::uuid[], %(reasons)s::text[]) AS pair (endpoint_id, reason)
    CROSS JOIN LATERAL (
        SELECT id, attempt_count FROM deliveries_delivery
        WHERE state = {DEAD} AND endpoint_id = pair.endpoint_id AND dead_reason = pair.reason
        ORDER BY id DESC LIMIT 20
    ) newest
    CROSS JOIN LATERAL (
        SELECT error_kind FROM deliveries_attempt WHERE delivery_id = newest.id AND number = newest.attempt_count
    ) attempt
    GROUP BY pair.endpoint_id, pair.reason
"""
"""How the last attempts of each group's newest dead letters mostly ended."""


@dataclass
class CauseGroup:
    endpoint: Endpoint
    reason: str
    count: int
    newest: UUID
    is_more: bool = False
    error_kind: str | None = None

    @property
    def newest_at(self) -> datetime:
        return ids.made_at(self.newest)


@dataclass(frozen=True)
class Causes:
    groups: list[CauseGroup]
    total: int
    # The total is what was counted; there are more.
    is_more: bool
    # Only the newest so many were looked at; None if all were.
    looked_at: int | None = None


def causes(wanted: Filter, *, limit: int = 20) -> Causes:
    """The largest groups, most first. Of dead letters, whatever state the filter names."""
    wanted = replace(wanted, state=DeliveryState.DEAD)
    found = source(wanted)
    if found.endpoint_ids is None or found.narrow or found.is_few:
        return _among_the_newest(found, limit=limit)
    rows = fetch(
        COUNT_OF_ENDPOINTS,
        {
            "endpoint_ids": found.endpoint_ids,
            "first": ids.first_at(wanted.since) if wanted.since else UUID(int=0),
            "last": ids.first_at(wanted.until) if wanted.until else UUID(int=2**128 - 1),
            "up_to": COUNTED_UP_TO,
            "reason": wanted.dead_reason,
        },
    )
    full = [row[2] >= COUNTED_UP_TO for row in rows]
    groups = _groups([(*row, is_more) for row, is_more in zip(rows, full, strict=True)][:limit])
    return Causes(groups, sum(row[2] for row in rows), any(full))


def reasons() -> list[tuple[str, int]]:
    """Every reason in use and how many died of it, counted up to COUNTED_UP_TO, most first."""
    return sorted(fetch(COUNT_REASONS, {"up_to": COUNTED_UP_TO}), key=lambda row: (-row[1], row[0]))


def _among_the_newest(found: Source, *, limit: int) -> Causes:
    # Before PostgreSQL 18 there is no greatest of uuids; their text sorts the same.
    statement = f"""
        SELECT c.endpoint_id, c.dead_reason, count(*) FILTER (WHERE {" AND ".join(found.narrow) or "true"}) AS matched,
            max(c.id::text)::uuid, count(*)
        FROM ({found.candidates(take=found.window)}) c
        GROUP BY c.endpoint_id, c.dead_reason ORDER BY matched DESC, c.endpoint_id
    """
    rows = fetch(statement, found.given)
    is_more = sum(row[4] for row in rows) >= found.window
    groups = _groups([(*row[:4], False) for row in rows if row[2]][:limit])
    return Causes(groups, sum(row[2] for row in rows), is_more, found.window if is_more else None)


def _groups(rows: list[tuple[Any, ...]]) -> list[CauseGroup]:
    if not rows:
        return []
    found = Endpoint.objects.select_related("consumer", "lane").in_bulk([row[0] for row in rows])
    groups = [CauseGroup(found[row[0]], *row[1:]) for row in rows]
    pairs = {"endpoint_ids": [group.endpoint.id for group in groups], "reasons": [group.reason for group in groups]}
    kinds = {(row[0], row[1]): row[2] for row in fetch(COMMON_ERRORS, pairs)}
    for group in groups:
        group.error_kind = kinds.get((group.endpoint.id, group.reason))
    return groups
