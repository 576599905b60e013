"""A round: load, a fault at a seeded moment, its end, a little more load, rest; then the audit."""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import psycopg

from tests.faults.harness.audit import BUSY, CAPS, OVER_CAP, OWED, SCHEDULES, Audit, audit
from tests.faults.harness.producer import Producer
from tests.faults.harness.receiver import Receivers, Request
from tests.faults.harness.system import WORKERS, System, running_system
from tests.local import wait_until

EMITS_PER_SECOND = 40
WARM_REQUESTS = 20
AFTER_SECONDS = 1.0
REST_SECONDS = 120


@dataclass
class Scene:
    """What a fault acts on. It says when it begins and when it is over, as those who measure understand it."""

    system: System
    receivers: Receivers
    rng: random.Random
    # Events beside the producer's, at once; and one of the producer's own.
    emit: Callable[[list[dict[str, Any]]], None] = lambda events: None
    emit_one: Callable[[], None] = lambda: None
    begun_at: float = 0
    healed_at: float = 0
    in_flight: int = 0

    def begin(self) -> None:
        with suppress(psycopg.Error), self.system.connect() as connection:
            row = connection.execute("SELECT count(*) FROM deliveries_delivery WHERE state = 'in_flight'").fetchone()
            self.in_flight = (row or [0])[0]
        self.begun_at = time.monotonic()

    def busiest_worker(self) -> str:
        """Which delivery worker has most in flight: a fault of an idle one would show little."""
        pids = {str(self.system.pid(name)): name for name in WORKERS}
        with self.system.connect() as connection:
            found = [row[0].rpartition(":")[2] for row in connection.execute(BUSY).fetchall()]
        return next((pids[pid] for pid in found if pid in pids), WORKERS[0])

    def has_lease(self, worker: str) -> bool:
        with self.system.connect() as connection:
            found = [row[0].rpartition(":")[2] for row in connection.execute(BUSY).fetchall()]
        return str(self.system.pid(worker)) in found

    def healed(self) -> None:
        self.healed_at = time.monotonic()

    def pause(self, low: float, high: float) -> None:
        """The length of an outage, chosen by the seed. This waits for time on purpose."""
        time.sleep(self.rng.uniform(low, high))


@dataclass(frozen=True)
class Fault:
    name: str
    what: str
    inject: Callable[[Scene], None]
    # A crash of PostgreSQL may forget claims (they commit asynchronously), and then the same attempt goes out again.
    forgets_claims: bool = False
    # Healthy endpoints should notice next to nothing of it.
    spares_healthy: bool = False
    # Why it cannot run here; empty if it can.
    skip: Callable[[], str] = lambda: ""
    # PostgreSQL has a disk of its own.
    own_disk: bool = False
    # What it leaves is not what the next fault expects.
    is_last: bool = False
    # Settings of the platform under which it runs.
    settings: Mapping[str, str] = field(default_factory=dict)
    # No load but what the fault emits.
    quiet: bool = False
    # An event that comes later than this after its 202 is a broken promise (seconds).
    lag_limit: float = 600.0
    # So long producers try (seconds).
    patience: float = 120.0
    # So soon after its end deliveries go on, and goes out again what those whom it killed had in flight (seconds).
    back_within: float = 2.0
    held_within: float = 2.0


@dataclass
class Round:
    fault: Fault
    seed: int
    audit: Audit
    skipped: str = ""
    outage_seconds: float = 0
    in_flight: int = 0
    # From the fault's end to the first request at a healthy receiver.
    back_seconds: float = 0
    # From a 202 to the first request, at worst, for healthy endpoints.
    worst_lag_seconds: float = 0
    # From the fault's end until what killed workers had in flight went out again, at worst.
    held_seconds: float = 0
    rest_seconds: float = 0
    # What else the machine did (load average).
    machine_load: float = 0
    unanswered: dict[str, int] = field(default_factory=dict)

    def stored(self) -> dict[str, Any]:
        """For JSON; `read` is its opposite."""
        plain = {name: value for name, value in vars(self).items() if name not in ("fault", "audit")}
        return {**plain, "fault": self.fault.name, "audit": vars(self.audit)}

    @classmethod
    def read(cls, stored: dict[str, Any], faults: Mapping[str, Fault]) -> "Round":
        found = {**stored["audit"], "duplicates": Counter(stored["audit"]["duplicates"])}
        return cls(**{**stored, "fault": faults[stored["fault"]], "audit": Audit(**found)})

    @property
    def passed(self) -> bool:
        return not self.audit.violations

    @property
    def was_in_time(self) -> bool:
        """Whether deliveries were back as soon as they should be; no promise is broken where they were not."""
        fault = self.fault
        lag_is_fine = not fault.spares_healthy or self.worst_lag_seconds <= 2
        return lag_is_fine and self.back_seconds <= fault.back_within and self.held_seconds <= fault.held_within


