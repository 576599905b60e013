"""Callers that come at the same moment share one piece of work.

A caller that finds nobody at work works at once, for itself alone. Callers that come meanwhile wait, and then one of
them works for all of them. So an idle system adds no delay, and a busy one turns many small statements into few larger
ones.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """`work` gets the items of the waiting callers, at most `max_items`, and returns one result each, in order."""

    def __init__(self, work: Callable[[list[Item]], list[Result]], *, max_items: int) -> None:
        self._work = work
        self._max_items = max_items
        self._lock = threading.Lock()
        self._waiting: list[_Place[Item, Result]] = []
        self._at_work = False

    def do(self, item: Item) -> Result:
        """This caller's result. What `work` raises is raised to every caller it worked for."""
        place: _Place[Item, Result] = _Place(item)
        with self._lock:
            self._waiting.append(place)
            my_turn, self._at_work = not self._at_work, True
        if not my_turn:
            # Either somebody has worked for us, or it is now our turn.
            place.called.acquire()
        if not place.served:
            self._serve()
        if place.error is not None:
            raise place.error
        return place.results[0]

    def _serve(self) -> None:
        with self._lock:
            served, self._waiting = self._waiting[: self._max_items], self._waiting[self._max_items :]
        try:
            results = self._work([place.item for place in served])
            for place, result in zip(served, results, strict=True):
                place.results.append(result)
        except BaseException as error:
            for place in served:
                place.error = error
        finally:
            # The next one first: it has work to begin, the others have only to answer.
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._at_work = following is not None
            if following is not None:
                following.called.release()
            for place in served:
                place.served = True
                place.called.release()


class _Place(Generic[Item, Result]):
    __slots__ = ("called", "error", "item", "results", "served")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.results: list[Result] = []
        self.error: BaseException | None = None
        self.served = False
        # Held until somebody calls.
        self.called = threading.Lock()
        self.called.acquire()
