"""The data folder of one running stack: its layout, and the lock that makes it ours.

Whoever starts a server on the folder needs a `DataFolder`, and only `claim` makes one, so a second start cannot reach
the point where it would clean up after the first.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from webhooks_platform import addresses


class SetupError(Exception):
    """The stack cannot start. The text is for the person at the terminal and says what to do."""


@dataclass(frozen=True)
class DataFolder:
    path: Path
    # The run before this one was cut short (kill -9, power), so its processes may still be ending.
    was_interrupted: bool = False

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def valkey(self) -> Path:
        return self.path / "valkey"

    @property
    def sockets(self) -> Path:
        return addresses.socket_dir(self.path)

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"


@contextmanager
def claim(data_dir: Path, *, url: str = "") -> Iterator[DataFolder]:
    """Hold the folder until the block ends. The kernel lets go of the lock with the process, however it dies."""
    path = data_dir.resolve()
    try:
        # Others may pass through (the servers' user has to, when we are root) and look at nothing.
        path.mkdir(mode=0o711, parents=True, exist_ok=True)
        (path / "logs").mkdir(mode=0o700, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except PermissionError as error:
        raise SetupError(
            f"{error.filename} belongs to another user. Run `make up` as that user, or remove {path} with its data."
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(_already_running(path, os.pread(lock, 4096, 0))) from None
        was_interrupted = bool(os.pread(lock, 1, 0))
        _write(lock, json.dumps({"pid": os.getpid(), "url": url}).encode())
        try:
            yield DataFolder(path=path, was_interrupted=was_interrupted)
        finally:
            _write(lock, b"")
    finally:
        os.close(lock)


def _already_running(path: Path, note: bytes) -> str:
    try:
        holder = json.loads(note)
    except ValueError:  # the holder is between taking the lock and writing its note
        holder = {}
    where = f" at {holder['url']}" if holder.get("url") else ""
    pid = f" (pid {holder['pid']})" if holder.get("pid") else ""
    return f"Already running{where}{pid} on {path}. Stop that one with Ctrl-C first; nothing was changed."


def _write(lock: int, content: bytes) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, content, 0)
