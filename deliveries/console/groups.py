"""Dead letters by endpoint and reason: ten thousand of them usually have one cause.

Groups are found by skipping through an index, one step per group, and each is counted up to a limit, so the page costs
the same with a thousand dead letters and with ten million.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, Max, TextField
from django.db.models.functions import Cast

from deliveries.replay import Filter
from subscriptions import ids
from subscriptions.models import Endpoint

COUNTED_UP_TO = 10_000
_MOST_GROUPS = 500

COUNT_GROUPS = """
    WITH RECURSIVE pair AS (
        (
            SELECT endpoint_id, dead_reason FROM deliveries_delivery
            WHERE state = 'dead' AND endpoint_id >= %(from)s ORDER BY endpoint_id, dead_reason LIMIT 1
        )
        UNION ALL
        SELECT following.endpoint_id, following.dead_reason
        FROM pair CROSS JOIN LATERAL (
            SELECT endpoint_id, dead_reason FROM deliveries_delivery
            WHERE state = 'dead' AND (endpoint_id, dead_reason) > (pair.endpoint_id, pair.dead_reason)
                AND endpoint_id <= %(to)s
            ORDER BY endpoint_id, dead_reason LIMIT 1
        ) following
    )
    SELECT pair.endpoint_id, pair.dead_reason, (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery
            WHERE state = 'dead' AND endpoint_id = pair.endpoint_id AND dead_reason = pair.dead_reason
                AND id >= %(first)s AND id < %(last)s
            LIMIT %(up_to)s
        ) counted
    ), (
        SELECT id FROM deliveries_delivery
        WHERE state = 'dead' AND endpoint_id = pair.endpoint_id AND dead_reason = pair.dead_reason
            AND id >= %(first)s AND id < %(last)s
        ORDER BY id DESC LIMIT 1
    )
    FROM (SELECT * FROM pair LIMIT %(groups)s) pair
    JOIN subscriptions_endpoint endpoint ON endpoint.id = pair.endpoint_id
    WHERE pair.endpoint_id <= %(to)s
        AND (%(consumer_id)s::uuid IS NULL OR endpoint.consumer_id = %(consumer_id)s::uuid)
        AND (%(reason)s::text IS NULL OR pair.dead_reason = %(reason)s::text)
"""
"""Endpoints and reasons with dead letters, how many up to a limit, and the newest one's id."""

COMMON_ERRORS = """
    SELECT pair.endpoint_id, pair.reason, mode() WITHIN GROUP (ORDER BY attempt.error_kind)
    FROM unnest(%(endpoint_ids)s::uuid[], %(reasons)s::text[]) AS pair (endpoint_id, reason)
    CROSS JOIN LATERAL (
        SELECT id, attempt_count FROM deliveries_delivery
        WHERE state = 'dead' AND endpoint_id = pair.endpoint_id AND dead_reason = pair.reason
        ORDER BY id DESC LIMIT 20
    ) newest
    JOIN deliveries_attempt attempt ON attempt.delivery_id = newest.id AND attempt.number = newest.attempt_count
    GROUP BY pair.endpoint_id, pair.reason
"""
"""How the last attempts of each group's newest dead letters mostly ended."""


@dataclass
class Group:
    endpoint: Endpoint
    reason: str
    count: int
    newest: UUID
    error_kind: str | None = None

    @property
    def is_more(self) -> bool:
        return self.count >= COUNTED_UP_TO

    @property
    def newest_at(self) -> Any:
        return ids.made_at(self.newest)


def find(wanted: Filter, *, limit: int = 20, with_errors: bool = True) -> tuple[list[Group], int, bool]:
    """The largest groups, how many dead letters there are in all of them, and whether there are more than that."""
    rows = _by_join(wanted) if _needs_join(wanted) else _by_skipping(wanted)
    rows = sorted((row for row in rows if row[2]), key=lambda row: -row[2])
    total, capped = sum(row[2] for row in rows), any(row[2] >= COUNTED_UP_TO for row in rows)
    shown = rows[:limit]
    found = Endpoint.objects.select_related("consumer", "lane").in_bulk([row[0] for row in shown])
    groups = [Group(found[endpoint_id], reason, count, newest) for endpoint_id, reason, count, newest in shown]
    if with_errors:
        _add_errors(groups)
    return groups, total, capped


def _needs_join(wanted: Filter) -> bool:
    narrow = (wanted.event_type, wanted.error_kind, wanted.event_id, wanted.ordering_key, wanted.delivery_ids)
    return any(each is not None for each in narrow)


def _by_skipping(wanted: Filter) -> Sequence[tuple[UUID, str, int, UUID]]:
    with connection.cursor() as cursor:
        cursor.execute(
            COUNT_GROUPS,
            {
                "first": ids.first_at(wanted.since) if wanted.since else UUID(int=0),
                "last": ids.first_at(wanted.until) if wanted.until else UUID(int=2**128 - 1),
                "up_to": COUNTED_UP_TO,
                "groups": _MOST_GROUPS,
                "from": wanted.endpoint_id or UUID(int=0),
                "to": wanted.endpoint_id or UUID(int=2**128 - 1),
                "consumer_id": wanted.consumer_id,
                "reason": wanted.dead_reason,
            },
        )
        rows: list[tuple[UUID, str, int, UUID]] = cursor.fetchall()
    return rows


def _by_join(wanted: Filter) -> Sequence[tuple[UUID, str, int, UUID]]:
    counted = (
        wanted.matching()
        .values_list("endpoint_id", "dead_reason")
        .annotate(count=Count("id"), newest=Max(Cast("id", TextField())))
    )
    # Before PostgreSQL 18 there is no greatest of uuids; their text sorts the same.
    return [(endpoint_id, reason, count, UUID(newest)) for endpoint_id, reason, count, newest in counted.order_by()]


def _add_errors(groups: list[Group]) -> None:
    if not groups:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            COMMON_ERRORS,
            {"endpoint_ids": [group.endpoint.id for group in groups], "reasons": [group.reason for group in groups]},
        )
        kinds = {(endpoint_id, reason): kind for endpoint_id, reason, kind in cursor.fetchall()}
    for group in groups:
        group.error_kind = kinds.get((group.endpoint.id, group.reason))
