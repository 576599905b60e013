"""The first page: is it healthy, in one glance? Rates from the rollups, what is owed from the deliveries themselves."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import redis.exceptions
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse

from deliveries import bell
from deliveries.browse import causes
from deliveries.browse.backlog import Owed, WaitReason, read_backlog
from deliveries.console import waiting
from deliveries.console.page import render
from deliveries.pages import chart
from deliveries.replaying.models import Replay, ReplayStatus
from deliveries.sql import clock
from deliveries.sql.fragments import IN_FLIGHT
from deliveries.statistics import deltas, figures, totals
from deliveries.upkeep import heartbeat
from deliveries.upkeep.models import Pulse
from subscriptions.models import Endpoint, Lane

_SILENT_AFTER = timedelta(seconds=20)
# The results as /metrics names them, and what each means.
_IDEMPOTENCY = {
    "new": "first use of a key: the work was done",
    "replayed": "the same request again: answered with the stored answer",
    "reused": "the key with another body: refused with 409",
    "in_progress": "the first request was still under way: refused with 409",
}

READ_PUMPS = f"""
    SELECT lease.worker, lease.started_at, lease.expires_at > now(), count(delivery.id)
    FROM deliveries_lease lease
    LEFT JOIN deliveries_delivery delivery ON delivery.state = {IN_FLIGHT} AND delivery.leased_by = lease.id
    GROUP BY lease.id
    -- Of a dead worker's lease only what it still holds is news; the sweep takes that within seconds.
    HAVING lease.expires_at > now() OR count(delivery.id) > 0
    ORDER BY lease.worker
"""
"""The pumps at work, whether their leases hold, and what each has in flight."""


def show(request: HttpRequest) -> HttpResponse:
    span = figures.RANGES.get(request.GET.get("range", ""), figures.RANGES["1h"])
    now = clock.now()
    entries = figures.series(span)
    total = figures.total(entries)
    reasons = causes.reasons()
    backlog, pumps, processes, broker = read_backlog(), _pumps(), _processes(now), _broker()
    late = waiting.late(backlog, now=now)
    late_groups = waiting.groups(late, slow=_slow(late))
    in_flight = sum(pump["in_flight"] for pump in pumps)
    slots = settings.DELIVERY_CONCURRENCY * sum(pump["is_alive"] for pump in pumps)
    minutes = entries if span.name == "1h" else figures.series(figures.RANGES["1h"])
    oldest_age = (now - backlog.oldest_due_at).total_seconds() if backlog.oldest_due_at else 0.0
    return render(
        request,
        "overview.html",
        title="Overview",
        span=span,
        ranges=figures.RANGES.values(),
        total=total,
        p50=total.latency(0.5),
        p95=total.latency(0.95),
        p99=total.latency(0.99),
        # The minute before this one: it is whole.
        minute=minutes[-2],
        traffic=chart.traffic(entries, span),
        times=chart.times(entries, span, of="latency"),
        idempotency=_idempotency(span, now=now),
        backlog=backlog,
        oldest_age=oldest_age,
        pumps=pumps,
        in_flight=in_flight,
        processes=processes,
        broker=broker,
        dead=_by_reason(reasons),
        dead_total=sum(count for _, count in reasons),
        dead_capped=any(count >= causes.COUNTED_UP_TO for _, count in reasons),
        worst=figures.worst_endpoints(span),
        breakers=Lane.objects.filter(breaker_open=True, endpoint__deleted_at__isnull=True).count(),
        running=Replay.objects.filter(status=ReplayStatus.RUNNING).order_by("-id")[:5],
        late=_with_endpoints(late_groups),
        late_endpoints=len(late),
        alarms=_alarms(processes, broker=broker, workers=waiting.worker_alarm(late, in_flight=in_flight, slots=slots)),
        now=now,
    )


def _idempotency(span: figures.Range, *, now: datetime) -> list[dict[str, Any]]:
    """What /metrics counts of Idempotency-Keys, by the hour: how many requests, and their share."""
    found: Counter[str] = Counter()
    for label, count in totals.by_hour(deltas.IDEMPOTENCY, since=now - span.length).items():
        found[label.partition(" ")[0]] += count
    whole = sum(found.values())
    return [
        {"name": name, "meaning": meaning, "count": found[name], "share": found[name] / whole}
        for name, meaning in _IDEMPOTENCY.items()
        if whole
    ]


def _pumps() -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(READ_PUMPS)
        names = ("worker", "started_at", "is_alive", "in_flight")
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _processes(now: datetime) -> list[dict[str, Any]]:
    """Beat is listed whether it was ever heard or not: nothing is swept, replayed or announced without it."""
    heard = {row.name: row for row in Pulse.objects.order_by("name")}
    names = [heartbeat.BEAT, *(name for name in heard if name != heartbeat.BEAT)]
    return [
        {
            "name": name,
            "at": heard[name].at if name in heard else None,
            "is_alive": name in heard and now - heard[name].at < _SILENT_AFTER,
            "clock_ahead": heard[name].clock_ahead_ms / 1000 if name in heard else 0.0,
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


def _with_endpoints(late: Sequence[waiting.WaitGroup]) -> list[tuple[waiting.WaitGroup, list[Endpoint]]]:
    wanted = [endpoint_id for group in late for endpoint_id in group.endpoint_ids]
    found = Endpoint.objects.select_related("consumer").in_bulk(wanted) if wanted else {}
    return [(group, [found[each] for each in group.endpoint_ids if each in found]) for group in late]


def _slow(late: Sequence[Owed]) -> set[UUID]:
    """Of the endpoints at their concurrency limit, those whose answers took long in the last hour."""
    full = [owed.endpoint_id for owed in late if owed.wait is WaitReason.FULL]
    medians = figures.median_durations(full, span=figures.RANGES["1h"]) if full else {}
    return {
        endpoint_id for endpoint_id in full
        # No answer in the last hour: every one of its requests is still waiting for one.
        if (medians.get(endpoint_id) or waiting.SLOW_FROM_MS) >= waiting.SLOW_FROM_MS
    }  # fmt: skip


def _alarms(processes: list[dict[str, Any]], *, broker: dict[str, Any], workers: str | None) -> list[str]:
    """What somebody should look at now, each with where to begin."""
    alarms = []
    silent = [process["name"] for process in processes if not process["is_alive"]]
    has_worker = any(name["name"].startswith("deliveries") for name in processes if name["is_alive"])
    if silent:
        alarms.append(f"No sign of life from {', '.join(silent)}. Look at that process and its log.")
    alarms += [
        f"The clock of {process['name']} differs from the database's by {process['clock_ahead']:+.1f} s."
        " Look at time synchronisation on that machine."
        for process in processes
        if process["is_alive"] and abs(process["clock_ahead"]) > clock.TOLERATED_SECONDS
    ]
    if not has_worker:
        alarms.append("No delivery worker is alive: events are accepted and kept, but nothing goes out. Start one.")
    if not broker["is_alive"]:
        alarms.append("The broker does not answer. Running workers go on from the database; start it again soon.")
    if workers and has_worker:
        alarms.append(workers)
    return alarms
