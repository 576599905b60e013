"""The first page: is it healthy, in one glance? Rates from the rollups, what is owed from the deliveries themselves."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import redis.exceptions
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from deliveries import bell, pulse
from deliveries.browse import causes
from deliveries.console import chart, statistics
from deliveries.console.page import render
from deliveries.models import Pulse, Replay, ReplayStatus
from subscriptions.models import Lane

# Backlogs are counted up to here in all, but for a thousand at least of each endpoint; so many endpoints are looked at.
_UP_TO = 200_000
_ENDPOINTS = 500
_SILENT_AFTER = timedelta(seconds=20)

READ_BACKLOG = """
    WITH RECURSIVE found AS (
        (
            SELECT endpoint_id FROM deliveries_delivery
            WHERE state = 'pending' AND NOT blocked ORDER BY endpoint_id LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT later.endpoint_id FROM deliveries_delivery later
            WHERE later.state = 'pending' AND NOT later.blocked AND later.endpoint_id > found.endpoint_id
            ORDER BY later.endpoint_id LIMIT 1
        )
        FROM found WHERE found.endpoint_id IS NOT NULL
    ), owed AS (
        SELECT endpoint.id,
            endpoint.status = 'active' AND endpoint.deleted_at IS NULL AND lane.opens_at <= now() AND NOT EXISTS (
                SELECT FROM subscriptions_hold held
                WHERE held.consumer_id IS NULL OR held.consumer_id = endpoint.consumer_id
            ) AS may_go
        FROM (SELECT endpoint_id FROM found WHERE endpoint_id IS NOT NULL LIMIT %(endpoints)s) found
        JOIN subscriptions_endpoint endpoint ON endpoint.id = found.endpoint_id
        JOIN subscriptions_lane lane ON lane.endpoint_id = endpoint.id
    ), share AS MATERIALIZED (
        SELECT greatest(1000, %(up_to)s / greatest(1, count(*))) AS up_to, count(*) >= %(endpoints)s AS is_more
        FROM owed
    )
    SELECT coalesce(sum(due.count) FILTER (WHERE owed.may_go), 0),
        coalesce(sum(due.count) FILTER (WHERE NOT owed.may_go), 0), coalesce(sum(later.count), 0),
        min(first.due_at) FILTER (WHERE owed.may_go AND first.due_at <= now()),
        coalesce(bool_or(due.count >= share.up_to OR later.count >= share.up_to OR share.is_more), false),
        count(*) FILTER (WHERE NOT owed.may_go AND due.count > 0)
    FROM owed CROSS JOIN share
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = owed.id AND state = 'pending' AND NOT blocked AND due_at <= now() LIMIT share.up_to
        ) _
    ) due
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = owed.id AND state = 'pending' AND NOT blocked AND due_at > now() LIMIT share.up_to
        ) _
    ) later
    CROSS JOIN LATERAL (
        SELECT min(due_at) AS due_at FROM deliveries_delivery
        WHERE endpoint_id = owed.id AND state = 'pending' AND NOT blocked
    ) first
"""
"""What is owed: due and free to go, due but parked, due later; the due time of the oldest that is free to go."""

READ_PUMPS = """
    SELECT lease.worker, lease.started_at, lease.expires_at > now(), count(delivery.id)
    FROM deliveries_lease lease
    LEFT JOIN deliveries_delivery delivery ON delivery.state = 'in_flight' AND delivery.leased_by = lease.id
    GROUP BY lease.id
    -- Of a dead worker's lease only what it still holds is news; the sweep takes that within seconds.
    HAVING lease.expires_at > now() OR count(delivery.id) > 0
    ORDER BY lease.worker
