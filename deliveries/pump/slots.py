"""Part of deliver: a pump's slots, one for each request in flight, and who holds them.

A claim takes slots; they are free again once their outcomes are in the database. One slot in four is kept for receivers
that are known to answer. Receivers that are new, slow or silent (doubtful) share the other three quarters, however many
of them there are. Half of the last quarter lends one slot to each new receiver, to show that it answers.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from deliveries.claim import Claimed
from deliveries.settle import Outcome

# One slot in so many is kept for receivers that answer.
_ONE_IN = 4
# A receiver lets us wait that took this long for its last answer (milliseconds), or has not answered any of its
# requests for this long (seconds).
_SLOW_MS = 1000
_SILENT_SECONDS = 0.25
# With no more than one free slot in so many, a pump is nearly full.
_NEARLY_FULL = 16
# A pump on a machine that is out of something keeps at least this many slots.
_FEWEST = 4
# Of its slots, it has one in so many back with each step.
_GROWS_BY = 20
# Receivers that are remembered to answer, and to be slow.
_MOST_REMEMBERED = 50_000


class _Line:
    """The requests of one endpoint that this pump has in flight: how many, and when the last answer came."""

    __slots__ = ("count", "heard_at")

    def __init__(self, heard_at: float) -> None:
        self.count = 0
        self.heard_at = heard_at


class Slots:
    """Who holds which of a pump's slots, and which endpoints answer. Used by deliver.py and its ReadyQueue."""

    def __init__(self, count: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = self._most = count
        self._clock = clock
        # By identity: each is kept alive by its attempt, and then by the batch that settles it.
        self._taken: set[int] = set()
        self._lines: dict[UUID, _Line] = {}
        self._answering: set[UUID] = set()
        self._slow: set[UUID] = set()

    @property
    def free(self) -> int:
        return max(0, self.count - len(self._taken))

    @property
    def is_shrunk(self) -> bool:
        return self.count < self._most

    def shrink(self) -> None:
        """To half of what is in flight: this machine cannot do as much as it was told to."""
        self.count = max(min(_FEWEST, self._most), min(self.count, len(self._taken)) // 2)

    def grow(self) -> None:
        """A step back to the whole number."""
        self.count = min(self._most, self.count + max(1, self._most // _GROWS_BY))

    @property
    def is_nearly_full(self) -> bool:
        return self.free <= self.count // _NEARLY_FULL

    @property
    def in_flight(self) -> int:
        return len(self._taken)

    def snapshot(self) -> set[int]:
        """Who is in flight now; `give_back` says who no longer is."""
        return set(self._taken)

    def take(self, deliveries: Sequence[Claimed]) -> None:
        now = self._clock()
        self._taken.update(map(id, deliveries))
        for delivery in deliveries:
            line = self._lines.get(delivery.endpoint_id)
            if line is None:
                line = self._lines[delivery.endpoint_id] = _Line(heard_at=now)
            line.count += 1

    def give_back(self, settled: Iterable[tuple[Claimed, Outcome]]) -> set[int]:
        now, given_back = self._clock(), set()
        for delivery, outcome in settled:
            given_back.add(id(delivery))
            line = self._lines[delivery.endpoint_id]
            line.count -= 1
            line.heard_at = now
            if not line.count:
                del self._lines[delivery.endpoint_id]
            self._remember(delivery.endpoint_id, slow=outcome.duration_ms >= _SLOW_MS)
        self._taken -= given_back
        return given_back

    def _remember(self, endpoint_id: UUID, *, slow: bool) -> None:
        here, elsewhere = (self._slow, self._answering) if slow else (self._answering, self._slow)
        if len(here) > _MOST_REMEMBERED:
            here.clear()
        here.add(endpoint_id)
        elsewhere.discard(endpoint_id)

    def choose(self, ready: Iterable[UUID], *, most: int, least_share: int = 1) -> tuple[list[UUID], list[UUID], int]:
        """Endpoints whose turn it is, endpoints to set aside, and how many slots each of the chosen may take.

        Each ready endpoint, in order, until `most` are chosen, is one of four cases:

        1. It answers: chosen.
        2. It is doubtful, and the doubtful ones have slots left: chosen.
        3. It is doubtful and new, and a slot of the last eighth is free: chosen, and the share is one slot.
        4. It is doubtful otherwise: set aside until a doubtful one gives a slot back.

        The share is what is free divided by the number of chosen endpoints, at least `least_share`, at most a quarter
        of all slots, and small enough that the doubtful ones together stay within their three quarters.
        """
        left = self.left_for_doubtful()
        chosen: list[UUID] = []
        aside: list[UUID] = []
        doubtful_count, share = 0, max(1, self.count // _ONE_IN)
        for endpoint_id in ready:
            if self._is_doubtful(endpoint_id):
                if doubtful_count < left:
                    doubtful_count += 1
                elif self._is_new(endpoint_id) and len(chosen) < self.free - self.count // _ONE_IN // 2:
                    share = 1
                else:
                    aside.append(endpoint_id)
                    continue
            chosen.append(endpoint_id)
            if len(chosen) == most:
                break
        # Rounded down, so that there is one for each: who finds none may find none the next time, too.
        share = min(share, max(least_share, self.free // max(1, len(chosen))))
        return chosen, aside, min(share, left // doubtful_count) if doubtful_count else share

    def left_for_doubtful(self) -> int:
        """Slots that may still be taken by endpoints of which it is not known whether they answer."""
        taken = sum(line.count for endpoint_id, line in self._lines.items() if self._is_doubtful(endpoint_id))
        return self.count - self.count // _ONE_IN - taken

    def _is_new(self, endpoint_id: UUID) -> bool:
        return not (endpoint_id in self._lines or endpoint_id in self._answering or endpoint_id in self._slow)

    def _is_doubtful(self, endpoint_id: UUID) -> bool:
        """Also who holds so many slots that it would matter if it stopped answering."""
        if endpoint_id not in self._answering:
            return True
        line = self._lines.get(endpoint_id)
        return line is not None and (
            line.heard_at < self._clock() - _SILENT_SECONDS or line.count > self.count // _ONE_IN
        )
