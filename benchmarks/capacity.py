"""From measured cost per delivery to machines, and a check of the model against what was measured. Pure.

The model is CPU: each delivery takes so many milliseconds of a worker, of PostgreSQL, of Redis, and so does each
event's way in. Cores are what these add up to at a rate, divided by how busy one wants them. It says nothing about a
receiver's own time: waiting costs a coroutine, so it sets how many requests are in flight, and only with that memory.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.simulation import Station, simulate

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
    """Milliseconds of CPU, each per delivery or per event."""

    worker: float
    postgres: float
    redis: float
    web: float
    postgres_in: float
    redis_in: float


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


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1


def costs(measures: Mapping[str, Any], *, batched: bool) -> Costs:
    out, way_in = measures["deliver"]["two"]["cpu_ms"], measures["emit"]["batch" if batched else "single"]["cpu_ms"]
    return Costs(
        worker=out["worker"]["median"],
        postgres=out["postgres"]["median"],
        redis=out["redis"]["median"],
        web=way_in["web"]["median"],
        postgres_in=way_in["postgres"]["median"],
        redis_in=way_in["redis"]["median"],
    )


def plan(rate: int, per: Costs) -> Plan:
    """For so many deliveries a second, each of an event of its own: a larger fan-out only makes the way in cheaper."""
    worker, web = _cores(rate, per.worker), _cores(rate, per.web)
    postgres = _cores(rate, per.postgres + per.postgres_in)
    waiting = rate * ANSWER_SECONDS / IN_FLIGHT_PER_WORKER
    processes = max(1, math.ceil(worker), math.ceil(waiting))
    return Plan(
        rate=rate,
        worker_processes=processes,
        worker_cores=worker,
        web_cores=web,
        postgres_cores=postgres,
        redis_cores=_cores(rate, per.redis + per.redis_in),
        machines=math.ceil((worker + web) / CORES_PER_MACHINE),
        primaries=math.ceil(postgres / CORES_PER_PRIMARY),
    )


def _cores(rate: int, milliseconds: float) -> float:
    return round(rate * milliseconds / 1000 / BUSY, 2)


def checks(measures: Mapping[str, Any], *, cores: int, count: int = 10_000) -> list[Check]:
    """What the simulation says about runs that were measured: a full machine, delivering and emitting."""
    found = []
    for workers, name in ((1, "one"), (2, "two")):
        side = measures["deliver"][name]
        stations = [
            Station("worker", workers, side["cpu_ms"]["worker"]["median"] / 1000),
            # A pump claims and settles at the same time, on a connection each.
            Station("postgres", 2 * workers, _together(side["cpu_ms"], "postgres", "redis")),
            Station("receiver", 1, side["cpu_ms"]["receiver"]["median"] / 1000),
        ]
        rate = simulate(stations, count=count, cores=cores, in_flight=200 * workers).rate
        found.append(Check(f"deliver, {name} worker{'s' if workers > 1 else ''}", side["rate"]["median"], rate))
    single = measures["emit"]["single"]
    stations = [
        Station("load", 1, single["load_cpu_ms"]["median"] / 1000),
        Station("web", 2, single["cpu_ms"]["web"]["median"] / 1000),
        Station("postgres", 16, _together(single["cpu_ms"], "postgres", "redis")),
    ]
    rate = simulate(stations, count=count, cores=cores, in_flight=32).rate
    found.append(Check("emit, single", single["rate"]["median"], rate))
    return found


def _together(cpu_ms: Mapping[str, Any], *parts: str) -> float:
    return sum(float(cpu_ms[part]["median"]) for part in parts) / 1000


def rehearse(one: Plan, per: Costs, *, seconds_of_work: float = 2) -> Any:
    """The plan itself, simulated at its rate: how busy it is, and what waiting in it adds to a delivery."""
    stations = [
        Station("web", max(1, math.ceil(one.web_cores)), per.web / 1000),
        Station("postgres", max(1, math.ceil(one.postgres_cores)), (per.postgres + per.postgres_in) / 1000),
        Station("worker", one.worker_processes, per.worker / 1000),
    ]
    count = min(10_000, int(one.rate * seconds_of_work))
    return asdict(simulate(stations, count=count, arrivals_per_second=one.rate))
