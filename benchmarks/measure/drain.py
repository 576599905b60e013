"""A drain: workers start, warm up on a few deliveries, and then empty a backlog that appears all at once.

Fair to both sides: starting up is no part of the figure (nor is it of the bare loop's), connections are made and
statements prepared once per turn. The clock starts just before the bell rings and stops when a look finds everything
settled. CPU is read until the workers have ended and the tables are vacuumed, so that a drain pays for its statistics
and for its own garbage, and not for what an earlier one left behind.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg

from benchmarks.load.preload import PreloadedEndpoint, add_waiting, database, ring
from benchmarks.stand import Failed, Stand

# Deliveries, whatever the number of endpoints.
WARM_UP = 400
LOOK_SECONDS = 0.05
SYSTEM = ("worker", "postgres", "redis")
# Endpoints looked at together while waiting for the end.
WATCHED_AT_ONCE = 100

HAS_LIVE = """
    SELECT EXISTS (
        SELECT FROM unnest(%(ids)s::uuid[]) AS target (id) CROSS JOIN LATERAL (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = target.id AND state = 'pending' AND NOT blocked
            -- The order of the index `delivery_due`, so that no plan reads what is finished.
            ORDER BY due_at, id LIMIT 1
        ) pending
    ) OR EXISTS (
        SELECT FROM unnest(%(ids)s::uuid[]) AS target (id) CROSS JOIN LATERAL (
            SELECT FROM deliveries_delivery
            WHERE endpoint_id = target.id AND state = 'in_flight'
            ORDER BY endpoint_id LIMIT 1
        ) in_flight
    )
"""

DELIVERED = """
    SELECT count(*) FROM deliveries_delivery
    WHERE id > %(mark)s AND endpoint_id = ANY (%(ids)s) AND state = 'delivered'
"""
"""How many of a drain's deliveries were delivered."""

# What deliveries update. Their events are the way in's: a drain only reads those.
VACUUM = "VACUUM deliveries_delivery, deliveries_attempt, deliveries_tally, subscriptions_lane"
# A worker told to stop waits so long for requests that are never answered. All others have been by then.
SOON = {"DELIVERY_DRAIN_SECONDS": "1"}


@dataclass(frozen=True, slots=True)
class Drained:
    rate: float
    # Milliseconds of CPU per delivery: worker, postgres, redis, receiver.
    cpu_ms: dict[str, float]
    # Of the first worker, at the end.
    memory_mib: float
    # How much of the system's CPU came after the last delivery: statistics written, workers ended, tables vacuumed.
    ending_cpu_ms: float

    @property
    def system_cpu_ms(self) -> float:
        return sum(self.cpu_ms[part] for part in SYSTEM)


