"""Counts in memory, written to the database every second by a thread of this process.

For what happens too often, or too early, to have a row in the transaction that does it. A process that is killed loses
what it counted in the last second; one that ends in order loses nothing. The app above says where counts are written
(`write_with`); until then nothing is kept.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache

from subscriptions.process.ending import at_end

# How long counts stay in memory (seconds).
FLUSH_SECONDS = 1.0

Counts = Mapping[tuple[str, str], int]

logger = logging.getLogger(__name__)


class Counting:
    """One process's counts: added by any thread, taken by the one that writes them."""

    def __init__(self, write: Callable[[Counts], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, counter: str, label: str) -> None:
        with self._lock:
            self._counts[counter, label] += 1

    def flush(self) -> None:
        """What cannot be written stays, and is tried again with what comes next: labels are few, so it stays small."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            self._write(counts)
        except Exception as error:  # Counting must end neither the thread nor the process.
            logger.warning("counts.kept", extra={"fields": {"error": repr(error)}})
            with self._lock:
                self._counts += counts


def count(counter: str, label: str) -> None:
    if _writers:
        _process().count(counter, label)


def write_with(write: Callable[[Counts], None]) -> None:
    """Called once, when the apps are loaded."""
    _writers[:] = [write]


def flush() -> None:
    """Writes what this process has counted so far."""
    if _writers:
        _process().flush()


_writers: list[Callable[[Counts], None]] = []


@lru_cache(maxsize=1)
def _process() -> Counting:
    """Made by the first count, after any fork."""
    counting = Counting(_writers[0])
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(FLUSH_SECONDS):
            counting.flush()

    threading.Thread(target=run, name="counts", daemon=True).start()
    at_end(counting.flush)
    return counting
