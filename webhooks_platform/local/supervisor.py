"""Keeps programs running until told to stop, then stops them in order and leaves none behind.

One thread does it all: the kernel ties each child to the thread that started it (see tether.py), and a signal only
raises a flag that is looked at between steps, so no child can slip through between being started and being known.
"""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from webhooks_platform.local.children import Child, Program, shorten

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 10.0
# Having lived this long, a program that dies again is treated as if it were the first time.
HEALTHY_SECONDS = 30.0
TICK_SECONDS = 0.05
LOG_CHECK_SECONDS = 10.0
ECHO_SECONDS = 0.3


class Interrupted(Exception):
    """Ctrl-C, or a signal that means the same."""


@dataclass
class Supervised:
    """A program, and its process: a running one, or the next one's start time."""

    program: Program
    child: Child | None = None
    start_at: float = 0.0
    delay_seconds: float = 0.0
    restart_count: int = 0


class Supervisor:
    def __init__(self, *, on_restart: Callable[[Program, str], None], on_wait: Callable[[str], None]) -> None:
        self._on_restart = on_restart
        self._on_wait = on_wait
        self._supervised: list[Supervised] = []
        self._signal_count = 0
        self._signalled_at = float("-inf")
        self._logs_checked_at = 0.0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    @property
    def has_started(self) -> bool:
        return bool(self._supervised)

    def start(self, *programs: Program) -> None:
        for program in programs:
            self._supervised.append(Supervised(program, start_at=time.monotonic()))
        self.tick()

    def run(self, program: Program, *, seconds: float) -> int | None:
        """Run a program to its end and give its exit code; None if it took longer than that."""
        child = Child(program)
        try:
            self.wait_until(lambda: child.exit_code() is not None, seconds=seconds)
            return child.exit_code()
        finally:
            child.kill_now()
            child.wait(5)

    def wait_until(self, condition: Callable[[], bool], *, seconds: float, every: float = TICK_SECONDS) -> bool:
        """Keep everything running until the condition holds. False when it did not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(every)
            self.tick()
            if self._signal_count:
                raise Interrupted
        return True

    def restart_count(self, name: str) -> int:
        return sum(each.restart_count for each in self._supervised if each.program.name == name)

    def tick(self) -> None:
        now = time.monotonic()
        for each in self._supervised:
            if each.child is not None:
                self._notice_death(each, now)
            elif now >= each.start_at:
                each.child = Child(each.program)
        if now > self._logs_checked_at + LOG_CHECK_SECONDS:
            self._logs_checked_at = now
            for each in self._supervised:
                shorten(each.program.log)

    def stop(self) -> bool:
        """Stop everything, the last stage first. A second Ctrl-C kills what is left at once. False if anything was."""
        self._signal_count = 0
        clean = True
        for stage in sorted({each.program.stage for each in self._supervised}, reverse=True):
            children = [each.child for each in self._supervised if each.child and each.program.stage == stage]
            clean &= self._stop_stage(children)
        return clean

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # One Ctrl-C or one `kill` may arrive twice, once by way of make. No person is that quick.
        now = time.monotonic()
        if now > self._signalled_at + ECHO_SECONDS:
            self._signal_count += 1
        self._signalled_at = now

    def _notice_death(self, each: Supervised, now: float) -> None:
        assert each.child is not None
        code = each.child.exit_code()
        if code is None:
            return
        each.delay_seconds = restart_delay(each.delay_seconds, lived_seconds=now - each.child.started_at)
        each.start_at = now + each.delay_seconds
        each.child = None
        each.restart_count += 1
        self._on_restart(each.program, f"{how_it_ended(code)}, starting it again in {each.delay_seconds:g} s")

    def _stop_stage(self, children: list[Child]) -> bool:
        for child in children:
            child.stop()
        begun_at = time.monotonic()
        told = False
        while alive := [child for child in children if child.exit_code() is None]:
            waited = time.monotonic() - begun_at
            if self._signal_count or waited > max(child.program.stop_seconds for child in alive):
                _kill(alive)
                return False
            if waited > 1 and not told:
                told = True
                self._on_wait(f"waiting for {', '.join(child.program.name for child in alive)}")
            time.sleep(TICK_SECONDS)
        return True


def restart_delay(previous_seconds: float, *, lived_seconds: float) -> float:
    """How long to wait before the next start: doubling, up to a limit, and from the beginning after a healthy while."""
    if previous_seconds == 0 or lived_seconds >= HEALTHY_SECONDS:
        return FIRST_DELAY_SECONDS
    return min(previous_seconds * 2, LONGEST_DELAY_SECONDS)


def how_it_ended(code: int) -> str:
    return f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with exit code {code}"


def _kill(children: list[Child]) -> None:
    for child in children:
        child.kill()
    for child in children:
        if not child.wait(5):
            child.kill_now()
            child.wait(5)
