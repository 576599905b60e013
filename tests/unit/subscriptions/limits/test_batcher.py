"""subscriptions/limits/batcher.py: callers of the same moment share one piece of work."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from subscriptions.limits.batcher import Batcher
from tests.local import wait_until


class Work:
    """Doubles what it gets. Each piece of work begins, then waits until the test lets it go on."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self._allowed = threading.Semaphore(0)

    def __call__(self, items: list[int]) -> list[int]:
        self.groups.append(items)
        assert self._allowed.acquire(timeout=30)
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items]

    def go_on(self, times: int = 1) -> None:
        self._allowed.release(times)


Start = Callable[[int], "Future[int]"]


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def start(work: Work) -> "Start":
    batcher = Batcher(work, max_items=3)
    callers = ThreadPoolExecutor(max_workers=8)

    def begin(item: int) -> "Future[int]":
        waiting = len(batcher._waiting)
        future = callers.submit(batcher.do, item)
        # Either it works now, or it stands in the queue.
        wait_until(lambda: [item] in work.groups or len(batcher._waiting) > waiting, seconds=30)
        return future

    return begin


def test_one_who_comes_alone_works_at_once_for_itself(work: Work, start: Start) -> None:
    only = start(1)
    work.go_on()
    assert only.result(30) == 2
    assert work.groups == [[1]]


def test_those_who_come_meanwhile_share_the_next_work_in_the_order_they_came(work: Work, start: Start) -> None:
    futures = [start(item) for item in (1, 2, 3)]
    work.go_on(2)
    assert [future.result(30) for future in futures] == [2, 4, 6]
    assert work.groups == [[1], [2, 3]]


def test_no_work_is_larger_than_allowed_and_nobody_is_left_behind(work: Work, start: Start) -> None:
    futures = [start(item) for item in range(1, 8)]
    work.go_on(3)
    assert [future.result(30) for future in futures] == [2, 4, 6, 8, 10, 12, 14]
    assert work.groups == [[1], [2, 3, 4], [5, 6, 7]]


def test_a_failure_reaches_everybody_it_was_done_for_and_nobody_else(work: Work, start: Start) -> None:
    futures = [start(item) for item in (1, 12, 13, 14, 15)]
    work.go_on(3)
    for unlucky in futures[1:4]:
        with pytest.raises(ValueError, match="unlucky"):
            unlucky.result(30)
    assert [futures[0].result(30), futures[4].result(30)] == [2, 30]


def test_after_a_failure_the_next_caller_is_served(work: Work, start: Start) -> None:
    unlucky = start(13)
    work.go_on()
    with pytest.raises(ValueError, match="unlucky"):
        unlucky.result(30)
    following = start(4)
    work.go_on()
    assert following.result(30) == 8