"""
"""The pumps at work, whether their leases hold, and what each has in flight."""


@dataclass(frozen=True)
class Backlog:
    due: int
    parked: int
    later: int
    oldest_due_at: datetime | None
    is_more: bool
    parked_endpoints: int


def show(request: HttpRequest) -> HttpResponse:
    span = statistics.RANGES.get(request.GET.get("range", ""), statistics.RANGES["1h"])
    now = timezone.now()
    entries = statistics.series(span)
    total = statistics.total(entries)
    reasons = causes.reasons()
    backlog, pumps, processes, broker = _backlog(), _pumps(), _processes(now), _broker()
    minutes = entries if span.name == "1h" else statistics.series(statistics.RANGES["1h"])
    oldest_age = (now - backlog.oldest_due_at).total_seconds() if backlog.oldest_due_at else 0.0
    return render(
        request,
        "overview.html",
        title="Overview",
        span=span,
        ranges=statistics.RANGES.values(),
        total=total,
        p50=total.latency(0.5),
        p95=total.latency(0.95),
        p99=total.latency(0.99),
        # The minute before this one: it is whole.
        minute=minutes[-2],
        traffic=chart.traffic(entries, span),
        times=chart.times(entries, span, of="latency"),
        backlog=backlog,
        oldest_age=oldest_age,
        pumps=pumps,
        in_flight=sum(pump["in_flight"] for pump in pumps),
        processes=processes,
        broker=broker,
        dead=_by_reason(reasons),
        dead_total=sum(count for _, count in reasons),
        dead_capped=any(count >= causes.COUNTED_UP_TO for _, count in reasons),
        worst=statistics.worst_endpoints(span),
        breakers=Lane.objects.filter(breaker_open=True, endpoint__deleted_at__isnull=True).count(),
        running=Replay.objects.filter(status=ReplayStatus.RUNNING).order_by("-id")[:5],
        alarms=_alarms(processes, broker=broker, oldest_age=oldest_age),
        now=now,
    )


def _backlog() -> Backlog:
    with connection.cursor() as cursor:
        cursor.execute(READ_BACKLOG, {"up_to": _UP_TO, "endpoints": _ENDPOINTS})
        row = cursor.fetchone()
    assert row is not None
    return Backlog(int(row[0]), int(row[1]), int(row[2]), row[3], row[4], row[5])


def _pumps() -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(READ_PUMPS)
        names = ("worker", "started_at", "is_alive", "in_flight")
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _processes(now: datetime) -> list[dict[str, Any]]:
    """Beat is listed whether it was ever heard or not: nothing is swept, replayed or announced without it."""
    heard = {row.name: row for row in Pulse.objects.order_by("name")}
    names = [pulse.BEAT, *(name for name in heard if name != pulse.BEAT)]
    return [
        {
            "name": name,
            "at": heard[name].at if name in heard else None,
            "is_alive": name in heard and now - heard[name].at < _SILENT_AFTER,
        }
        for name in names
    ]


def _broker() -> dict[str, Any]:
    client = bell.connect()
    try:
        info: Any = client.info("memory")
        return {"is_alive": True, "waiting": client.zcard(bell.READY), "memory": info["used_memory"]}
    except (redis.exceptions.RedisError, OSError):
        return {"is_alive": False}
    finally:
        client.close()


def _by_reason(reasons: list[tuple[str, int]]) -> list[dict[str, Any]]:
    most = max([count for _, count in reasons], default=1)
    return [
        {
            "reason": reason,
            "count": count,
            "is_more": count >= causes.COUNTED_UP_TO,
            "share": max(1, 100 * count // most),
        }
        for reason, count in reasons
    ]


def _alarms(processes: list[dict[str, Any]], *, broker: dict[str, Any], oldest_age: float) -> list[str]:
    """What somebody should look at now, each with where to begin."""
    alarms = []
    silent = [process["name"] for process in processes if not process["is_alive"]]
    if silent:
        alarms.append(f"No sign of life from {', '.join(silent)}. Look at that process and its log.")
    if not any(name["name"].startswith("deliveries") for name in processes if name["is_alive"]):
        alarms.append("No delivery worker is alive: events are accepted and kept, but nothing goes out. Start one.")
    if not broker["is_alive"]:
        alarms.append("The broker does not answer. Running workers go on from the database; start it again soon.")
    if oldest_age > 30:
        alarms.append("Deliveries that are free to go have been due for more than 30 s: add delivery workers.")
    return alarms
