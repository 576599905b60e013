"""The real system in a folder of its own: PostgreSQL, Valkey, web, two delivery workers, a background worker and beat.

Start, kill and restart from the main thread only: the kernel ends a process with the thread that started it.
"""

import base64
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import httpx
import psycopg
import redis

from tests.faults.harness.disk import Disk
from tests.local import free_port, processes_of, short_dir, wait_until
from webhooks_platform import addresses
from webhooks_platform.local import programs
from webhooks_platform.local.children import Child, Program, last_lines
from webhooks_platform.local.environment import BASE_DIR, read_options
from webhooks_platform.local.folder import DataFolder, claim
from webhooks_platform.local.postgres import embedded_postgres, prepare
from webhooks_platform.local.server import RunningServer
from webhooks_platform.local.valkey import embedded_valkey

WORKERS = ("deliveries1", "deliveries2")
PROCESSES = ("web", *WORKERS, "background", "beat")
# Debian's package `libfaketime`. Without it the faults of clocks are skipped, and the report says so.
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class System:
    """Everything that runs, by name. `postgres` and `valkey` are the servers; the rest are the platform's processes."""

    def __init__(self, folder: DataFolder, postgres: RunningServer, valkey: RunningServer, env: dict[str, str]) -> None:
        self.folder = folder
        self.postgres = postgres
        self.valkey = valkey
        self.env = env
        options = read_options({"DATA_DIR": str(folder.path), "PORT": str(free_port()), "DELIVERY_WORKERS": "2"})
        self.url = options.url
        self._programs = {program.name: program for program in programs.platform(folder, env, options)}
        self._programs["beat2"] = _second_beat(self._programs["beat"], folder)
        self._children: dict[str, Child] = {}
        # Whose code runs.
        self.tree = BASE_DIR
        # PostgreSQL's own, where this system was made with one.
        self.disk: Disk | None = None
        self._further: list[Callable[[], None]] = []
        # Kept: each new client would read all certificates there are.
        self._probe = httpx.Client(base_url=self.url, timeout=5)

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, *names: str, env: Mapping[str, str] | None = None, files: int | None = None) -> None:
        """Once more, or for the first time. `env` and a limit of open files are for this start alone."""
        for name in names:
            program = replace(self._programs[name], cwd=self.tree)
            if env:
                program = replace(program, env={**program.env, **env})
            self._children[name] = Child(program)
            if files:
                resource.prlimit(self.pid(name), resource.RLIMIT_NOFILE, (files, files))

    def kill(self, *names: str) -> None:
        """kill -9, of each process and of those it started."""
        for name in names:
            self._children[name].kill_now()
        for name in names:
            assert self._children[name].wait(10), f"{name} survived kill -9"

    def terminate(self, *names: str, seconds: float = 45) -> None:
        """SIGTERM, as a deployment sends it, and then the time to end."""
        for name in names:
            self._children[name].stop()
        for name in names:
            assert self._children[name].wait(seconds), f"{name} still runs:\n{self.log(name)}"

    def pid(self, name: str) -> int:
        return self._children[name].pid

    def has_ended(self, name: str) -> bool:
        return self._children[name].exit_code() is not None

    def database_sessions(self) -> list[int]:
        """The processes of PostgreSQL that serve somebody."""
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
            ).fetchall()
            return [row[0] for row in rows if row[0] != connection.info.backend_pid]

    def child_pids(self, name: str) -> list[int]:
        """The processes that this one started: a web server's workers."""
        return _children_of(self.pid(name))

    def remove(self, name: str) -> None:
        self.kill(name)
        del self._children[name]

    @contextmanager
    def frozen(self, *pids: int) -> Iterator[None]:
        """SIGSTOP until the end of the block: the process is there, holds what it holds, and does nothing."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def log(self, name: str, lines: int = 30) -> str:
        return last_lines(self._programs[name].log, lines)

    def log_size(self, name: str) -> int:
        log = self._programs[name].log
        return log.stat().st_size if log.exists() else 0

    def logged_since(self, name: str, size: int) -> str:
        """From a size on; all of it, where the log was shortened since."""
        with self._programs[name].log.open("rb") as log:
            log.seek(size if self.log_size(name) >= size else 0)
            return log.read().decode(errors="replace")

    def dead_processes(self) -> list[str]:
        return [name for name in self._children if self.has_ended(name)]

    # ── servers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def connect(self, seconds: int = 5) -> "psycopg.Connection":
        return psycopg.connect(self.postgres.url, autocommit=True, connect_timeout=seconds)

    def redis(self) -> "redis.Redis":
        return redis.Redis.from_url(self.valkey.url, socket_timeout=5)

    def postgres_pids(self) -> list[int]:
        return [self.postgres.pid, *_children_of(self.postgres.pid)]

    # ── fail points and clocks ───────────────────────────────────────────────────────────────────────────────────────

    def arm(self, name: str, content: str = "") -> Path:
        """The next process that reaches the fail point is killed, or held for the seconds given."""
        fresh, point = self._points / f"{name}.new", self._points / name
        fresh.write_text(content)
        fresh.rename(point)
        return point

    @property
    def _points(self) -> Path:
        return Path(self.env["FAIL_POINTS_DIR"])

    def clock(self, name: str, offset_seconds: int) -> dict[str, str]:
        """The environment of a process whose wall clock is off. `set_clock` with the same name moves it later."""
        self.set_clock(name, offset_seconds)
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self.folder.path / f"clock.{name}"),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set_clock(self, name: str, offset_seconds: int) -> None:
        (self.folder.path / f"clock.{name}").write_text(f"{offset_seconds:+d}s\n")

    # ── the outside ──────────────────────────────────────────────────────────────────────────────────────────────────

    def client(self, key: str, *, seconds: float = 10) -> httpx.Client:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"{self.url}/api/v1/", headers=headers, timeout=seconds, limits=limits)

    def issue_key(self, role: str) -> str:
        return self.manage("issue_key", "--role", role)

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore::RuntimeWarning", str(self.tree / "manage.py"), *arguments],
            env=self.env, cwd=self.tree, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def wait_ready(self, *, seconds: float = 60) -> None:
        wait_until(lambda: self.answers("readyz"), seconds=seconds)

    def answers(self, path: str) -> bool:
        try:
            return self._probe.get(f"/{path}").status_code == 200
        except httpx.TransportError:
            return False

    def on_stop(self, stop: Callable[[], None]) -> None:
        """For what a fault has started beside."""
        self._further.append(stop)

    def stop(self) -> None:
        self._probe.close()
        for child in self._children.values():
            child.stop()
        for child in self._children.values():
            if not child.wait(20):
                child.kill_now()
                child.wait(10)
        for stop in self._further:
            stop()


@contextmanager
def running_system(
    *, own_disk: bool = False, settings: Mapping[str, str] = MappingProxyType({}), tree: Path = BASE_DIR
) -> Iterator[System]:
    """Servers, migrations and processes, ready for requests: of `tree`'s code, under the platform's `settings`."""
    with ExitStack() as stack:
        path = stack.enter_context(short_dir())
        folder = stack.enter_context(claim(path))
        (path / "points").mkdir()
        (path / "points").chmod(0o700)
        # Later than the servers' own end, so that what is found is left behind.
        stack.callback(_check_nothing_left, path)
        disk = None
        if own_disk:
            prepare(folder, say=lambda line: None)
            disk = Disk(folder.postgres, path / "disk")
            disk.take_over()
            stack.callback(disk.unmount)
        postgres = stack.enter_context(embedded_postgres(folder))
        valkey = stack.enter_context(embedded_valkey(folder))
        system = System(folder, postgres, valkey, {**_environment(path), **settings})
        system.disk, system.tree = disk, tree
        system.manage("migrate", "--verbosity", "0")
        stack.callback(system.stop)
        system.start(*PROCESSES)
        system.wait_ready()
        yield system


def _environment(path: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DELIVERY_", "DJANGO_"))},
        "DATA_DIR": str(path),
        "ENV_FILE": "",
        "SECRET_KEY": "only-for-faults-" + "x" * 40,
        "ENCRYPTION_KEYS": "f1:" + base64.b64encode(b"f" * 32).decode(),
        "DELIVERY_ALLOWED_NETWORKS": "127.0.0.0/8,::1/128",
        "DATABASE_URL": addresses.database_url(path),
        "REDIS_URL": addresses.redis_url(path),
        "LOG_LEVEL": "WARNING",
        "FAIL_POINTS_DIR": str(path / "points"),
        "FAIL_POINTS_ALLOWED": "true",
        # A breaker that a fault has opened closes within the round.
        "BREAKER_COOLDOWN_SECONDS": "1",
        "BREAKER_MAX_COOLDOWN_SECONDS": "2",
    }


def _second_beat(beat: Program, folder: DataFolder) -> Program:
    schedule = str(folder.path / "celerybeat-schedule")
    command = [f"{schedule}2" if part == schedule else part for part in beat.command]
    return replace(beat, name="beat2", command=command, log=folder.log("beat2"))


def _children_of(pid: int) -> list[int]:
    try:
        text = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text()
    except FileNotFoundError:
        return []
    return [int(each) for each in text.split()]


def _check_nothing_left(path: Path) -> None:
    """A killed process may take a moment to be gone."""
    wait_until(lambda: not set(processes_of(path)) - {os.getpid()}, seconds=10)
