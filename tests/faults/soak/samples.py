"""What the soak looks at every few seconds: lags, memory, tables, backlog."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.faults.harness.system import PROCESSES, System

EVERY_SECONDS = 5.0

COUNTS = """
    SELECT
        (SELECT count(*) FROM deliveries_delivery WHERE state = 'pending'),
        (SELECT count(*) FROM deliveries_delivery WHERE state = 'in_flight'),
        (SELECT count(*) FROM deliveries_delta),
        (SELECT count(*) FROM deliveries_lease),
        (SELECT count(*) FROM deliveries_notice WHERE announced_at IS NULL),
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
        (SELECT sum(pg_relation_size(indexrelid)) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
            WHERE relname IN ('delivery_due', 'delivery_in_flight'))::bigint,
        pg_database_size(current_database())
"""


@dataclass
class Sample:
    """One look. Lags are those of the seconds since the last look, for receivers that are well (seconds)."""

    at: float
    lags: list[float]
    requests: int
    pending: int
    in_flight: int
    deltas: int
    leases: int
    notices: int
    connections: int
    live_index_bytes: int
    database_bytes: int
    redis_bytes: int
    # By process: what it has of memory for itself (PSS, bytes), its children's included.
    memory: dict[str, int] = field(default_factory=dict)
    # How busy the machine was, all that ran on it.
    machine_load: float = 0.0


class Sampler:
    """Samples until it is stopped, in a thread."""

    def __init__(self, system: System, receivers_url: str, *, clock: Callable[[], float]) -> None:
        self._system = system
        self._receivers = httpx.Client(base_url=receivers_url, timeout=10)
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
        self.samples: list[Sample] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._receivers.close()

    def _run(self) -> None:
        with self._system.connect() as connection, self._system.redis() as client:
            while not self._stopping.wait(EVERY_SECONDS):
                row = connection.execute(COUNTS).fetchone()
                assert row is not None
                info: Any = client.info("memory")
                self.samples.append(self._sample(row, int(info["used_memory"])))

    def _sample(self, row: tuple[Any, ...], redis_bytes: int) -> Sample:
        taken = self._receivers.get("taken").json()
        pending, in_flight, deltas, leases, notices, connections, index_bytes, database_bytes = row
        roots = {name: self._system.pid(name) for name in PROCESSES} | {"postgres": self._system.postgres.pid}
        return Sample(
            at=self._clock(),
            lags=sorted(taken["lags"]),
            requests=taken["requests"],
            pending=pending,
            in_flight=in_flight,
            deltas=deltas,
            leases=leases,
            notices=notices,
            connections=connections,
            live_index_bytes=index_bytes,
            database_bytes=database_bytes,
            redis_bytes=redis_bytes,
            memory={name: sum(_pss(pid) for pid in _family(pid)) for name, pid in roots.items()},
            machine_load=os.getloadavg()[0],
        )


def _family(pid: int) -> list[int]:
    with suppress(OSError):
        children = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
        return [pid, *(each for child in children for each in _family(int(child)))]
    return []


def _pss(pid: int) -> int:
    with suppress(OSError):
        for line in (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def owed(connection: "psycopg.Connection") -> int:
    statement = "SELECT count(*) FROM deliveries_delivery WHERE state IN ('pending', 'in_flight')"
    return int((connection.execute(statement).fetchone() or [0])[0])