class Session:
    """One running system with its consumer, endpoints and receivers; rounds run on it one after the other."""

    def __init__(self, system: System, receivers: Receivers) -> None:
        self.system = system
        self.receivers = receivers
        self._api = system.client(system.issue_key("operator"), seconds=30)
        self._emitting = system.client(system.issue_key("producer"))
        self._register()

    def _register(self) -> None:
        self._emitting.post("consumers/", json={"uid": "acme"}).raise_for_status()
        for path, cap in CAPS.items():
            name = path.removeprefix("/")
            endpoint = {
                "url": self.receivers.url(path),
                "event_types": [f"load.{name}"],
                "max_in_flight": cap,
                "ordered": name == "ordered",
                "timeout_seconds": 2 if name == "sick" else 10,
                "retry_schedule": [0, *[1] * (SCHEDULES[path] - 1)],
            }
            self._emitting.post("consumers/acme/endpoints/", json=endpoint).raise_for_status()

    def close(self) -> None:
        self._api.close()
        self._emitting.close()

    def run(self, fault: Fault, seed: int) -> Round:
        if reason := fault.skip():
            return Round(fault, seed, Audit(), skipped=reason)
        name = f"{fault.name}-{seed}"
        first = len(self.receivers.requests)
        self.receivers.most_at_once.clear()
        producer = Producer(self._emitting, seed=name, per_second=EMITS_PER_SECOND, patience=fault.patience)
        scene = Scene(self.system, self.receivers, random.Random(name), emit=self._emit, emit_one=producer.emit_one)
        logged = {worker: self.system.log_size(worker) for worker in WORKERS}
        sampler = _CapSampler(self.system)
        sampler.start()
        try:
            if fault.quiet:
                scene.emit_one()
            else:
                producer.start()
            warm = 1 if fault.quiet else WARM_REQUESTS
            wait_until(lambda: len(self.receivers.requests) >= first + warm, seconds=60)
            scene.pause(0, 0.5)
            fault.inject(scene)
            time.sleep(AFTER_SECONDS)
        finally:
            unfinished = producer.stop(seconds=fault.patience + 10)
            self.receivers.sick_mode = "ok"
        rested_at = self._rest()
        sampler.stop()
        requests = self.receivers.requests[first:]
        refused = [
            f"the database refused a settlement: {worker}"
            for worker in WORKERS
            if "settle.refused" in self.system.logged_since(worker, logged[worker])
        ]
        return self._judged(fault, seed, scene, producer, requests, [*sampler.over, *unfinished, *refused], rested_at)

    def _emit(self, events: list[dict[str, Any]]) -> None:
        self._emitting.post("events/batch/", json={"events": events}).raise_for_status()

    def _rest(self) -> float:
        """Until nothing is owed, or too long: then the audit says what is stuck."""
        with suppress(AssertionError):
            wait_until(self._nothing_owed, seconds=REST_SECONDS)
        return time.monotonic()

    def _nothing_owed(self) -> bool:
        try:
            with self.system.connect() as connection:
                return (connection.execute(OWED).fetchone() or [1])[0] == 0
        except psycopg.OperationalError:
            return False

    def _judged(
        self, fault: Fault, seed: int, scene: Scene, producer: Producer, requests: list[Request], over: list[str],
        rested_at: float,
    ) -> Round:  # fmt: skip
        self.system.wait_ready()
        with self.system.connect() as connection:
            found = audit(
                seed=f"{fault.name}-{seed}",
                emits=producer.emits,
                requests=requests,
                most_at_once=self.receivers.most_at_once,
                connection=connection,
                api=self._api,
                forgets_claims=fault.forgets_claims,
            )
        found.violations += [*over, *producer.defects]
        found.violations += [f"a process has ended by itself: {name}" for name in self.system.dead_processes()]
        lag = _worst_lag(requests, producer)
        if lag > fault.lag_limit:
            found.violations.append(f"late: an event came {lag:.0f} s after its 202")
        return Round(
            fault,
            seed,
            found,
            outage_seconds=scene.healed_at - scene.begun_at,
            in_flight=scene.in_flight,
            back_seconds=_back(requests, scene.healed_at),
            worst_lag_seconds=lag,
            held_seconds=_held(requests, found.lost_attempts, scene.healed_at),
            rest_seconds=rested_at - scene.healed_at,
            machine_load=os.getloadavg()[0],
            unanswered=dict(producer.unanswered),
        )


def _back(requests: list[Request], healed_at: float) -> float:
    later = [request.at - healed_at for request in requests if request.path == "/well" and request.at >= healed_at]
    return min(later, default=0.0)


def _held(requests: list[Request], lost: list[tuple[str, str, int]], healed_at: float) -> float:
    """What `/busy` is owed waits for its turn: it has more to do than its cap allows."""
    sent = {(request.event, request.path, request.attempt): request.at for request in requests}
    again = [sent.get((event, path, number + 1), healed_at) for event, path, number in lost if path != "/busy"]
    return max([0.0, *(at - healed_at for at in again)])


def _worst_lag(requests: list[Request], producer: Producer) -> float:
    first: dict[str, float] = {}
    for request in requests:
        if request.path == "/well":
            first.setdefault(request.event, request.at)
    lags = [first[event] - emit.accepted_at for emit in producer.emits for event in emit.event_ids if event in first]
    return max([0.0, *lags])


class _CapSampler:
    """Looks at the table many times a second: never more in flight than an endpoint's cap."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="caps", daemon=True)
        self.over: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(psycopg.Error), self._system.connect(2) as connection:
                while not self._stopping.wait(0.03):
                    for url, count, cap in connection.execute(OVER_CAP).fetchall():
                        self.over.append(f"over the cap in the table: {url} had {count}, {cap} may be")
            self._stopping.wait(0.2)


@contextmanager
def running_session(
    receivers: Receivers, *, own_disk: bool = False, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Session]:
    with running_system(own_disk=own_disk, settings=settings) as system:
        session = Session(system, receivers)
        try:
            yield session
        finally:
            session.close()


def check_tables(system: System) -> list[str]:
    """At the end of a session: every index of the ledger agrees with its table, and dead workers left no lease."""
    with system.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
        connection.execute("""
            SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
            WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'btree') AND relnamespace = 'public'::regnamespace
        """)
        for name in ("deliveries_putback", "deliveries_trialslot"):
            [count] = connection.execute(f"SELECT count(*) FROM {name}").fetchone() or [0]
            if count:
                return [f"{count} rows left in {name}"]
    return []
