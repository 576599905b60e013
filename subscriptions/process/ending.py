"""What a process does last when it ends in order: writes what it counted, sends spans that wait."""

from collections.abc import Callable
from multiprocessing.util import Finalize


def at_end(work: Callable[[], object]) -> None:
    """Not `atexit`: the web server's processes are forked by multiprocessing, whose children run no such functions.

    Its own finalizers run in them, and in a process that was started by itself, too.
    """
    Finalize(None, work, exitpriority=0)