def drain(
    bench: Stand,
    targets: Sequence[PreloadedEndpoint],
    *,
    count: int,
    workers: int,
    beside: Sequence[PreloadedEndpoint] = (),
    warm_up: int = WARM_UP,
    asks_receiver: bool = True,
    patience_seconds: float | None = None,
    database_name: str = "webhooks",
) -> Drained:
    """`count` deliveries shared out among the targets; as many for each one `beside`, which nobody waits for.

    With a patience, a drain that is not over by then is no failure: its rate is that of what was delivered.
    """
    each = max(1, count // len(targets))
    with (
        database(bench, database_name) as connection,
        at_work(bench, connection, targets, workers, database_name, warm_up=warm_up),
    ):
        received = bench.received() if asks_receiver else None
        connection.execute(VACUUM)
        with connection.transaction():
            if beside:
                add_waiting(connection, beside, each=each)
            mark = add_waiting(connection, targets, each=each)
            # Before the commit: once it is there, a pump's own sweep may find the work at any moment.
            before = bench.cpu()
        begun = time.perf_counter()
        ring([*targets, *beside])
        is_over = _wait_until_drained(bench, connection, targets, seconds=patience_seconds)
        seconds = time.perf_counter() - begun
        memory, last = bench.memory_mib("deliveries1"), bench.cpu()
        in_time = 0 if is_over else _delivered(connection, mark, targets)
        after = cpu_when_ended(bench, connection, workers)
        if is_over:
            _check(bench, received, done=_delivered(connection, mark, targets), owed=each * len(targets))
    done = each * len(targets) if is_over else in_time
    cpu = {part: 1000 * (after[part] - before[part]) / max(1, done) for part in (*SYSTEM, "receiver")}
    ending = 1000 * sum(after[part] - last[part] for part in SYSTEM) / max(1, done)
    return Drained(rate=done / seconds, cpu_ms=cpu, memory_mib=memory, ending_cpu_ms=ending)


def cpu_when_ended(bench: Stand, connection: psycopg.Connection, workers: int) -> dict[str, float]:
    """After everything that the work owes: statistics, which a pump writes as a whole when it ends, and the vacuum.

    What Celery itself spends on ending is in there too, about a tenth of a second for each worker, on every side alike.
    """
    bench.finish(*_names(workers))
    connection.execute(VACUUM)
    return bench.cpu()


def _check(bench: Stand, received: int | None, *, done: int, owed: int) -> None:
    """What the ledger says was delivered is all there was, and what the receiver saw, once each."""
    if done != owed:
        raise Failed(f"{done} of {owed} deliveries arrived.")
    now = bench.received()
    if received is not None and now is not None and now - received != done:
        raise Failed(f"{done} deliveries, but the receiver counted {now - received} requests.")


@contextmanager
def at_work(
    bench: Stand,
    connection: psycopg.Connection,
    targets: Sequence[PreloadedEndpoint],
    workers: int,
    database_name: str = "webhooks",
    *,
    warm_up: int = WARM_UP,
    **settings: str,
) -> Iterator[None]:
    """So many delivery workers, each with its pump running and warm; those that have not ended by then are killed."""
    names = _names(workers)
    connection.execute("DELETE FROM deliveries_lease")
    url = bench.postgres.url.replace("/webhooks?", f"/{database_name}?")
    bench.start(*names, DATABASE_URL=url, **SOON, **settings)
    try:
        bench.wait_until(lambda: _pumps_running(connection) >= workers, seconds=60, what=f"{workers} pumps", every=0.25)
        first = targets[:warm_up]
        add_waiting(connection, first, each=warm_up // len(first))
        ring(first)
        _wait_until_drained(bench, connection, first)
        yield
    finally:
        bench.stop(*names, now=True)


def _names(workers: int) -> list[str]:
    return [f"deliveries{number}" for number in range(1, workers + 1)]


class DrainWatch:
    """Looks at a few endpoints at a time, and not again at those with nothing left.

    What it costs to look is part of what is measured: counting finished rows was a quarter of PostgreSQL's time.
    """

    def __init__(self, connection: psycopg.Connection, targets: Sequence[PreloadedEndpoint]) -> None:
        self._connection = connection
        ids = [target.endpoint_id for target in targets]
        self._left = [ids[start : start + WATCHED_AT_ONCE] for start in range(0, len(ids), WATCHED_AT_ONCE)]

    def is_drained(self) -> bool:
        while self._left:
            [[live]] = self._connection.execute(HAS_LIVE, {"ids": self._left[-1]}).fetchall()
            if live:
                return False
            self._left.pop()
        return True


def _wait_until_drained(
    bench: Stand, connection: psycopg.Connection, targets: Sequence[PreloadedEndpoint], *, seconds: float | None = None
) -> bool:
    """Whether it was, within so many seconds; without any, it must be."""
    watch, deadline = DrainWatch(connection, targets), time.monotonic() + (seconds or 300)
    is_over = False

    def is_enough() -> bool:
        nonlocal is_over
        is_over = watch.is_drained()
        return is_over or (seconds is not None and time.monotonic() > deadline)

    bench.wait_until(is_enough, seconds=(seconds or 300) + 10, what="the last delivery", every=LOOK_SECONDS)
    return is_over


def _pumps_running(connection: psycopg.Connection) -> int:
    """A worker may take a message meant for another one, so they are sent until every worker has a pump running."""
    from deliveries.tasks import deliver_due

    [[running]] = connection.execute("SELECT count(*) FROM deliveries_lease").fetchall()
    deliver_due.apply_async(expires=1)
    return int(running)


def _delivered(connection: psycopg.Connection, mark: UUID, targets: Sequence[PreloadedEndpoint]) -> int:
    ids = [target.endpoint_id for target in targets]
    [[done]] = connection.execute(DELIVERED, {"mark": mark, "ids": ids}).fetchall()
    return int(done)
