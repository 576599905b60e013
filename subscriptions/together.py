"""Callers that come at the same moment share one piece of work.

Whoever finds hands free works at once, for itself alone. Those who come meanwhile wait, and then one of them works for
all of them. So an idle system adds no delay, and a busy one turns many small statements into few larger ones.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Together(Generic[Item, Result]):
    """`work` gets what the waiting callers brought, `at_most` so many, and returns one result each, in order.

    So many `hands` work at the same time, each in the thread of one of its callers.
    """

    def __init__(self, work: Callable[[list[Item]], list[Result]], *, at_most: int, hands: int = 1) -> None:
        self._work = work
        self._at_most = at_most
        self._free_hands = hands
        self._lock = threading.Lock()
        # Empty while hands are free.
        self._waiting: list[_Place[Item, Result]] = []

    def do(self, item: Item) -> Result:
        """This caller's result. What `work` raises is raised to every caller it worked for."""
        place: _Place[Item, Result] = _Place(item)
        with self._lock:
            if self._free_hands:
                self._free_hands -= 1
                place.to_serve = [place]
            else:
                self._waiting.append(place)
        if not place.to_serve:
            # Either somebody has worked for us, or it is our turn to work for some.
            place.called.acquire()
        if place.to_serve:
            self._serve(place.to_serve)
        if place.error is not None:
            raise place.error
        return place.results[0]

    def _serve(self, places: "list[_Place[Item, Result]]") -> None:
        try:
            results = self._work([place.item for place in places])
            for place, result in zip(places, results, strict=True):
                place.results.append(result)
        except BaseException as error:
            for place in places:
                place.error = error
        finally:
            # The next ones first: they have work to begin, the others have only to answer.
            self._hand_over()
            for place in places:
                place.called.release()

    def _hand_over(self) -> None:
        with self._lock:
            following, self._waiting = self._waiting[: self._at_most], self._waiting[self._at_most :]
            self._free_hands += not following
        if following:
            following[0].to_serve = following
            following[0].called.release()


class _Place(Generic[Item, Result]):
    __slots__ = ("called", "error", "item", "results", "to_serve")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.results: list[Result] = []
        self.error: BaseException | None = None
        # Whom this caller works for, itself first; empty for those somebody else works for.
        self.to_serve: list[_Place[Item, Result]] = []
        # Held until somebody calls.
        self.called = threading.Lock()
        self.called.acquire()
