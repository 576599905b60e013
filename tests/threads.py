"""Several at the same moment: real threads, each on a connection of its own, let go together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def at_the_same_moment(count: int, work: Callable[[], T]) -> list[T]:
    """What each of so many got, who all began at once. The database must be one that commits."""
    start = Barrier(count)

    def one() -> T:
        try:
            start.wait(timeout=30)
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=count) as pool:
        return [each.result() for each in [pool.submit(one) for _ in range(count)]]
