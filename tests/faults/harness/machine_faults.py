"""Faults of machines: power, disks, memory, clocks, a host that is gone, a standby that takes over. Most need Linux and
root, and say so where they cannot be had."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.faults.harness.disk import why_no_disk
from tests.faults.harness.rounds import Fault, Scene
from tests.faults.harness.standby import Standby, why_no_standby
from tests.faults.harness.system import FAKETIME
from tests.local import wait_until

_LEASE_SECONDS = 10.0
_MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
# What a worker may take beyond what it has.
_SPARE_BYTES = 128 * 1024
_LARGE_BYTES = 200_000

ELSEWHERE = """
    UPDATE deliveries_lease SET process = 'another-boot' || substr(process, strpos(process, '/'))
    WHERE worker LIKE '%%:' || %(pid)s
"""
"""As if that worker ran on another machine: nobody here can tell whether it lives."""


def lose_host(scene: Scene) -> None:
    """A worker that never comes back, on a machine of its own: its lease has to run out."""
    worker = scene.busiest_worker()
    with scene.system.connect() as connection:
        connection.execute(ELSEWHERE, {"pid": str(scene.system.pid(worker))})
    scene.begin()
    scene.system.kill(worker)
    scene.healed()
    scene.pause(16, 17)
    scene.system.start(worker)


def _lose_power(scene: Scene) -> None:
    """Of PostgreSQL's machine: the page cache is gone, and what was not synced with it."""
    system = scene.system
    assert system.disk is not None
    scene.begin()
    system.disk.lose_power()
    system.postgres.kill()
    wait_until(lambda: _power_on(scene), seconds=30)
    system.postgres.start()
    scene.healed()


def _power_on(scene: Scene) -> bool:
    """Not before the last process of the old server has let go of its files."""
    assert scene.system.disk is not None
    try:
        scene.system.disk.power_on()
    except AssertionError:
        return False
    return True


def _fill_disk(scene: Scene) -> None:
    system = scene.system
    assert system.disk is not None
    scene.begin()
    with system.disk.full():
        scene.pause(3, 5)
    if system.postgres.has_ended():
        system.postgres.start()
    wait_until(lambda: _answers(scene), seconds=60)
    scene.healed()


def _answers(scene: Scene) -> bool:
    with suppress(psycopg.Error), scene.system.connect() as connection:
        connection.execute("CREATE TEMPORARY TABLE there_is_room (id int)")
        return True
    return False


def _jump_of_database(*, before: int, after: int) -> Callable[[Scene], None]:
    """The clock of PostgreSQL's machine is off by `before` seconds, then by `after`, then right again."""

    def inject(scene: Scene) -> None:
        system = scene.system
        _restart_postgres(scene, env=system.clock("postgres", before))
        scene.pause(1, 2)
        scene.begin()
        system.set_clock("postgres", after)
        scene.pause(4, 5)
        scene.healed()
        _restart_postgres(scene, env={})

    return inject


def _restart_postgres(scene: Scene, *, env: dict[str, str]) -> None:
    scene.system.postgres.stop()
    scene.system.postgres.start(env=env)


def _limit_memory(scene: Scene) -> None:
    """A worker in a control group with hardly any memory left: the kernel kills it, and a supervisor starts another."""
    system = scene.system
    group = _MEMORY_GROUPS / f"webhooks-{os.getpid()}"
    group.mkdir()
    try:
        system.kill("deliveries1")
        system.start("deliveries1")
        (group / "cgroup.procs").write_text(str(system.pid("deliveries1")))
        wait_until(lambda: scene.has_lease("deliveries1"), seconds=60)
        scene.pause(0.5, 1)
        scene.begin()
        wait_until(lambda: _squeezed(scene, group), seconds=60)
        system.start("deliveries1")
        scene.healed()
    finally:
        wait_until(lambda: _removed(group), seconds=10)


