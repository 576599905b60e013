"""A drain: workers start, warm up on a few deliveries, and then empty a backlog that appears all at once.

Fair to both sides: starting up is no part of the figure (nor is it of the bare loop's), connections are made and
statements prepared once per turn, and CPU is read just before the first delivery and just after the last.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg

from benchmarks.preload import Target, add_waiting, database, ring
from benchmarks.stand import Failed, Stand

WARM_UP = 400
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

RESULT = """
    SELECT count(*) FILTER (WHERE delivery.state = 'delivered'),
        extract(epoch FROM max(delivery.finished_at) - min(attempt.started_at))::float8
    FROM deliveries_delivery delivery JOIN deliveries_attempt attempt ON attempt.delivery_id = delivery.id
    WHERE delivery.id > %(mark)s AND delivery.endpoint_id = ANY (%(ids)s)
"""
"""How many of a drain's deliveries arrived, and the seconds from its first attempt to its last settled delivery."""


@dataclass(frozen=True, slots=True)
class Drained:
    rate: float
    # Milliseconds of CPU per delivery: worker, postgres, redis, receiver.
    cpu_ms: dict[str, float]
    # Of the first worker, at the end.
    memory_mib: float

    @property
    def system_cpu_ms(self) -> float:
        return sum(self.cpu_ms[part] for part in ("worker", "postgres", "redis"))


def drain(
    bench: Stand,
    targets: Sequence[Target],
    *,
    count: int,
    workers: int,
    beside: Sequence[Target] = (),
    database_name: str = "webhooks",
) -> Drained:
    """`count` deliveries shared out among the targets; as many for each one `beside`, which nobody waits for."""
    each = max(1, count // len(targets))
    with database(bench, database_name) as connection, at_work(bench, connection, targets, workers, database_name):
        with connection.transaction():
            if beside:
                add_waiting(connection, beside, each=each)
            mark = add_waiting(connection, targets, each=each)
        before = bench.cpu()
        ring([*targets, *beside])
        _wait_until_drained(bench, connection, targets)
        after = bench.cpu()
        memory = bench.memory_mib("deliveries1")
        done, seconds = result(connection, mark, targets)
    if done != each * len(targets):
        raise Failed(f"{done} of {each * len(targets)} deliveries arrived.")
    cpu = {part: 1000 * (after[part] - before[part]) / done for part in ("worker", "postgres", "redis", "receiver")}
    return Drained(rate=done / seconds, cpu_ms=cpu, memory_mib=memory)


@contextmanager
def at_work(
    bench: Stand,
    connection: psycopg.Connection,
    targets: Sequence[Target],
    workers: int,
    database_name: str = "webhooks",
    **settings: str,
) -> Iterator[None]:
    """So many delivery workers, each with its pump running and warm; killed at the end, which loses nothing here."""
    names = [f"deliveries{number}" for number in range(1, workers + 1)]
    connection.execute("DELETE FROM deliveries_lease")
    url = bench.postgres.url.replace("/webhooks?", f"/{database_name}?")
    bench.start(*names, DATABASE_URL=url, **settings)
    try:
        bench.wait_until(lambda: _pumps_running(connection) >= workers, seconds=60, what=f"{workers} pumps", every=0.25)
        each = max(1, WARM_UP // len(targets))
        add_waiting(connection, targets, each=each)
        ring(targets)
        _wait_until_drained(bench, connection, targets)
        yield
    finally:
        bench.stop(*names, now=True)


class Watch:
    """Looks at a few endpoints at a time, and not again at those with nothing left.

    What it costs to look is part of what is measured: counting finished rows was a quarter of PostgreSQL's time.
    """

    def __init__(self, connection: psycopg.Connection, targets: Sequence[Target]) -> None:
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


def _wait_until_drained(bench: Stand, connection: psycopg.Connection, targets: Sequence[Target]) -> None:
    watch = Watch(connection, targets)
    bench.wait_until(watch.is_drained, seconds=300, what="the last delivery", every=0.25)


def _pumps_running(connection: psycopg.Connection) -> int:
    """A worker may take a message meant for another one, so they are sent until every worker has a pump running."""
    from deliveries.tasks import deliver_due

    [[running]] = connection.execute("SELECT count(*) FROM deliveries_lease").fetchall()
    deliver_due.apply_async(expires=1)
    return int(running)


def result(connection: psycopg.Connection, mark: UUID, targets: Sequence[Target]) -> tuple[int, float]:
    ids = [target.endpoint_id for target in targets]
    [[done, seconds]] = connection.execute(RESULT, {"mark": mark, "ids": ids}).fetchall()
    return int(done), float(seconds or 1)
