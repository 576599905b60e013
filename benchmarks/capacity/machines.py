"""From measured cost per delivery to machines. Pure.

The model is CPU and bytes of WAL: each delivery takes so many milliseconds of a worker, of PostgreSQL, of Redis, and so
does each event's way in. Cores are what these add up to at a rate, divided by how busy one wants them. It says nothing
about a receiver's own time: waiting costs a coroutine, so it sets how many requests are in flight, and with that
memory alone. How far the costs explain what was measured is checks.py's question.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RATES = (1_000, 10_000, 100_000)
# How busy the cores are to be: room for a burst, a failed machine and a vacuum.
BUSY = 0.6
CORES_PER_MACHINE = 8
# The largest PostgreSQL primary one would like to run; beyond it, consumers are sharded over several.
CORES_PER_PRIMARY = 32
# A receiver's answer takes this long, taken over all of them (seconds).
ANSWER_SECONDS = 0.2
IN_FLIGHT_PER_WORKER = 400


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds of CPU and bytes of WAL, each per delivery or per event."""

    worker: float
    postgres: float
    redis: float
    web: float
    postgres_in: float
    redis_in: float
    # None where it was not measured.
    wal: float | None = None
    wal_in: float | None = None
    # A worker's, where every delivery goes over a new TLS connection.
    worker_new_tls: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    rate: int
    worker_processes: int
    worker_cores: float
    web_cores: float
    postgres_cores: float
    redis_cores: float
    # Machines for workers and web together, and PostgreSQL primaries.
    machines: int
    primaries: int
    wal_mb_per_second: float | None
    worker_cores_new_tls: float | None


def costs(measures: Mapping[str, Any], *, batched: bool) -> Costs:
    side = "batch" if batched else "single"
    out, way_in = measures["deliver"]["two"]["cpu_ms"], measures["emit"][side]["cpu_ms"]
    profile = measures.get("profile")
    return Costs(
        worker=out["worker"]["median"],
        postgres=out["postgres"]["median"],
        redis=out["redis"]["median"],
        web=way_in["web"]["median"],
        postgres_in=way_in["postgres"]["median"],
        redis_in=way_in["redis"]["median"],
        wal=profile["deliver"]["wal_bytes"] if profile else None,
        wal_in=profile["emit"][side]["wal_bytes"] if profile else None,
        worker_new_tls=profile["receivers"]["https_new_connections"]["cpu_ms"] if profile else None,
    )


def plan(rate: int, per: Costs) -> Plan:
    """For so many deliveries a second, each of an event of its own: a larger fan-out only makes the way in cheaper."""
    worker, web = _cores(rate, per.worker), _cores(rate, per.web)
    postgres = _cores(rate, per.postgres + per.postgres_in)
    waiting = rate * ANSWER_SECONDS / IN_FLIGHT_PER_WORKER
    processes = max(1, math.ceil(worker), math.ceil(waiting))
    wal = None if per.wal is None or per.wal_in is None else round(rate * (per.wal + per.wal_in) / 1e6, 1)
    return Plan(
        rate=rate,
        worker_processes=processes,
        worker_cores=worker,
        web_cores=web,
        postgres_cores=postgres,
        redis_cores=_cores(rate, per.redis + per.redis_in),
        machines=math.ceil((worker + web) / CORES_PER_MACHINE),
        primaries=math.ceil(postgres / CORES_PER_PRIMARY),
        wal_mb_per_second=wal,
        worker_cores_new_tls=None if per.worker_new_tls is None else _cores(rate, per.worker_new_tls),
    )


def _cores(rate: int, milliseconds: float) -> float:
    return round(rate * milliseconds / 1000 / BUSY, 2)


def redis_is_full_at(per: Costs) -> float | None:
    """Deliveries a second that keep one Redis, which runs commands on one thread, as busy as one wants a core to be."""
    used = per.redis + per.redis_in
    return 1000 * BUSY / used if used else None
