"""deliveries/pump/ready_queue.py: every endpoint with work has its turn, whatever a claim brings."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from deliveries.claim import Claim, Claimed
from deliveries.pump.ready_queue import ReadyQueue, Turn
from deliveries.pump.slots import Slots
from tests.unit.deliveries.pump.test_slots import ANSWERING, Clock, claimed, settled


class Ledger:
    """What the database does for a claim: lanes in the order of their ids, never past a cap, a share or the limit.

    Some lanes are closed, and some held by another worker, as `luck` will have it; none is held three times running.
    """

    def __init__(self, owed: dict[UUID, int], *, cap: int, luck: Random) -> None:
        self.pending = Counter(owed)
        self.in_flight: list[Claimed] = []
        self.cap = cap
        self.claim_count = 0
        self._luck = luck
        self._held_twice: Counter[UUID] = Counter()

    def claim(self, turn: Turn) -> Claim:
        self.claim_count += 1
        in_flight = Counter(delivery.endpoint_id for delivery in self.in_flight)
        closed, passed_over, picked = dict[UUID, float](), list[UUID](), list[Claimed]()
        for endpoint_id in sorted(turn.endpoint_ids):
            if self._luck.random() < 0.05:
                closed[endpoint_id] = 0.1
            elif self._luck.random() < 0.05 and self._held_twice[endpoint_id] < 2:
                self._held_twice[endpoint_id] += 1
                passed_over.append(endpoint_id)
            else:
                self._held_twice[endpoint_id] = 0
                room = self.cap - in_flight[endpoint_id]
                number = min(self.pending[endpoint_id], room, turn.share, turn.limit - len(picked))
                self.pending[endpoint_id] -= number
                picked += [claimed(endpoint_id)._replace(room=room) for _ in range(number)]
        cut = picked[-1].endpoint_id if len(picked) == turn.limit else None
        picked = [delivery._replace(is_cut=delivery.endpoint_id == cut) for delivery in picked]
        self.in_flight += picked
        return Claim(deliveries=picked, closed=closed, passed_over=passed_over)


class Lucky(Random):
    """Everything goes well."""

    def random(self) -> float:
        return 1.0


class Rig:
    """A pump's claims and settlements, without the pump."""

    def __init__(
        self,
        *,
        slot_count: int,
        owed: dict[UUID, int],
        cap: int = 10**9,
        slow: Collection[UUID] = (),
        luck: Random | None = None,
    ) -> None:
        self._slow = slow
        self.slots = Slots(slot_count, clock=Clock())
        for endpoint_id in owed:
            delivery = claimed(endpoint_id)
            self.slots.take([delivery])
            self._give_back([delivery])
        self.turns = ReadyQueue(self.slots)
        self.turns.add(owed)
        self.ledger = Ledger(owed, cap=cap, luck=luck or Lucky())
        self.had_turns = Counter(dict.fromkeys(owed, 0))

    def claim(self, *, settled_meanwhile: int = 0) -> Turn:
        turn = self.turns.next()
        if turn.endpoint_ids:
            before, claim = len(self.ledger.in_flight), self.ledger.claim(turn)
            self.settle(min(settled_meanwhile, before))
            self.slots.take(claim.deliveries)
            passed_over = self.turns.over(turn, claim)
            # The pump does both a moment later.
            self.turns.add([*passed_over, *claim.closed])
            self.had_turns.update({delivery.endpoint_id for delivery in claim.deliveries})
        return turn

    def settle(self, number: int) -> None:
        batch, self.ledger.in_flight = self.ledger.in_flight[:number], self.ledger.in_flight[number:]
        self._give_back(batch)
        self.turns.settled({delivery.endpoint_id for delivery in batch})

    def _give_back(self, batch: Sequence[Claimed]) -> None:
        self.slots.give_back(
            [settled(delivery, 5000 if delivery.endpoint_id in self._slow else 20) for delivery in batch]
        )


def owed(numbers: Iterable[int]) -> dict[UUID, int]:
    return dict(zip(ANSWERING, numbers, strict=False))


@settings(deadline=None)
@given(
    # Most have one, so that many are asked at once, and some have more than there are slots for.
    numbers=st.lists(st.sampled_from([0, 1, 1, 1, 2, 9]), min_size=1, max_size=80),
    slow_count=st.integers(0, 80),
    slot_count=st.integers(1, 50),
    cap=st.integers(1, 10),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=40),
    luck=st.integers().map(Random),
)
def test_all_that_is_owed_is_sent_although_nobody_rings_again(
    numbers: list[int], slow_count: int, slot_count: int, cap: int, steps: list[tuple[bool, int]], luck: Random
) -> None:
    rig = Rig(slot_count=slot_count, owed=owed(numbers), cap=cap, slow=ANSWERING[:slow_count], luck=luck)
    for is_claim, settled_count in steps:
        if is_claim:
            rig.claim(settled_meanwhile=settled_count)
        else:
            rig.settle(settled_count)
    for _ in range(3000):
        if not rig.claim().endpoint_ids:
            if not rig.ledger.in_flight:
                break
            rig.settle(len(rig.ledger.in_flight))

    assert rig.ledger.pending.total() == 0
    left = [*rig.turns.ready, *rig.turns.aside, *rig.turns.full, *rig.ledger.in_flight]
    assert left == []


