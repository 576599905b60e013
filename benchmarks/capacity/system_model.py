"""The system as the simulation knows it: web processes, the bell, pumps, PostgreSQL, and the waits we chose ourselves.

It follows the walk. Emits of one moment share a statement (subscriptions/limits/batcher.py); a process's bell and a
pump gather rings (deliveries/bell.py, deliveries/deliver.py); outcomes wait for each other
(deliveries/pump/settler.py); a slot is free again once its outcome is written. It leaves out caps per endpoint,
failures, the sweep and the network, and knows less of whose turn it is than deliveries/pump/ready_queue.py: slots are
shared out evenly, with nobody at hand or aside.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle

from benchmarks.capacity.fit import Times, Waits
from benchmarks.capacity.simulation import CpuWork, Process, Semaphore, Sleep, StickySignal, WaitFor, World

# As in deliveries/accepting/group_commit.py and deliveries/pump/ready_queue.py.
EMITS_PER_STATEMENT = 100
ENDPOINTS_PER_CLAIM = 200


@dataclass(slots=True)
class _Emits:
    """When each event was due and for whom, and who waits for its request's answer."""

    waiting: deque[tuple[list[tuple[float, int]], StickySignal]] = field(default_factory=deque)
    any: StickySignal = field(default_factory=StickySignal)


@dataclass(slots=True)
class _Web:
    interpreter: Semaphore = field(default_factory=Semaphore)
    singles: _Emits = field(default_factory=_Emits)
    batches: _Emits = field(default_factory=_Emits)
    rings: dict[int, None] = field(default_factory=dict)
    rung: StickySignal = field(default_factory=StickySignal)


@dataclass(slots=True)
class _Pump:
    loop: Semaphore = field(default_factory=Semaphore)
    ready: dict[int, None] = field(default_factory=dict)
    claimable: StickySignal = field(default_factory=StickySignal)
    roomy: StickySignal = field(default_factory=StickySignal)
    in_flight: int = 0
    outcomes: int = 0
    any: StickySignal = field(default_factory=StickySignal)
    hurry: StickySignal = field(default_factory=StickySignal)


