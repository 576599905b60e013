"""deliver: preloaded deliveries drained by one and by two workers, beside the bare loop with as many processes."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.stand import Stand, wait_until


def bare(stand: Stand, *, processes: int, count: int, at_once: int, size: int) -> dict[str, float]:
    each = count // processes
    arguments = [f"{stand.receiver_url}/bare", str(each), str(at_once), str(size)]
    command = [sys.executable, "-m", "benchmarks.bare", *arguments]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    results = [json.loads(process.communicate(timeout=300)[0]) for process in running]
    seconds = max(result["seconds"] for result in results)
    return {
        "rate": each * processes / seconds,
        "cpu_ms": 1000 * sum(result["cpu"] for result in results) / (each * processes),
    }


def preload(stand: Stand, *, name: str, endpoints: int, events: int, size: int, paused: bool = False) -> None:
    """One consumer per endpoint, each with so many events waiting."""
    from django.db import transaction
    from django.utils import timezone

    from deliveries import ingest
    from deliveries.ingest import NewEvent
    from subscriptions import consumers
    from subscriptions import endpoints as endpoint_functions

    for number in range(endpoints):
        consumer = consumers.create(uid=f"{name}-{number}")
        endpoint_functions.create(consumer=consumer, url=f"{stand.receiver_url}/{name}/{number}", max_in_flight=100)
    filler = {"filler": "x" * max(0, size - 150)}
    waiting = [
        NewEvent(consumer=f"{name}-{number}", type="bench.event", data=filler)
        for _ in range(events)
        for number in range(endpoints)
    ]
    for start in range(0, len(waiting), 1000):
        with transaction.atomic():
            ingest.accept(waiting[start : start + 1000], now=timezone.now())


def drain(stand: Stand, *, workers: int, count: int) -> dict[str, Any]:
    """Rate from the first attempt to the last settled delivery, and CPU time per delivery."""
    from django.db import connection

    def rows(query: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchone()

    since = rows("SELECT now()")[0].isoformat()
    names = [f"deliveries{number}" for number in range(1, workers + 1)]
    stand.start(*names)
    for name in names:
        wait_until(lambda name=name: "[queues]" in stand.folder.log(name).read_text(), seconds=60)  # type: ignore[misc]
    before = stand.cpu()
    from deliveries.tasks import deliver_due

    for _ in names:
        deliver_due.apply_async()
    live = "SELECT count(*) FROM deliveries_delivery WHERE state IN ('pending', 'in_flight')"
    wait_until(lambda: rows(live)[0] == 0, seconds=300)
    after = stand.cpu()
    stand.stop(*names)
    [done, seconds] = rows(
        "SELECT count(*), extract(epoch FROM max(delivery.finished_at) - min(attempt.started_at))::float8 "
        "FROM deliveries_delivery delivery JOIN deliveries_attempt attempt ON attempt.delivery_id = delivery.id "
        f"WHERE delivery.state = 'delivered' AND delivery.finished_at > '{since}'"
    )
    assert done == count, f"{done} of {count} delivered"
    cpu = {part: 1000 * (after[part] - before[part]) / count for part in ("worker", "postgres", "redis")}
    return {"rate": count / seconds, "cpu_ms": cpu}