@settings(max_examples=60, deadline=None)
@given(endpoint_count=st.integers(1, 60), slot_count=st.integers(1, 64), given_back=st.integers(1, 64))
def test_nobody_has_less_than_a_quarter_of_anybodys_turns(
    endpoint_count: int, slot_count: int, given_back: int
) -> None:
    """Regression: lanes are visited in the order of their ids, and the last ones found no slot, the same each time."""
    rig = Rig(slot_count=slot_count, owed=owed([10**9] * endpoint_count))
    # Each slot is given back so often that everybody could have had eight turns.
    for _ in range(8 * (endpoint_count + slot_count)):
        rig.claim()
        rig.settle(given_back)

    assert min(rig.had_turns.values()) >= max(4, max(rig.had_turns.values())) // 4


@settings(deadline=None)
@given(endpoint_count=st.integers(100, 1000), each=st.integers(1, 4), slot_count=st.sampled_from([64, 100, 400]))
def test_where_each_has_a_few_a_claim_fills_the_slots(endpoint_count: int, each: int, slot_count: int) -> None:
    rig = Rig(slot_count=slot_count, owed=owed([each] * endpoint_count))
    per_claim = min(slot_count, 200 * each)
    # The first asks as if each had four.
    for _ in range(int(1.15 * endpoint_count * each / per_claim) + 2):
        rig.claim()
        rig.settle(slot_count)

    assert rig.ledger.pending.total() == 0


def test_with_enough_at_hand_as_many_are_heard_of_as_were_asked() -> None:
    """Or else those in the bell would wait while those at hand come back for more, time after time."""
    rig = Rig(slot_count=64, owed=owed([100] * 1000))
    assert rig.turns.wanted() == 0
    asked = len(rig.claim().endpoint_ids)
    assert (asked, rig.turns.wanted()) == (16, 0)  # no slot is free
    rig.settle(64)
    assert rig.turns.wanted() == 16
    # Two of them are no news.
    rig.turns.heard([*list(rig.turns.ready)[:2], *[UUID(int=number) for number in range(10)]])
    assert rig.turns.wanted() == 6


def test_a_lane_that_others_hold_is_asked_for_twice_more_and_then_left_to_the_sweep() -> None:
    turns, turn = ReadyQueue(Slots(10)), Turn(ANSWERING[:2], 4, 10)
    held = Claim(deliveries=[], closed={}, passed_over=ANSWERING[:1])
    assert [turns.over(turn, held) for _ in range(3)] == [ANSWERING[:1], ANSWERING[:1], []]
    # Once it was free, it is asked for as often again.
    assert turns.over(turn, held) == ANSWERING[:1]
    turns.over(turn, Claim(deliveries=[], closed={}, passed_over=[]))
    assert [turns.over(turn, held) for _ in range(3)] == [ANSWERING[:1], ANSWERING[:1], []]


def test_whoever_may_have_more_comes_back_and_who_came_too_late_is_first() -> None:
    turns, [spent, cut, late, done, at_cap] = ReadyQueue(Slots(100)), ANSWERING[:5]
    given = {spent: 4, done: 2, at_cap: 3, cut: 1}
    deliveries = [
        claimed(endpoint_id)._replace(room=3 if endpoint_id == at_cap else 50, is_cut=endpoint_id == cut)
        for endpoint_id, number in given.items()
        for _ in range(number)
    ]

    turns.over(Turn(ANSWERING[:5], share=4, limit=10), Claim(deliveries=deliveries, closed={}, passed_over=[]))

    assert list(turns.ready) == [late, spent, cut]
    assert turns.full == {at_cap}


def test_those_set_aside_are_back_when_a_claim_for_others_like_them_brought_nothing() -> None:
    """Nothing is in flight then, so no settlement would bring them back."""
    rig = Rig(slot_count=4, owed=owed([0] * 4), slow=ANSWERING[:4])
    turn = rig.turns.next()
    assert (turn.endpoint_ids, list(rig.turns.aside)) == (ANSWERING[:3], ANSWERING[3:4])
    rig.turns.over(turn, Claim(deliveries=[], closed={}, passed_over=[]))
    assert (list(rig.turns.ready), list(rig.turns.aside)) == (ANSWERING[3:4], [])
