"""Child processes that never outlive their parent: each in a session of its own, tethered, logging to its own file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TETHER = Path(__file__).with_name("tether.py")
MAX_LOG_BYTES = 10_000_000


@dataclass(frozen=True)
class Account:
    """Whom to run as, when that is not ourselves."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, kw_only=True)
class Program:
    """Everything about a process but its pid."""

    name: str
    command: Sequence[str]
    log: Path
    cwd: Path
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    account: Account | None = None
    # Later stages stop first; programs of one stage stop together.
    stage: int = 0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10
    kill_signal: signal.Signals = signal.SIGKILL
    # What the kernel sends it when we die without a word.
    death_signal: signal.Signals = signal.SIGTERM
    # Runs before every start, the first one and each one after a crash.
    before_start: Callable[[], None] = lambda: None


class Child:
    """A started program."""

    def __init__(self, program: Program) -> None:
        program.before_start()
        shorten(program.log)
        account = program.account
        tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), str(int(program.death_signal))]
        user = [str(account.uid), str(account.gid)] if account else ["-1", "-1"]
        with program.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*tether, *user, *program.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=program.cwd,
                env=dict(program.env),
                # A terminal's Ctrl-C reaches the parent alone, which then stops its children in order.
                start_new_session=True,
            )
        self.program = program
        self.started_at = time.monotonic()
        self._code: int | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs. A dead child's own children (a web server's workers) are killed with it."""
        if self._code is None:
            self._code = self._process.poll()
            if self._code is not None:
                self._signal_group(signal.SIGKILL)
        return self._code

    def stop(self) -> None:
        self._send(self.program.stop_signal)

    def kill(self) -> None:
        """At once, yet without leaving processes behind where a program has a signal for that."""
        self._send(self.program.kill_signal)

    def kill_now(self) -> None:
        if self.exit_code() is None:
            self._signal_group(signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """True if it ended within that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return self.exit_code() is not None

    def _send(self, number: signal.Signals) -> None:
        # Popen does not signal a process it has already reaped, so a reused pid is never hit.
        self._process.send_signal(number)

    def _signal_group(self, number: signal.Signals) -> None:
        # Gone already is fine; macOS says EPERM of a group of zombies.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def shorten(log: Path) -> None:
    """Keep one older log beside a log that has grown too long. It is copied, not renamed: its writer has it open."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.with_suffix(".log.1").write_bytes(log.read_bytes())
        os.truncate(log, 0)


def last_lines(log: Path, count: int = 12) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-count:])
