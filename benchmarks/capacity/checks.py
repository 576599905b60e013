"""The simulation, held to what was measured: how full a machine gets, and how long an event takes through it. Pure.

What it knows of costs comes from fit.py. Nothing is fitted to what is checked here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.capacity.fit import Model, model
from benchmarks.capacity.machines import Costs, Plan, plan
from benchmarks.capacity.simulation import Process, Semaphore, Sleep, World
from benchmarks.capacity.system_model import System
from benchmarks.report.figures import percentile

# Of a run's events, so many come before the count begins: the system is then in its stride, not empty.
WARM_SHARE = 0.2
# Within this factor of what was measured, the simulation may be asked about what was not.
CLOSE_ENOUGH = 1.5
# What is checked, by its unit.
RATE, LATENCY, CPU = "/s", " ms", " ms of CPU"
ENDPOINTS = 20
# How much is simulated: deliveries of a drain, and seconds of a steady rate.
COUNT = 8_000
SECONDS = 8
INSIDE = ("web", "worker", "postgres", "redis")
PARTS = (*INSIDE, "outside")


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    measured: float
    simulated: float
    unit: str = RATE

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1

    @property
    def is_close(self) -> bool:
        return 1 / CLOSE_ENOUGH <= self.simulated / self.measured <= CLOSE_ENOUGH


def checks(measures: Mapping[str, Any], *, cores: int) -> list[Check]:
    known = model(measures)
    return [*_rates(known, measures, cores), *_steady(known, measures, cores)]


def _rates(known: Model, measures: Mapping[str, Any], cores: int) -> Iterator[Check]:
    deliver, emit = measures["deliver"], measures["emit"]
    for workers, name in ((1, "one"), (2, "two")):
        rate = drained_rate(known, workers=workers, count=min(COUNT, deliver["count"]), cores=cores)
        yield Check(f"deliver, {name} worker{'s' if workers > 1 else ''}", deliver[name]["rate"]["median"], rate)
    for name, events, requests in (("single", 1, 8_000), ("batch", 100, 400)):
        rate = emitted_rate(known, events=events, requests=requests, cores=cores)
        yield Check(f"emit, {name}", emit[name]["rate"]["median"], rate)


def _steady(known: Model, measures: Mapping[str, Any], cores: int) -> Iterator[Check]:
    for rate, side in measures["through"].items():
        found = passed(known, rate=int(rate), pools=_machine(cores), webs=2, workers=2)
        for percent in (50, 95):
            measured = side["arrival"][f"p{percent}_ms"]["median"]
            yield Check(
                f"through at {rate}/s, p{percent}", measured, 1000 * percentile(found.seconds, percent), LATENCY
            )
    # Taken in the same minutes as the costs: what is off here is the model, and not the machine.
    some = measures["profile"]["some"]
    found = passed(known, rate=some["rate"], pools=_machine(cores), webs=2, workers=2)
    for percent in (50, 95):
        simulated = 1000 * percentile(found.seconds, percent)
        yield Check(f"profile at {some['rate']}/s, p{percent}", some["arrival"][f"p{percent}_ms"], simulated, LATENCY)
    pools = {part: Semaphore(1_000) for part in PARTS} | dict.fromkeys(INSIDE, Semaphore(cores))
    found = passed(known, rate=some["rate"], pools=pools, webs=2, workers=2)
    spent = sum(some["cpu_ms"][part] for part in INSIDE)
    # The parts share their cores here, so each says what all of them spent.
    yield Check(f"CPU of an event at {some['rate']}/s", spent, found.cpu_ms["web"], CPU)


def drained_rate(known: Model, *, workers: int, count: int, cores: int) -> float:
    world = World()
    system = _system(known, world, _machine(cores), webs=0, workers=workers)
    for number in range(count):
        system.owe(number % ENDPOINTS, 0.0)
    system.announce(range(ENDPOINTS))
    world.run(until=lambda: system.settled_count >= count)
    return count / world.now


def emitted_rate(known: Model, *, events: int, requests: int, cores: int, at_once: int = 32) -> float:
    """A new request for each that is answered; the endpoint is paused, so nobody delivers."""
    world = World()
    system = _system(known, world, _machine(cores), webs=2, workers=0)

    def ask() -> Process:
        while True:
            yield from system.emit(endpoint=0, events=events)

    for _ in range(at_once):
        world.start(ask())
    warm = int(WARM_SHARE * requests * events)
    world.run(until=lambda: system.stored_count >= warm)
    begun, before = world.now, system.stored_count
    world.run(until=lambda: system.stored_count >= requests * events)
    return (system.stored_count - before) / (world.now - begun)


@dataclass(frozen=True, slots=True)
class Passed:
    """Events that went through: seconds from due to arrived, and milliseconds of each part's cores per event."""

    seconds: list[float]
    cpu_ms: dict[str, float]


