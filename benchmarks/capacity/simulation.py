"""A small discrete-event simulation: processes are generators that work, sleep and wait in a time of their own.

Work needs a core, and perhaps a turn first: a Python process does one thing at a time, whether its event loop or its
interpreter's lock sees to that. Where there are fewer cores or turns than takers, whoever has waited longest goes
first. What the processes do is none of this file's business: see rehearsal.py.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field


class Semaphore:
    """So many at a time; the others wait in line."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.busy_seconds = 0.0
        self._free = count
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, go_on: Callable[[], None]) -> None:
        if self._free:
            self._free -= 1
            go_on()
        else:
            self._waiting.append(go_on)

    def give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1


@dataclass(slots=True)
class StickySignal:
    """As asyncio's Event: stays set until it is cleared, and wakes everybody who waits."""

    is_set: bool = False
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def set(self) -> None:
        self.is_set = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def clear(self) -> None:
        self.is_set = False

    def when_set(self, wake: Callable[[], None]) -> None:
        if self.is_set:
            wake()
        else:
            self._waiting.append(wake)


@dataclass(frozen=True, slots=True)
class CpuWork:
    """On one of the cores, for so long on average; `alone` is whose turn it needs to be before."""

    seconds: float
    cores: Semaphore
    alone: Semaphore | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


@dataclass(frozen=True, slots=True)
class WaitFor:
    signal: StickySignal
    timeout: float | None = None


Process = Generator[CpuWork | Sleep | WaitFor, None, None]


class World:
    """`random_times`: how long work takes is exponentially distributed, as is the custom where nothing is known."""

    def __init__(self, *, random_times: bool = True, seed: int = 1) -> None:
        self.now = 0.0
        self.dice = random.Random(seed)
        self._random_times = random_times
        self._number = 0  # breaks ties in the order of planning
        self._plans: list[tuple[float, int, Callable[[], None]]] = []

    def start(self, process: Process) -> None:
        self.after(0.0, lambda: self._go_on(process))

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._plans, (self.now + seconds, self._number, do))

    def run(self, *, until: Callable[[], bool]) -> None:
        """Until that is so, or nothing is left that could happen."""
        while self._plans and not until():
            self.now, _, do = heapq.heappop(self._plans)
            do()

    def time_of(self, mean: float) -> float:
        return self.dice.expovariate(1 / mean) if self._random_times and mean else mean

    def _go_on(self, process: Process) -> None:
        match next(process, None):
            case CpuWork() as work:
                self._work(process, work)
            case Sleep(seconds):
                self.after(seconds, lambda: self._go_on(process))
            case WaitFor(signal, timeout):
                self._wait(process, signal, timeout)

    def _work(self, process: Process, work: CpuWork) -> None:
        seconds = self.time_of(work.seconds)

        def begin() -> None:
            work.cores.busy_seconds += seconds
            self.after(seconds, end)

        def end() -> None:
            work.cores.give_back()
            if work.alone:
                work.alone.give_back()
            self._go_on(process)

        if work.alone:
            work.alone.take(lambda: work.cores.take(begin))
        else:
            work.cores.take(begin)

    def _wait(self, process: Process, signal: StickySignal, timeout: float | None) -> None:
        woken = False

        def wake() -> None:
            nonlocal woken
            if not woken:
                woken = True
                self.after(0.0, lambda: self._go_on(process))

        signal.when_set(wake)
        if timeout is not None:
            self.after(timeout, wake)
