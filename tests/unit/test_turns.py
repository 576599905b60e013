"""deliveries/turns.py: whoever has something to send has a turn, and nobody is forgotten, whatever a claim brings."""

from collections import Counter
from collections.abc import Iterable
from itertools import cycle
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from deliveries.claim import Claim, Claimed
from deliveries.slots import Slots
from deliveries.turns import Turn, Turns
from tests.unit.test_slots import ANSWERING, Clock, answered, claimed, settled


class Ledger:
    """What the database does for a claim: lanes in the order of their ids, never past a cap, a share or the limit."""

    def __init__(self, owed: dict[UUID, int], *, cap: int = 1000) -> None:
        self.pending = Counter(owed)
        self.in_flight: list[Claimed] = []
        self.cap = cap
        self.claims = 0

    def claim(self, turn: Turn) -> Claim:
        self.claims += 1
        held = Counter(delivery.endpoint_id for delivery in self.in_flight)
        picked: list[Claimed] = []
        for endpoint_id in sorted(turn.endpoint_ids):
            room = self.cap - held[endpoint_id]
            number = min(self.pending[endpoint_id], room, turn.share, turn.limit - len(picked))
            self.pending[endpoint_id] -= number
            picked += [claimed(endpoint_id)._replace(room=room, is_cut=False) for _ in range(number)]
        cut = picked[-1].endpoint_id if len(picked) == turn.limit else None
        picked = [delivery._replace(is_cut=delivery.endpoint_id == cut) for delivery in picked]
        self.in_flight += picked
        return Claim(deliveries=picked, closed={}, passed_over=[])


class Rig:
    """A pump's claims and settlements, without the pump."""

    def __init__(self, *, slot_count: int, owed: dict[UUID, int], cap: int = 1000) -> None:
        self.slots = Slots(slot_count, clock=Clock())
        for start in range(0, len(owed), slot_count):
            answered(self.slots, list(owed)[start : start + slot_count])
        self.turns = Turns(self.slots)
        self.turns.add(owed)
        self.ledger = Ledger(owed, cap=cap)
        self.had_turns = Counter(dict.fromkeys(owed, 0))

    def claim(self) -> Turn:
        turn = self.turns.next()
        if turn.endpoint_ids:
            claim = self.ledger.claim(turn)
            self.slots.take(claim.deliveries)
            self.turns.over(turn, claim)
            self.had_turns.update({delivery.endpoint_id for delivery in claim.deliveries})
        return turn

    def settle(self, number: int) -> None:
        batch, self.ledger.in_flight = self.ledger.in_flight[:number], self.ledger.in_flight[number:]
        self.slots.give_back([settled(delivery) for delivery in batch])
        self.turns.settled({delivery.endpoint_id for delivery in batch})


def owed(numbers: Iterable[int]) -> dict[UUID, int]:
    return dict(zip(ANSWERING, numbers, strict=False))


@settings(deadline=None)
@given(
    numbers=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    slot_count=st.integers(1, 50),
    cap=st.integers(1, 5),
    steps=st.lists(st.integers(0, 20), max_size=40),
)
def test_all_that_is_owed_is_sent_although_nobody_rings_again(
    numbers: list[int], slot_count: int, cap: int, steps: list[int]
) -> None:
    rig = Rig(slot_count=slot_count, owed=owed(numbers), cap=cap)
    for step in steps:
        rig.settle(step) if step else rig.claim()
    for _ in range(2000):
        if not rig.claim().endpoint_ids:
            if not rig.ledger.in_flight:
                break
            rig.settle(len(rig.ledger.in_flight))

    assert rig.ledger.pending.total() == 0


@settings(max_examples=60, deadline=None)
@given(endpoint_count=st.integers(1, 150), slot_count=st.integers(1, 200), given_back=st.lists(st.integers(1, 200)))
def test_nobody_has_less_than_a_third_of_anybodys_turns(
    endpoint_count: int, slot_count: int, given_back: list[int]
) -> None:
    """Regression: lanes are visited in the order of their ids, and the last ones found no slot, the same each time."""
    rig = Rig(slot_count=slot_count, owed=owed([10**9] * endpoint_count), cap=10**9)
    backs = cycle(given_back or [slot_count])
    for _ in range(150):
        rig.claim()
        rig.settle(next(backs))

    assert min(rig.had_turns.values()) >= max(rig.had_turns.values()) // 3


@settings(deadline=None)
@given(endpoint_count=st.integers(100, 1000), each=st.integers(1, 4), slot_count=st.sampled_from([64, 100, 400]))
def test_where_each_has_a_few_a_claim_fills_the_slots(endpoint_count: int, each: int, slot_count: int) -> None:
    rig = Rig(slot_count=slot_count, owed=owed([each] * endpoint_count))
    while rig.ledger.pending.total():
        rig.claim()
        rig.settle(slot_count)

    per_claim = min(slot_count, 200 * each)
    # The first asks as if each had four.
    assert rig.ledger.claims <= 1.15 * endpoint_count * each / per_claim + 2


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