def passed(
    known: Model,
    *,
    rate: int,
    pools: dict[str, Semaphore],
    webs: int,
    workers: int,
    seconds: float = SECONDS,
    endpoints: int = ENDPOINTS,
    events: int = 1,
) -> Passed:
    """Events that come as regularly as the measure's, so many to a request."""
    world, count = World(), int(rate * seconds) // events
    system = _system(known, world, pools, webs=webs, workers=workers)

    def emit_all() -> Process:
        for number in range(count):
            world.start(system.emit(endpoint=number % endpoints, events=events))
            yield Sleep(events / rate)

    world.start(emit_all())
    world.run(until=lambda: len(system.arrived) >= count * events)
    return Passed(
        [arrived_at - due_at for due_at, arrived_at in system.arrived if due_at >= WARM_SHARE * seconds],
        {part: 1000 * pool.busy_seconds / (count * events) for part, pool in pools.items()},
    )


def shared_costs(known: Model, per: Costs, *, rate: int, events: int) -> Costs:
    """What a delivery costs at this rate: how many of them share a statement depends on it, and on the processes."""
    first = plan(rate, per)
    webs, workers = max(1, math.ceil(first.web_cores)), first.worker_processes
    pools = {part: Semaphore(1_000) for part in PARTS}
    found = _simulated(known, rate=rate, pools=pools, webs=webs, workers=workers, events=events).cpu_ms
    return replace(
        per, worker=found["worker"], web=found["web"], postgres=found["postgres"], postgres_in=0.0,
        redis=found["redis"], redis_in=0.0,
    )  # fmt: skip


def simulate(known: Model, one: Plan, *, events: int) -> Passed:
    """The plan itself at its rate: each part on cores of its own, receivers that answer at once."""
    sizes = {"web": one.web_cores, "worker": one.worker_processes, "postgres": one.postgres_cores, "redis": 1}
    pools = {part: Semaphore(max(1, math.ceil(size))) for part, size in sizes.items()} | {"outside": Semaphore(1_000)}
    webs, workers = pools["web"].count, one.worker_processes
    return _simulated(known, rate=one.rate, pools=pools, webs=webs, workers=workers, events=events)


def _simulated(known: Model, *, rate: int, pools: dict[str, Semaphore], webs: int, workers: int, events: int) -> Passed:
    """Long enough for its stride, and no longer: there are many events in a second."""
    seconds = max(1.0, 10_000 / rate)
    return passed(
        known, rate=rate, pools=pools, webs=webs, workers=workers, seconds=seconds, endpoints=1_000, events=events
    )


def _machine(cores: int) -> dict[str, Semaphore]:
    """Everything on one machine, as it is measured."""
    shared = Semaphore(cores)
    return dict.fromkeys(PARTS, shared)


def _system(known: Model, world: World, pools: dict[str, Semaphore], *, webs: int, workers: int) -> System:
    return System(world, known.times, known.waits, cores=pools, webs=webs, workers=workers, slots=known.slots)
