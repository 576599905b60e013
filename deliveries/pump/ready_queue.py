"""Part of deliver: whose turn it is. Bookkeeping alone: no database, no clock, no event loop.

Endpoints with something to send wait here for a claim, in the order in which they came. An endpoint that may have more
comes back to the end of the line. An endpoint at its concurrency cap waits until one of its deliveries settles. An
endpoint that is slow or silent waits until the doubtful ones have a slot left (slots.py).
"""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from deliveries.claim import Claim
from deliveries.pump.slots import Slots

# Endpoints visited by one claim, at most.
PER_CLAIM = 200
# Endpoints that are enough to have at hand: those of the next claim and of the one after, of which it hears meanwhile.
_AT_HAND = 2 * PER_CLAIM
# Slots that an endpoint may use at one claim, at least, where so many are free. One that uses up its share is visited
# again, and where most have a single delivery that would be twice the visits.
_SHARE = 4
# So few free slots are shared out one each, so that nobody waits long for a turn.
_FEW_SLOTS = _SHARE**2
# Where some came too late for a slot, the next claim expects so many times as much of each endpoint, and asks fewer.
_FEWER = 1.05
# An endpoint that another worker was claiming for is asked for again so often.
_PASSED_OVER_TRIES = 3


class Turn(NamedTuple):
    """What one claim asks for: of which endpoints, how many deliveries of each at most, and how many in all."""

    endpoint_ids: list[UUID]
    share: int
    limit: int


class ReadyQueue:
    """The endpoints with work that a pump knows of, and whose turn is next. Used by the pump (deliver.py)."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.ready: dict[UUID, None] = {}  # an ordered set
        self.aside: dict[UUID, None] = {}  # doubtful, and the doubtful ones hold all the slots that they may
        self.full: set[UUID] = set()  # at their cap, with more to send
        self._passed_over: Counter[UUID] = Counter()
        # Turns that were had, and that others from the bell may have as well.
        self._owed_to_bell = 0
        # What an endpoint had at the last claim, as far as it showed: so many are asked that one claim fills the slots.
        self._each = float(_SHARE)

    def add(self, endpoint_ids: Iterable[UUID]) -> None:
        self.ready.update(dict.fromkeys(endpoint_ids))

    def heard(self, endpoint_ids: Iterable[UUID]) -> None:
        """The same for those from the bell, which is owed less by each that is new."""
        before = len(self.ready)
        self.add(endpoint_ids)
        self._owed_to_bell = max(0, self._owed_to_bell - (len(self.ready) - before))

    def wanted(self) -> int:
        """How many endpoints to hear of: none without a free slot, for others may have one.

        With enough at hand, as many as were asked: should all of those come back, the bell's have their turns as well.
        """
        wanted = max(_AT_HAND - len(self.ready), self._owed_to_bell)
        return min(wanted, self._slots.free, PER_CLAIM)

    def next(self) -> Turn:
        """Nobody's, where no slot is free, or nobody is ready who may have one."""
        free = self._slots.free
        if free <= 0:
            return Turn([], 0, 0)
        least, each = (_SHARE, self._each) if free >= _FEW_SLOTS else (1, 1)
        chosen, aside, share = self._slots.choose(self.ready, most=min(int(free / each), PER_CLAIM), least_share=least)
        for endpoint_id in (*chosen, *aside):
            del self.ready[endpoint_id]
        self.aside.update(dict.fromkeys(aside))
        self._owed_to_bell = min(_AT_HAND, self._owed_to_bell + len(chosen))
        return Turn(chosen, share, free)

    def over(self, turn: Turn, claim: Claim) -> list[UUID]:
        """Sorts the endpoints of a turn by what their claim brought. There are six cases:

        1. At its concurrency cap: full, until one of its deliveries settles.
        2. Its lane is closed: not here any more. The pump adds it again when the lane opens.
        3. Another worker was claiming for it: returned, to be added again in a moment, a few times at most.
        4. It came too late for a slot, as the claim's limit was reached before: first in line.
        5. It used up its share, or the limit cut it short: back to the end of the line.
        6. It had less than its share: it has no more, and waits for the bell.

        If nothing was claimed at all, endpoints that were set aside are ready again, as far as slots are left for them.
        """
        rooms = {delivery.endpoint_id: delivery.room for delivery in claim.deliveries}
        cut = {delivery.endpoint_id for delivery in claim.deliveries if delivery.is_cut}
        counts = Counter([delivery.endpoint_id for delivery in claim.deliveries])
        self.full.update(endpoint_id for endpoint_id, room in rooms.items() if counts[endpoint_id] >= room)
        elsewhere = self.full.union(claim.closed, claim.passed_over)
        asked = [endpoint_id for endpoint_id in turn.endpoint_ids if endpoint_id not in elsewhere]
        late = [endpoint_id for endpoint_id in asked if not counts[endpoint_id]] if cut else []
        if turn.limit >= _FEW_SLOTS:
            self._expect(len(claim.deliveries) / max(1, len(counts)), too_many_asked=bool(late))
        if late:  # the first to be asked next time
            self.ready = {**dict.fromkeys(late), **self.ready}
        self.add(endpoint_id for endpoint_id in asked if counts[endpoint_id] >= turn.share or endpoint_id in cut)
        if not claim.deliveries:
            self._take_back()
        return self._to_ask_again(turn, claim)

    def _expect(self, each: float, *, too_many_asked: bool) -> None:
        """What they had says how many to ask next time."""
        each = min(_SHARE, max(1, each))
        self._each = min(_SHARE, _FEWER * max(each, self._each)) if too_many_asked else each

    def _to_ask_again(self, turn: Turn, claim: Claim) -> list[UUID]:
        """The other worker may have looked before our work was there, so we look again ourselves, a few times."""
        for endpoint_id in set(turn.endpoint_ids).intersection(self._passed_over).difference(claim.passed_over):
            del self._passed_over[endpoint_id]
        again = []
        for endpoint_id in claim.passed_over:
            self._passed_over[endpoint_id] += 1
            if self._passed_over[endpoint_id] < _PASSED_OVER_TRIES:
                again.append(endpoint_id)
            else:
                del self._passed_over[endpoint_id]
        return again

    def settled(self, endpoint_ids: Collection[UUID]) -> None:
        """Outcomes of these were written: there is room under their caps, and some of those set aside have answered."""
        freed = self.full.intersection(endpoint_ids)
        self.full -= freed
        self.add(freed)
        self._take_back(endpoint_ids)

    def _take_back(self, settled: Iterable[UUID] = ()) -> None:
        """Those set aside that have just answered, and as many of the others as there is room for by now."""
        if not self.aside:
            return
        back = [endpoint_id for endpoint_id in settled if endpoint_id in self.aside]
        back += islice(self.aside, max(0, self._slots.left_for_doubtful()))
        for endpoint_id in back:
            self.aside.pop(endpoint_id, None)
        self.add(back)
