"""The catalogue of faults: CONFORMANCE F and more. Each acts on a scene, in the main thread."""

import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg

from tests.faults.harness import machine_faults
from tests.faults.harness.receiver import why_no_repair
from tests.faults.harness.rounds import Fault, Scene
from tests.faults.harness.system import FAKETIME, PROCESSES, WORKERS
from tests.local import wait_until

# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _kill(*names: str, down: tuple[float, float] = (0, 0.5)) -> Callable[[Scene], None]:
    """kill -9, a while without, and a new one, as a supervisor does."""

    def inject(scene: Scene) -> None:
        scene.begin()
        scene.system.kill(*names)
        scene.pause(*down)
        scene.system.start(*names)
        _wait_started(scene, names)
        scene.healed()

    return inject


def _wait_started(scene: Scene, names: tuple[str, ...]) -> None:
    if "web" in names:
        wait_until(lambda: scene.system.answers("healthz"), seconds=60)


def _kill_busy_worker(scene: Scene) -> None:
    worker = scene.busiest_worker()
    scene.begin()
    scene.system.kill(worker)
    scene.pause(0, 0.5)
    scene.system.start(worker)
    scene.healed()


def _kill_web_child(scene: Scene) -> None:
    scene.begin()
    os.kill(scene.rng.choice(scene.system.child_pids("web")), signal.SIGKILL)
    wait_until(lambda: scene.system.answers("healthz"), seconds=30)
    scene.healed()


def _kill_at(point: str, name: str | None) -> Callable[[Scene], None]:
    """Whoever reaches the point is killed there; a worker is started again, a web server does so itself."""

    def inject(scene: Scene) -> None:
        scene.begin()
        armed = scene.system.arm(point)
        wait_until(lambda: not armed.exists(), seconds=30)
        if name is None:
            wait_until(lambda: scene.system.answers("healthz"), seconds=30)
        else:
            wait_until(lambda: any(map(scene.system.has_ended, WORKERS)), seconds=10)
            scene.system.start(*(each for each in WORKERS if scene.system.has_ended(each)))
        scene.healed()

    return inject


def _freeze_worker(scene: Scene) -> None:
    """Longer than its lease: when it wakes up, all that it holds belongs to somebody else."""
    worker = scene.busiest_worker()
    scene.begin()
    with scene.system.frozen(scene.system.pid(worker)):
        scene.pause(17, 19)
    scene.healed()


def _two_beats(scene: Scene) -> None:
    scene.begin()
    scene.system.start("beat2")
    scene.pause(2, 4)
    scene.system.remove("beat2")
    scene.healed()


def _deploy(scene: Scene) -> None:
    scene.begin()
    scene.system.terminate(*PROCESSES)
    scene.system.start(*PROCESSES)
    wait_until(lambda: scene.system.answers("healthz"), seconds=60)
    scene.healed()


def _few_files(scene: Scene) -> None:
    """Both workers at the number of files they have open: no new connection to a receiver can be made."""
    with ExitStack() as limits:
        scene.begin()
        for name in WORKERS:
            pid = scene.system.pid(name)
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            open_now = len(list((Path("/proc") / str(pid) / "fd").iterdir()))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now, before[1]))
            limits.callback(resource.prlimit, pid, resource.RLIMIT_NOFILE, before)
        scene.pause(2, 3)
    scene.healed()


