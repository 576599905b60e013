"""The platform as deployed: real web, worker and beat processes, on the test's servers or on servers of their own.

    stack = start_stack("web", "deliveries1", "background", "beat", DELIVERY_SWEEP_SECONDS="0.2")
    stack.kill("web")  # kill -9, its children too
    stack.restart("web")

Start, restart and kill from the test's main thread only: the kernel ends a process with the thread that started it.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import redis
from django.db import connection

from tests.local import free_port, short_dir, wait_until
from webhooks_platform.local import programs
from webhooks_platform.local.children import Child, last_lines
from webhooks_platform.local.environment import BASE_DIR, read_options
from webhooks_platform.local.folder import DataFolder, claim
from webhooks_platform.local.postgres import embedded_postgres
from webhooks_platform.local.server import RunningServer
from webhooks_platform.local.valkey import embedded_valkey


class Stack:
    """Processes by the names `make up` gives them: `web`, `deliveries1`, `deliveries2`, …, `background`, `beat`."""

    def __init__(self, folder: DataFolder, names: tuple[str, ...], env: dict[str, str]) -> None:
        given = {"DATA_DIR": folder.path, "PORT": free_port(), "DELIVERY_WORKERS": 8}  # as many as may be started
        options = read_options({name: str(value) for name, value in given.items()})
        self.url = options.url
        self._programs = {program.name: program for program in programs.platform(folder, env, options)}
        self._children = {name: Child(self._programs[name]) for name in names}
        self._clients: list[httpx.Client] = []

    def client(self, key: str, *, seconds: float = 30) -> httpx.Client:
        """A caller with a key; threads may share it. Closed with the stack."""
        headers = {"Authorization": f"Bearer {key}"}
        # Without an expiry: httpx closes an idle connection that grows too old, even one that a thread was just given.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)
        client = httpx.Client(base_url=f"{self.url}/api/v1/", headers=headers, timeout=seconds, limits=limits)
        self._clients.append(client)
        return client

    def pid(self, name: str) -> int:
        return self._children[name].pid

    def wait_ready(self, path: str = "readyz", *, seconds: float = 30) -> None:
        """Until the web server answers 200. Only /healthz does while Redis or PostgreSQL is stopped."""
        wait_until(lambda: self._answers(path), seconds=seconds)

    def kill(self, name: str) -> None:
        """kill -9, of the process and of those it started."""
        self._children[name].kill_now()
        assert self._children[name].wait(10), f"{name} survived kill -9"

    def terminate(self, name: str) -> None:
        """SIGTERM, as a deployment sends it."""
        self._children[name].stop()

    def wait_ended(self, name: str, *, seconds: float) -> None:
        assert self._children[name].wait(seconds), f"{name} still runs:\n{self.log(name)}"

    def start_more(self, name: str) -> None:
        """One more, while the others run."""
        self._children[name] = Child(self._programs[name])

    def restart(self, name: str) -> None:
        """Once more, after `kill` or instead of what runs."""
        self.kill(name)
        self._children[name] = Child(self._programs[name])

    def stop(self) -> None:
        """SIGTERM to all of them, then whatever it takes."""
        for client in self._clients:
            client.close()
        for child in self._children.values():
            child.stop()
        for child in self._children.values():
            if not child.wait(20):
                child.kill_now()
                child.wait(10)

    def log(self, name: str, lines: int = 40) -> str:
        return last_lines(self._programs[name].log, lines)

    def show_logs(self) -> None:
        """pytest shows what is written here where a test has failed, and nowhere else."""
        for name in self._children:
            sys.stdout.write(f"── {name} ──\n{self.log(name)}\n")

    def _answers(self, path: str) -> bool:
        for name, child in self._children.items():
            assert child.exit_code() is None, f"{name} ended by itself:\n{self.log(name)}"
        try:
            return httpx.get(f"{self.url}/{path}", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


StartStack = Callable[..., Stack]


@pytest.fixture
def start_stack(transactional_db: None, redis_client: "redis.Redis") -> Iterator[StartStack]:
    """Starts the named processes; the web server is ready when it returns. Keyword arguments are settings."""
    with ExitStack() as running:

        def start(*names: str, **settings: str) -> Stack:
            path = running.enter_context(short_dir())
            folder = running.enter_context(claim(path))
            stack = Stack(folder, names, {**os.environ, "DATABASE_URL": orm_database_url(), **settings})
            running.callback(stack.show_logs)
            running.callback(stack.stop)
            if "web" in names:
                stack.wait_ready()
            return stack

        yield start


@pytest.fixture
def own_valkey() -> Iterator[RunningServer]:
    """A Valkey that a test may stop. Ask for it before `start_stack`, so that the processes end first."""
    with short_dir() as path, claim(path) as folder, embedded_valkey(folder) as valkey:
        yield valkey


@dataclass(frozen=True)
class OwnPostgres:
    """A PostgreSQL that a test may stop and kill, and the URL of a fresh, migrated database on it."""

    server: RunningServer
    url: str


@pytest.fixture(scope="session")
def migrated_postgres() -> Iterator[RunningServer]:
    with short_dir() as path, claim(path) as folder, embedded_postgres(folder) as postgres:
        manage("migrate", "--verbosity", "0", DATABASE_URL=postgres.url)
        yield postgres


@pytest.fixture
def own_postgres(migrated_postgres: RunningServer) -> OwnPostgres:
    """Up, whatever the test before did to it. Ask for it before `start_stack`, so that the processes end first."""
    migrated_postgres.stop()
    migrated_postgres.start()
    name = f"test_{os.urandom(4).hex()}"
    with psycopg.connect(_with_database(migrated_postgres.url, "postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE webhooks")
    return OwnPostgres(migrated_postgres, _with_database(migrated_postgres.url, name))


def orm_database_url() -> str:
    """pytest-django's database, the one that this process's ORM sees."""
    return _with_database(os.environ["DATABASE_URL"], str(connection.settings_dict["NAME"]))


def manage(*arguments: str, **env: str) -> str:
    """`manage.py …` as a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", str(Path(BASE_DIR) / "manage.py"), *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _with_database(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()
