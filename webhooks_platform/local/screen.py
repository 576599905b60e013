"""What the person at the terminal sees: a line for each step, and for what happens afterwards."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"


class Screen:
    def __init__(self, *, terminal: bool, colour: bool) -> None:
        self._terminal = terminal
        self._colour = colour
        # The step under way, shown on the last line of a terminal until it is done.
        self._doing = ""

    def line(self, text: str = "") -> None:
        clear = "\r\033[K" if self._doing else ""
        _write(f"{clear}{text}\n{self._doing}")

    def paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        """`… doing` at once, so that a long step is not a silence; `✔ done (1.2 s)` in its place afterwards."""
        begun_at = time.monotonic()
        self._begin(doing)
        try:
            yield
        finally:
            self._end()
        seconds = self.paint(DIM, f"({time.monotonic() - begun_at:.1f} s)")
        self.line(f"  {self.success(done)} {seconds}")

    def _begin(self, doing: str) -> None:
        if self._terminal:
            self._doing = f"  {self.paint(DIM, f'… {doing}')}"
            _write(self._doing)

    def _end(self) -> None:
        if self._doing:
            self._doing = ""
            _write("\r\033[K")

    def note(self, text: str) -> None:
        self.line(f"  {self.paint(DIM, f'· {text}')}")

    def restart(self, text: str) -> None:
        self.line(f"  {self.paint(YELLOW, '↻')} {text}")

    def received(self, text: str) -> None:
        self.line(f"  {self.paint(CYAN, 'receiver')} {text}")

    def success(self, text: str) -> str:
        return f"{self.paint(GREEN, '✔')} {text}"

    def warning(self, text: str) -> str:
        return f"{self.paint(YELLOW, '!')} {text}"

    def fail(self, text: str) -> None:
        self.line(f"\n  {self.paint(RED, '✘')} {text}\n")


def open_screen() -> Screen:
    # A terminal without UTF-8 shows a question mark instead of failing.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return Screen(terminal=terminal, colour=terminal and not os.environ.get("NO_COLOR"))


def short(path: Path) -> str:
    """The path as one would type it from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _write(text: str) -> None:
    # Nobody looks any more (a closed terminal, `| head`): that is no reason to leave processes behind.
    with suppress(OSError):
        sys.stdout.write(text)
        sys.stdout.flush()
