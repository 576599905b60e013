"""Part of deliver: a pump's slots, one for each request in flight, and who holds them.

A claim takes slots; they are free again once their outcomes are in the database. Receivers that let us wait may hold
three quarters of them together, however many such receivers there are, so there is always room for those that answer.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from deliveries.claim import Claimed
from deliveries.settle import Outcome

# One slot in so many is kept for receivers that answer.
_ONE_IN = 4
# A receiver lets us wait that has not answered any of its requests for this long (seconds), or took this long for the
# last one (milliseconds).
_SILENT_SECONDS = 0.25
_SLOW_MS = 1000
# Receivers remembered, beyond those with requests in flight.
_MOST_REMEMBERED = 20_000


class _Line:
    """One endpoint's requests here."""

    __slots__ = ("count", "heard_at", "was_slow")

    def __init__(self) -> None:
        self.count = 0
        self.heard_at = 0.0
        self.was_slow = False


class Slots:
    """One pump's."""

    def __init__(self, count: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = count
        self._clock = clock
        # By identity: each is kept alive by its attempt, and then by the batch that settles it.
        self._taken: set[int] = set()
        self._lines: dict[UUID, _Line] = {}

    @property
    def free(self) -> int:
        return self.count - len(self._taken)

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
                line = self._lines[delivery.endpoint_id] = _Line()
            if not line.count:
                line.heard_at = now
            line.count += 1

    def give_back(self, settled: Iterable[tuple[Claimed, Outcome]]) -> set[int]:
        now, given_back = self._clock(), set()
        for delivery, outcome in settled:
            given_back.add(id(delivery))
            line = self._lines[delivery.endpoint_id]
            line.count -= 1
            line.heard_at = now
            line.was_slow = outcome.duration_ms >= _SLOW_MS
            if not line.count and not line.was_slow:
                del self._lines[delivery.endpoint_id]
        self._taken -= given_back
        if len(self._lines) > _MOST_REMEMBERED + self.count:
            self._lines = {endpoint_id: line for endpoint_id, line in self._lines.items() if line.count}
        return given_back

    def choose(self, ready: Iterable[UUID], *, most: int) -> tuple[list[UUID], list[UUID], int]:
        """Endpoints whose turn it is, those to set aside, and how many slots each of the first may take.

        While slots are plenty, whoever is ready. When they run short, those that let us wait share what is left of
        their three quarters, and are set aside when that is nothing.
        """
        waited_for = self._waited_for() if self.free * 2 < self.count else {}
        left = self.count - self.count // _ONE_IN - sum(waited_for.values())
        chosen: list[UUID] = []
        aside: list[UUID] = []
        slow_count = 0
        for endpoint_id in ready:
            if endpoint_id in waited_for:
                if slow_count >= left:
                    aside.append(endpoint_id)
                    continue
                slow_count += 1
            chosen.append(endpoint_id)
            if len(chosen) == most:
                break
        # Rounded up: what is left over would be claimed at once, a few at a time. And no endpoint takes them all.
        share = min(-(-self.free // max(1, len(chosen))), max(1, self.count // _ONE_IN))
        return chosen, aside, min(share, max(1, left // slow_count)) if slow_count else share

    def _waited_for(self) -> Mapping[UUID, int]:
        """Endpoints that let us wait, or hold so many slots that it would matter if they did, and how many."""
        long_ago, many = self._clock() - _SILENT_SECONDS, self.count // _ONE_IN
        return {
            endpoint_id: line.count
            for endpoint_id, line in self._lines.items()
            if line.was_slow or line.count > many or (line.count and line.heard_at < long_ago)
        }
