"""A small discrete-event simulation: jobs pass through stations in order, and all stations share a machine's cores.

A station has so many servers (a worker process is one: its loop does one thing at a time), each busy with one job.
Where the machine has fewer cores than busy servers, whoever has waited longest goes first. Closed (so many jobs in
flight, a new one for each that ends) for what a full machine can do; open (arrivals at a rate) for how long jobs take.
"""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.figures import percentile


@dataclass(frozen=True, slots=True)
class Station:
    name: str
    servers: int
    # Mean time of service.
    seconds: float


@dataclass(frozen=True, slots=True)
class Simulated:
    rate: float
    mean_seconds: float
    p99_seconds: float
    # Share of each station's servers' time that was busy.
    utilisation: dict[str, float]


@dataclass(slots=True)
class _Place:
    station: Station
    # When each job came, and when it entered the whole system.
    waiting: deque[tuple[float, float]] = field(default_factory=deque)
    busy: int = 0
    busy_seconds: float = 0.0

    @property
    def can_start(self) -> bool:
        return bool(self.waiting) and self.busy < self.station.servers


def simulate(
    stations: Sequence[Station],
    *,
    count: int,
    cores: int | None = None,
    in_flight: int | None = None,
    arrivals_per_second: float | None = None,
    random_times: bool = True,
    seed: int = 1,
) -> Simulated:
    """Until `count` jobs have passed. `random_times`: exponential times of service and between arrivals."""
    dice = random.Random(seed)
    places = [_Place(station) for station in stations]
    free_cores = cores if cores is not None else sum(station.servers for station in stations)
    events: list[tuple[float, int, int, float]] = []  # when, tie-breaker, where (-1: arrives), entered at
    number, now, times = 0, 0.0, list[float]()

    def time_of(mean: float) -> float:
        return dice.expovariate(1 / mean) if random_times else mean

    def plan(at: float, where: int, entered: float) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (at, number, where, entered))

    def start_what_can() -> None:
        nonlocal free_cores
        while free_cores > 0:
            ready = [place for place in places if place.can_start]
            if not ready:
                return
            place = min(ready, key=lambda place: place.waiting[0])
            _, entered = place.waiting.popleft()
            seconds = time_of(place.station.seconds)
            place.busy += 1
            place.busy_seconds += seconds
            free_cores -= 1
            plan(now + seconds, places.index(place), entered)

    for _ in range(in_flight or 1):
        plan(0.0, -1, 0.0)
    while len(times) < count:
        now, _, where, entered = heapq.heappop(events)
        if where < 0:
            places[0].waiting.append((now, now))
            if arrivals_per_second is not None:
                plan(now + time_of(1 / arrivals_per_second), -1, 0.0)
        else:
            places[where].busy -= 1
            free_cores += 1
            if where + 1 < len(places):
                places[where + 1].waiting.append((now, entered))
            else:
                times.append(now - entered)
                if arrivals_per_second is None:
                    places[0].waiting.append((now, now))
        start_what_can()
    busy = {place.station.name: place.busy_seconds / (now * place.station.servers) for place in places}
    return Simulated(count / now, sum(times) / count, percentile(times, 99), busy)