def _out_of_memory(scene: Scene) -> None:
    """A worker that may take no more memory; whatever comes of it, a supervisor starts another."""
    scene.begin()
    pid = scene.system.pid("deliveries1")
    size = int((Path("/proc") / str(pid) / "statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
    scene.pause(2, 3)
    scene.system.kill("deliveries1")
    scene.system.start("deliveries1")
    scene.healed()


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _stop_redis(scene: Scene) -> None:
    scene.begin()
    scene.system.valkey.stop()
    scene.pause(2, 4)
    scene.system.valkey.start()
    scene.healed()


def _kill_redis(scene: Scene) -> None:
    scene.begin()
    scene.system.valkey.kill()
    scene.system.valkey.start()
    scene.healed()


def _flush_redis(scene: Scene) -> None:
    scene.begin()
    for _ in range(3):
        with scene.system.redis() as client:
            client.flushall()
        scene.pause(0.05, 0.3)
    scene.healed()


def _fill_redis(scene: Scene) -> None:
    scene.begin()
    with scene.system.redis() as client:
        client.config_set("maxmemory", "1")
        scene.pause(2, 4)
        client.config_set("maxmemory", "256mb")
    scene.healed()


def _freeze_redis(scene: Scene) -> None:
    scene.begin()
    with scene.system.frozen(scene.system.valkey.pid):
        scene.pause(5, 7)
    scene.healed()


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _stop_postgres(scene: Scene) -> None:
    scene.begin()
    scene.system.postgres.stop()
    scene.pause(3, 6)
    scene.system.postgres.start()
    scene.healed()


def _crash_postgres(scene: Scene) -> None:
    """Immediate shutdown, as `pg_ctl stop -m immediate`: recovery at the next start."""
    scene.begin()
    os.kill(scene.system.postgres.pid, signal.SIGQUIT)
    scene.system.postgres.stop()
    scene.system.postgres.start()
    scene.healed()


def _kill_postgres(scene: Scene) -> None:
    scene.begin()
    scene.system.postgres.kill()
    scene.system.postgres.start()
    scene.healed()


def _freeze_postgres(scene: Scene) -> None:
    scene.begin()
    with scene.system.frozen(*scene.system.postgres_pids()):
        scene.pause(3, 5)
    scene.healed()


def _end_backends(scene: Scene) -> None:
    scene.begin()
    for _ in range(3):
        with scene.system.connect() as connection:
            connection.execute("""
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
            """)
        scene.pause(0.1, 0.5)
    scene.healed()


def _exhaust_connections(scene: Scene) -> None:
    """Every connection there is, taken by somebody else; the platform's own ended, so that it needs new ones."""
    scene.begin()
    with ExitStack() as taken:
        until = time.monotonic() + scene.rng.uniform(3, 5)
        while time.monotonic() < until:
            with suppress(psycopg.OperationalError):
                mine = taken.enter_context(scene.system.connect(1))
                mine.execute("SET application_name = 'greedy'")
                mine.execute("""
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE application_name <> 'greedy' AND backend_type = 'client backend'
                """)
    scene.healed()


def _lock_lane(scene: Scene) -> None:
    """Somebody's transaction holds the failing endpoint's lane and one delivery of it; all others go on."""
    scene.receivers.sick_mode = "error"
    scene.begin()
    with psycopg.connect(scene.system.postgres.url) as connection:
        connection.execute("""
            SELECT FROM subscriptions_lane lane JOIN subscriptions_endpoint endpoint ON endpoint.id = lane.endpoint_id
            WHERE endpoint.url LIKE '%/sick' FOR UPDATE OF lane
        """)
        scene.pause(4, 6)
    scene.receivers.sick_mode = "ok"
    scene.healed()


def _lock_key(scene: Scene) -> None:
    """Somebody's transaction holds one ordering key."""
    scene.begin()
    with psycopg.connect(scene.system.postgres.url) as connection:
        connection.execute("SELECT FROM deliveries_orderingkey ORDER BY id DESC LIMIT 1 FOR UPDATE")
        scene.pause(4, 6)
    scene.healed()


# ── receivers and clocks ─────────────────────────────────────────────────────────────────────────────────────────────


def _sick(mode: str) -> Callable[[Scene], None]:
    def inject(scene: Scene) -> None:
        scene.begin()
        scene.receivers.sick_mode = mode
        scene.pause(3, 4)
        scene.receivers.sick_mode = "ok"
        scene.healed()

    return inject


def _jump(name: str, seconds: int) -> Callable[[Scene], None]:
    """The process's wall clock jumps while it works, and stays there; then it is started anew with the right time."""

    def inject(scene: Scene) -> None:
        system = scene.system
        system.terminate(name)
        system.start(name, env=system.clock(name, 0))
        _wait_started(scene, (name,))
        scene.pause(1, 2)
        scene.begin()
        system.set_clock(name, seconds)
        scene.pause(4, 5)
        scene.healed()
        system.terminate(name)
        system.start(name)
        _wait_started(scene, (name,))

    return inject


def _without_faketime() -> str:
    return "" if FAKETIME.exists() else "libfaketime is not installed (Debian: apt install libfaketime)"


def _nothing(scene: Scene) -> None:
    scene.begin()
    scene.pause(1, 2)
    scene.healed()


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("none", "no fault: what the load alone looks like", _nothing, spares_healthy=True),
        Fault("web-killed", "kill -9 of the web server and its workers", _kill("web")),
        Fault("web-child-killed", "kill -9 of one of the web server's workers", _kill_web_child),
        Fault(
            "web-before-commit",
            "kill -9 of a web worker before an emit's commit",
            _kill_at("accept.before_commit", None),
        ),
        Fault(
            "web-after-commit",
            "kill -9 of a web worker after an emit's commit, before its answer",
            _kill_at("accept.after_commit", None),
        ),
        Fault("worker-killed", "kill -9 of one of two delivery workers, started again", _kill_busy_worker),
        Fault("workers-killed", "kill -9 of all delivery workers, started again", _kill(*WORKERS)),
        Fault(
            "worker-after-claim",
            "kill -9 of a worker after a claim, before sending",
            _kill_at("claim.after_commit", "worker"),
        ),
        Fault(
            "worker-before-settle",
            "kill -9 of a worker after the receivers' answers, before writing them",
            _kill_at("settle.before_write", "worker"),
        ),
        Fault("worker-frozen", "one of two workers frozen for longer than its lease", _freeze_worker),
        Fault("worker-few-files", "workers without a free file descriptor", _few_files, spares_healthy=True),
        Fault("worker-out-of-memory", "a worker that gets no more memory, then killed", _out_of_memory),
        Fault("background-killed", "kill -9 of the background worker", _kill("background")),
        Fault("beat-killed", "kill -9 of beat", _kill("beat", down=(1, 2))),
        Fault("two-beats", "two beats at once", _two_beats),
        Fault("everything-killed", "kill -9 of every process of the platform", _kill(*PROCESSES)),
        Fault("deploy", "SIGTERM of everything, then the next version", _deploy),
        Fault("redis-stopped", "Redis stopped for seconds, back empty", _stop_redis),
        Fault("redis-killed", "Redis killed and restarted empty", _kill_redis),
        Fault("redis-flushed", "FLUSHALL, three times", _flush_redis),
        Fault("redis-full", "Redis full (noeviction)", _fill_redis),
        Fault("redis-frozen", "Redis hangs (SIGSTOP)", _freeze_redis, spares_healthy=True),
        Fault("postgres-stopped", "PostgreSQL stopped for seconds", _stop_postgres),
        Fault(
            "postgres-crashed",
            "PostgreSQL stopped with -m immediate and restarted",
            _crash_postgres,
            forgets_claims=True,
        ),
        Fault("postgres-killed", "kill -9 of PostgreSQL, restarted", _kill_postgres, forgets_claims=True),
        Fault("postgres-frozen", "PostgreSQL hangs (SIGSTOP)", _freeze_postgres),
        Fault("backends-terminated", "all database sessions ended, three times", _end_backends),
        Fault("connections-exhausted", "no free database connection for seconds", _exhaust_connections),
        Fault("lane-locked", "a failing endpoint's lane locked by somebody", _lock_lane, spares_healthy=True),
        Fault("key-locked", "an ordering key locked by somebody", _lock_key, spares_healthy=True),
        Fault("receiver-hangs", "one receiver hangs", _sick("hang"), spares_healthy=True),
        Fault("receiver-resets", "one receiver resets connections", _sick("reset"), spares_healthy=True),
        Fault(
            "receiver-vanishes",
            "one receiver is gone without a word: its connections stay half open",
            _sick("vanish"),
            skip=why_no_repair,
            spares_healthy=True,
        ),
        Fault("receiver-errors", "one receiver answers 500", _sick("error"), spares_healthy=True),
        Fault("receiver-flaps", "one receiver answers 503 every other half second", _sick("flap"), spares_healthy=True),
        Fault(
            "worker-clock-ahead",
            "a worker's clock jumps an hour ahead",
            _jump("deliveries1", 3600),
            skip=_without_faketime,
            spares_healthy=True,
        ),
        Fault(
            "worker-clock-behind",
            "a worker's clock jumps an hour back",
            _jump("deliveries1", -3600),
            skip=_without_faketime,
            spares_healthy=True,
        ),
        Fault(
            "web-clock-ahead", "the web server's clock jumps an hour ahead", _jump("web", 3600), skip=_without_faketime
        ),
        Fault(
            "background-clock-ahead",
            "the background worker's clock jumps two minutes ahead",
            _jump("background", 120),
            skip=_without_faketime,
            spares_healthy=True,
        ),
        *machine_faults.FAULTS,
    )
}
