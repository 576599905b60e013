"""Named moments of the walk at which a fault test can kill or hold the process that reaches them. Off in production.

    fail_points.reach("accept.before_commit")

Off, `reach` is a function that does nothing. Turned on (FAIL_POINTS_DIR with FAIL_POINTS_ALLOWED, see
webhooks_platform/checks.py), a file of the point's name in that folder arms it. The first process to arrive takes the
file away, so exactly one process meets each fault: an empty file kills it as `kill -9` does, a number in the file holds
it for so many seconds.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

NAMES = (
    "accept.before_commit",  # the events are written, their idempotency record is not, nothing is committed
    "accept.after_commit",  # committed; the caller has no answer, no pump was told
    "claim.after_commit",  # claimed; nothing was sent
    "settle.before_write",  # the receiver has answered; nothing was recorded
)
_LONGEST_HOLD_SECONDS = 60


def _do_nothing(name: str) -> None: ...


reach: Callable[[str], None] = _do_nothing


def turn_on(folder: Path) -> None:
    """From now on, `reach` looks for armed points in this folder. Called once, at start-up."""
    global reach

    def meet(name: str) -> None:
        try:
            taken = folder / f"{name}.{os.getpid()}"
            (folder / name).rename(taken)
        except FileNotFoundError:
            return
        seconds = taken.read_text()
        taken.unlink()
        if not seconds:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(min(float(seconds), _LONGEST_HOLD_SECONDS))

    reach = meet


def turn_off() -> None:
    global reach
    reach = _do_nothing