def _squeezed(scene: Scene, group: Path) -> bool:
    """Leaves it what it has, and gives it more to hold, until it is killed. The kernel refuses to leave it less."""
    used = int((group / "memory.usage_in_bytes").read_text())
    with suppress(OSError):
        (group / "memory.limit_in_bytes").write_text(str(used + _SPARE_BYTES))
    data = {"seed": "large", "number": 0, "text": "x" * _LARGE_BYTES}
    scene.emit([{"consumer": "acme", "type": "load.well", "data": data}] * 10)
    return scene.system.has_ended("deliveries1")


def _removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def _stutter(scene: Scene) -> None:
    """Sessions of PostgreSQL stop for moments, one after the other, wherever they are: rare races show."""
    scene.begin()
    until = time.monotonic() + scene.rng.uniform(4, 5)
    while time.monotonic() < until:
        for pid in scene.system.database_sessions():
            with suppress(ProcessLookupError), scene.system.frozen(pid):
                scene.pause(0.005, 0.03)
    scene.healed()


def _commit_slowly(scene: Scene) -> None:
    """Nobody looks for due work, and commits take their time: only who is told after the commit comes at once.

    Two events, of which none fails at first: its retry would wait for the sweep.
    """
    scene.begin()
    for _ in range(2):
        armed = scene.system.arm("accept.before_commit", "0.5")
        scene.emit_one()
        assert not armed.exists()
    scene.healed()


def _promote_standby(scene: Scene) -> None:
    """The primary dies, and its synchronous standby takes over at its address."""
    standby = Standby(scene.system, synchronous=True)
    scene.pause(0.5, 1)
    scene.begin()
    scene.system.postgres.kill()
    standby.promote()
    scene.healed()


def _without_faketime() -> str:
    return "" if FAKETIME.exists() else "libfaketime is not installed (Debian: apt install libfaketime)"


def _without_memory_groups() -> str:
    there = os.geteuid() == 0 and (_MEMORY_GROUPS / "cgroup.procs").exists()
    return "" if there else "control groups for memory (version 1) need Linux and root"


FAULTS = (
    Fault(
        "host-lost",
        "a machine with one of two workers is gone, and none takes its place for 16 s",
        lose_host,
        # The lease, the sweep after it, and what a busy machine adds.
        held_within=_LEASE_SECONDS + 2,
    ),
    Fault(
        "worker-memory-limit",
        "a worker in a control group without memory, killed by the kernel",
        _limit_memory,
        skip=_without_memory_groups,
    ),
    Fault(
        "database-clock-ahead",
        "the clock of PostgreSQL's machine jumps an hour ahead",
        _jump_of_database(before=-3600, after=0),
        skip=_without_faketime,
    ),
    Fault(
        "database-clock-behind",
        "the clock of PostgreSQL's machine jumps five seconds back",
        _jump_of_database(before=0, after=-5),
        skip=_without_faketime,
    ),
    Fault(
        "postgres-power-lost",
        "PostgreSQL's machine loses power: what was not synced is gone",
        _lose_power,
        forgets_claims=True,
        skip=why_no_disk,
        own_disk=True,
    ),
    Fault(
        "postgres-disk-full",
        "no room on PostgreSQL's disk for seconds",
        _fill_disk,
        skip=why_no_disk,
        own_disk=True,
        forgets_claims=True,
    ),
    Fault("postgres-stutters", "sessions of PostgreSQL stop for moments, one after the other", _stutter),
    Fault(
        "commits-slowly",
        "half a second before each commit, and no sweep",
        _commit_slowly,
        settings={"DELIVERY_SWEEP_SECONDS": "60"},
        quiet=True,
        lag_limit=5,
    ),
    Fault(
        "standby-promoted",
        "PostgreSQL is killed, and its synchronous standby promoted",
        _promote_standby,
        forgets_claims=True,
        skip=why_no_standby,
        is_last=True,
    ),
)
