"""For tests of the local stack: real processes, looked at from outside. Waiting is on a condition, with a deadline."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from webhooks_platform.local.environment import BASE_DIR

# What tests/servers.py sets for this process. A stack under test makes its own.
OURS = {
    "DATABASE_URL",
    "DELIVERY_ALLOWED_NETWORKS",
    "DJANGO_SETTINGS_MODULE",
    "ENCRYPTION_KEYS",
    "LOG_LEVEL",
    "REDIS_URL",
    "SECRET_KEY",
}


class Stack:
    """`make up` as a process, with its own data folder and ports, and what it has printed so far."""

    def __init__(self, home: Path, **env: str) -> None:
        self.data_dir = home / "data"
        self.port = env.pop("PORT", "") or str(free_port())
        self.receiver_port = env.pop("RECEIVER_PORT", "") or str(free_port())
        inherited = {name: value for name, value in os.environ.items() if name not in OURS}
        own = {"DATA_DIR": str(self.data_dir), "ENV_FILE": str(home / ".env"), "NO_COLOR": "1"}
        self._output = tempfile.NamedTemporaryFile(prefix="out-", dir=home, delete=False)  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "webhooks_platform.local.up"],
            cwd=BASE_DIR,
            env={**inherited, **own, "PORT": self.port, "RECEIVER_PORT": self.receiver_port, **env},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            # A group of its own, as a terminal gives to a command: Ctrl-C goes to that group.
            start_new_session=True,
        )

    @property
    def screen(self) -> str:
        return Path(self._output.name).read_text()

    @property
    def curl(self) -> str:
        return next(line for line in self.screen.splitlines() if line.startswith("curl "))

    def wait_for(self, text: str, *, seconds: float = 60) -> None:
        wait_until(lambda: text in self.screen or self.process.poll() is not None, seconds=seconds)
        assert text in self.screen, self.screen

    def wait_for_banner(self) -> None:
        self.wait_for("Ctrl-C stops everything")

    def emit(self) -> str:
        """Emit as the banner says; the id of the accepted event."""
        arguments = shlex.split(self.curl)
        if shutil.which("curl"):
            answer = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=30).stdout
        else:
            url = next(part for part in arguments if part.startswith("http"))
            headers = [arguments[at + 1].split(": ", 1) for at, part in enumerate(arguments) if part == "-H"]
            request = urllib.request.Request(url, arguments[-1].encode(), dict(headers))
            answer = urllib.request.urlopen(request, timeout=30).read().decode()
        found = re.search(r'"id":\s*"(evt_\w+)"', answer)
        assert found, answer
        return found[1]

    def get(self, path: str) -> Any:
        """Ask its API, with the banner's key."""
        key = self.curl.split("Bearer ")[1].split("'")[0]
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)

    def is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", int(self.receiver_port)), timeout=5).close()
            return bool(self.get("/readyz")["status"] == "ok")
        except OSError:
            return False

    def pid_of(self, name: str) -> int:
        """The process that runs under this name at the moment, or 0."""
        words = {"web": "granian", "postgres": "-D", "valkey": "valkey-server", "receiver": "receiver.py"}
        for pid in sorted(processes_of(self.data_dir)):
            with suppress(OSError):
                if words.get(name, f"{name}@%h") in command_line(pid):
                    return pid
        return 0

    def press_ctrl_c(self) -> int:
        """To the whole group, as a terminal does; the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(60)

    def close(self) -> None:
        """Whatever the test did, nothing of it stays."""
        if self.process.poll() is None:
            self.press_ctrl_c()
        for pid in processes_of(self.data_dir):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._output.close()


@contextmanager
def running_stack(home: Path, **env: str) -> Iterator[Stack]:
    stack = Stack(home, **env)
    try:
        yield stack
    finally:
        stack.close()


@contextmanager
def short_dir() -> Iterator[Path]:
    """A folder whose path is short enough for the sockets in it; pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="wh", ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


def wait_until(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_running(pid: int) -> bool:
    """A zombie does not count: it has ended, only nobody has asked yet."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def processes_of(data_dir: Path) -> list[int]:
    """Every living process of a stack, by the DATA_DIR in its environment or by working inside that folder.

    PostgreSQL's own children overwrite their environment with a title, but they all work in the data folder.
    """
    mark = f"DATA_DIR={data_dir}\0".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            inside = (process / "cwd").readlink().is_relative_to(data_dir)
            if inside or mark in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def command_line(pid: int) -> str:
    return (Path("/proc") / str(pid) / "cmdline").read_text()
