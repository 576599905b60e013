"""A server out of a wheel, run as a foreground child of ours.

Not with the wheels' own server classes and not with `pg_ctl start`: those make daemons, which outlive a command that is
killed and then hold the data folder against the next start. A tethered child cannot.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from webhooks_platform.local.children import Child, Program, last_lines
from webhooks_platform.local.folder import SetupError

START_SECONDS = 60
START_TRIES = 5


@dataclass(frozen=True)
class Server:
    """A program that others connect to."""

    program: Program
    url: str
    # Connects and asks; also makes what a first start lacks, such as the database.
    is_ready: Callable[[], bool]


class RunningServer:
    """A server that runs for as long as a `with` block, and can be made to crash and come back."""

    def __init__(self, server: Server) -> None:
        self.url = server.url
        self._server = server
        self._child = self._start(server.program)

    @property
    def program(self) -> Program:
        return self._server.program

    @property
    def pid(self) -> int:
        return self._child.pid

    def kill(self) -> None:
        """As a crash: no warning, no cleaning up."""
        self._child.kill_now()
        self._child.wait(START_SECONDS)

    def stop(self) -> None:
        """As an administrator would, waiting until it is down."""
        self._child.stop()
        if not self._child.wait(self._server.program.stop_seconds):
            self._child.kill_now()
            self._child.wait(START_SECONDS)

    def start(self, *, env: Mapping[str, str] | None = None) -> None:
        """Once more, after `kill` or `stop`; with more in its environment for this time.

        It is set after the change of user: what it makes a program load belongs to that user.
        """
        given = [f"{name}={value}" for name, value in (env or {}).items()]
        command = ["/usr/bin/env", *given, *self.program.command] if given else self.program.command
        self._child = self._start(replace(self.program, command=command))

    def has_ended(self) -> bool:
        return self._child.exit_code() is not None

    def _start(self, program: Program) -> Child:
        # More than once: the last processes of a crashed PostgreSQL hold its shared memory for a moment.
        for _ in range(START_TRIES):
            child = Child(program)
            if self._answers(child):
                return child
        raise SetupError(self._complaint())

    def _answers(self, child: Child) -> bool:
        deadline = child.started_at + START_SECONDS
        while child.exit_code() is None and time.monotonic() < deadline:
            if self._server.is_ready():
                return True
            time.sleep(0.01)
        child.kill_now()
        child.wait(START_SECONDS)
        time.sleep(0.2)
        return False

    def _complaint(self) -> str:
        log = self._server.program.log
        return f"{self._server.program.name} did not start. The end of {log}:\n{last_lines(log)}"


@contextmanager
def running(server: Server) -> Iterator[RunningServer]:
    started = RunningServer(server)
    try:
        yield started
    finally:
        started.stop()


def wheel(package: str) -> Path:
    """The folder of an installed package, found without importing it: these two act on import."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SetupError(f"{package} is not installed. `make install` installs it, or set DATABASE_URL and REDIS_URL.")
    return Path(spec.submodule_search_locations[0])