class System:
    """`cores` by part: web, worker, postgres, redis, outside. On one machine they are all the same."""

    def __init__(
        self,
        world: World,
        times: Times,
        waits: Waits,
        *,
        cores: dict[str, Semaphore],
        webs: int,
        workers: int,
        slots: int,
    ) -> None:
        self._world, self._times, self._waits, self._cores, self._slots = world, times, waits, cores, slots
        self._due: dict[int, deque[float]] = {}
        self._bell: dict[int, None] = {}
        self._listening: deque[StickySignal] = deque()
        self._locked: set[int] = set()
        # When each was due, and when it had arrived.
        self.arrived: list[tuple[float, float]] = []
        self.stored_count = self.settled_count = 0
        self._webs = [_Web() for _ in range(webs)]
        self._next_web: Iterator[_Web] = cycle(self._webs)
        for web in self._webs:
            world.start(self._gather(web, web.singles))
            world.start(self._gather(web, web.batches))
            world.start(self._ring(web))
        for pump in [_Pump() for _ in range(workers)]:
            for helper in (self._listen, self._claim, self._settle):
                world.start(helper(pump))

    # ── the way in ───────────────────────────────────────────────────────────────────────────────────────────────────

    def emit(self, *, endpoint: int, events: int = 1) -> Process:
        """One request, due now, until it is answered."""
        web, due_at, times = next(self._next_web), self._world.now, self._times
        spent = (times.request + events * times.accept.each) / 2
        yield CpuWork(times.producer, self._cores["outside"])
        yield CpuWork(spent, self._cores["web"], web.interpreter)
        emits, answered = web.singles if events == 1 else web.batches, StickySignal()
        emits.waiting.append(([(due_at, endpoint)] * events, answered))
        emits.any.set()
        yield WaitFor(answered)
        yield CpuWork(spent, self._cores["web"], web.interpreter)

    def _gather(self, web: _Web, emits: _Emits) -> Process:
        while True:
            emits.any.clear()
            yield WaitFor(emits.any)
            while emits.waiting:
                taken = [emits.waiting.popleft() for _ in range(min(EMITS_PER_STATEMENT, len(emits.waiting)))]
                yield from self._store(web, [event for events, _ in taken for event in events])
                for _, answered in taken:
                    answered.set()

    def _store(self, web: _Web, events: list[tuple[float, int]]) -> Process:
        store = self._times.store
        yield CpuWork(self._times.accept.statement, self._cores["web"], web.interpreter)
        yield CpuWork(store.statement + store.each * len(events), self._cores["postgres"])
        yield Sleep(self._waits.flush)
        self.stored_count += len(events)
        for due_at, endpoint in events:
            self.owe(endpoint, due_at)
            web.rings[endpoint] = None
        web.rung.set()

    def owe(self, endpoint: int, due_at: float) -> None:
        self._due.setdefault(endpoint, deque()).append(due_at)

    def _ring(self, web: _Web) -> Process:
        while True:
            yield WaitFor(web.rung)
            web.rung.clear()
            rings, web.rings = web.rings, {}
            yield CpuWork(self._times.ring, self._cores["redis"])
            self.announce(rings)
            yield Sleep(self._waits.bell_gather)

    def announce(self, endpoints: Iterable[int]) -> None:
        """Who has listened longest hears it first."""
        self._bell.update(dict.fromkeys(endpoints))
        if self._bell and self._listening:
            self._listening.popleft().set()

    # ── the way out ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _listen(self, pump: _Pump) -> Process:
        while True:
            while self._free(pump) <= 0:
                pump.roomy.clear()
                yield WaitFor(pump.roomy)
            while not self._bell:
                heard = StickySignal()
                self._listening.append(heard)
                yield WaitFor(heard)
            pump.ready.update(_take(self._bell, min(self._free(pump), ENDPOINTS_PER_CLAIM)))
            yield CpuWork(self._times.hear, self._cores["redis"])
            pump.claimable.set()
            yield Sleep(self._waits.pump_gather)

    def _claim(self, pump: _Pump) -> Process:
        while True:
            free = self._free(pump)
            if not pump.ready or free <= 0:
                pump.claimable.clear()
                yield WaitFor(pump.claimable)
                continue
            yield CpuWork(self._times.claiming, self._cores["worker"], pump.loop)
            free = self._free(pump)  # a settlement may have been written meanwhile
            asked = _take(pump.ready, min(max(1, free // 4), ENDPOINTS_PER_CLAIM))
            endpoints = {endpoint: None for endpoint in asked if endpoint not in self._locked}
            if passed_over := asked.keys() - endpoints:
                self._world.after(self._waits.passed_over, partial(_make_ready, pump, passed_over))
            if not endpoints:
                continue
            self._locked.update(endpoints)
            claimed = self._claimed(endpoints, free)
            pump.in_flight += len(claimed)
            yield CpuWork(self._times.claim.statement + self._times.claim.each * len(claimed), self._cores["postgres"])
            self._locked.difference_update(endpoints)
            pump.ready.update({endpoint: None for endpoint in endpoints if self._due.get(endpoint)})
            for due_at in claimed:
                self._world.start(self._attempt(pump, due_at))
            if self._free(pump) <= 0:
                pump.hurry.set()
                self.announce(pump.ready)

    def _claimed(self, endpoints: dict[int, None], free: int) -> list[float]:
        share, claimed = -(-free // len(endpoints)), list[float]()
        for endpoint in endpoints:
            due = self._due.get(endpoint, deque())
            claimed += [due.popleft() for _ in range(min(share, len(due), free - len(claimed)))]
        return claimed

    def _attempt(self, pump: _Pump, due_at: float) -> Process:
        yield CpuWork(self._times.deliver / 2, self._cores["worker"], pump.loop)
        yield CpuWork(self._times.receiver, self._cores["outside"])
        self.arrived.append((due_at, self._world.now))
        yield Sleep(self._waits.answer)
        yield CpuWork(self._times.deliver / 2, self._cores["worker"], pump.loop)
        pump.outcomes += 1
        pump.any.set()

    def _settle(self, pump: _Pump) -> Process:
        while True:
            yield WaitFor(pump.any)
            if self._free(pump) > 0:
                pump.hurry.clear()
                yield WaitFor(pump.hurry, self._waits.settle_gather)
            yield CpuWork(self._times.settling, self._cores["worker"], pump.loop)
            pump.any.clear()
            count, pump.outcomes = pump.outcomes, 0
            yield CpuWork(self._times.settle.statement + self._times.settle.each * count, self._cores["postgres"])
            yield Sleep(self._waits.flush)
            pump.in_flight -= count
            self.settled_count += count
            pump.roomy.set()
            pump.claimable.set()

    def _free(self, pump: _Pump) -> int:
        return self._slots - pump.in_flight


def _make_ready(pump: _Pump, endpoints: Iterable[int]) -> None:
    pump.ready.update(dict.fromkeys(endpoints))
    pump.claimable.set()


def _take(endpoints: dict[int, None], count: int) -> dict[int, None]:
    taken = dict.fromkeys(list(endpoints)[:count])
    for endpoint in taken:
        del endpoints[endpoint]
    return taken
