"""deliveries/pump/slots.py: whoever answers finds a free slot, however many others let us wait."""

from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deliveries.claim import Claimed
from deliveries.pump.slots import Slots
from deliveries.retry import Delivered
from deliveries.settle import Outcome

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ANSWERING, SLOW = [[UUID(int=kind + number) for number in range(1000)] for kind in (1 << 64, 2 << 64)]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


NUMBERS = count(1)
# Slots know deliveries by identity, so they must not be gone before they are settled.
UNDER_WAY: list[Claimed] = []


def claimed(endpoint_id: UUID) -> Claimed:
    fields: dict[str, Any] = dict.fromkeys(Claimed._fields)
    return Claimed(**{**fields, "id": UUID(int=next(NUMBERS)), "endpoint_id": endpoint_id, "number": 1})


def settled(delivery: Claimed, duration_ms: int = 20) -> tuple[Claimed, Outcome]:
    outcome = Outcome(
        delivery_id=delivery.id,
        endpoint_id=delivery.endpoint_id,
        number=1,
        verdict=Delivered(),
        decided_at=NOW,
        started_at=NOW,
        duration_ms=duration_ms,
        url="https://receiver.test/",
    )
    return delivery, outcome


def hold(slots: Slots, endpoint_ids: list[UUID], each: int) -> list[Claimed]:
    deliveries = [claimed(endpoint_id) for endpoint_id in endpoint_ids for _ in range(each)]
    slots.take(deliveries)
    UNDER_WAY.extend(deliveries)
    return deliveries


def test_slots_are_taken_and_given_back_one_by_one(clock: Clock) -> None:
    slots = Slots(10, clock=clock)
    first, second, third = hold(slots, ANSWERING[:3], 1)
    assert (slots.free, slots.in_flight) == (7, 3)
    assert slots.give_back([settled(second)]) == {id(second)}
    assert slots.snapshot() == {id(first), id(third)}
    assert slots.free == 8


def answered(slots: Slots, endpoint_ids: list[UUID], duration_ms: int = 20) -> None:
    slots.give_back([settled(delivery, duration_ms) for delivery in hold(slots, endpoint_ids, 1)])


def test_while_slots_are_plenty_everybody_has_a_turn(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    hold(slots, SLOW[:10], 4)
    assert slots.choose([*SLOW[:4], *ANSWERING[:4]], most=6) == ([*SLOW[:4], *ANSWERING[:2]], [], 5)


def test_a_quarter_is_kept_for_those_known_to_answer(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    answered(slots, ANSWERING[:2])
    hold(slots, SLOW[:25], 3)
    assert slots.choose([*SLOW[:3], *ANSWERING[:2]], most=10) == (ANSWERING[:2], SLOW[:3], 12)


@given(held=st.integers(0, 399), most=st.integers(1, 400))
def test_whoever_is_chosen_finds_a_slot_even_if_all_take_their_share(held: int, most: int) -> None:
    """Regression: shares were rounded up, so the last few found none, and a claim's last are the same each time."""
    slots = Slots(400, clock=Clock())
    answered(slots, ANSWERING[:400])
    hold(slots, SLOW[:held], 1)
    chosen, _, share = slots.choose(ANSWERING[:400], most=min(most, slots.free))
    assert len(chosen) == min(most, slots.free)
    assert share >= 1
    assert share * len(chosen) <= slots.free


def test_one_that_is_new_gets_one_of_the_last_quarter_to_show_that_it_answers(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    hold(slots, SLOW[:25], 3)
    assert slots.choose(ANSWERING[:1], most=10) == (ANSWERING[:1], [], 1)
    hold(slots, ANSWERING[:1], 1)
    assert slots.choose(ANSWERING[:1], most=10)[:2] == ([], ANSWERING[:1])
    # However many come, the last ones are for those that have shown it.
    assert slots.choose(ANSWERING[1:50], most=50)[:2] == (ANSWERING[1:13], ANSWERING[13:50])


def test_below_three_quarters_the_others_share_what_is_left(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    answered(slots, ANSWERING[:2])
    hold(slots, SLOW[:10], 7)
    chosen, aside, share = slots.choose([*SLOW[:8], *ANSWERING[:2]], most=20)
    assert (chosen, aside, share) == ([*SLOW[:5], *ANSWERING[:2]], SLOW[5:8], 1)


def test_who_has_answered_nothing_for_a_while_is_doubtful_again_until_it_does(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    answered(slots, SLOW[:11])
    [first, *_] = hold(slots, SLOW[:11], 8)
    assert slots.choose(SLOW[:2], most=10)[:2] == (SLOW[:2], [])
    clock.now += 0.3
    assert slots.choose(SLOW[:2], most=10)[:2] == ([], SLOW[:2])
    slots.give_back([settled(first)])
    assert slots.choose(SLOW[:2], most=10)[:2] == ([SLOW[0]], [SLOW[1]])


def test_who_took_long_the_last_time_is_doubtful_until_it_is_quick_again(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    answered(slots, SLOW[:2], 10_000)
    hold(slots, SLOW[10:35], 3)
    assert slots.choose(SLOW[:2], most=10)[:2] == ([], SLOW[:2])
    answered(slots, SLOW[:1])
    assert slots.choose(SLOW[:2], most=10)[:2] == ([SLOW[0]], [SLOW[1]])


def test_what_is_left_grows_with_every_answer(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    [first, *_] = hold(slots, SLOW[:5], 10)
    assert slots.left_for_doubtful() == 25
    slots.give_back([settled(first)])
    assert slots.left_for_doubtful() == 35


def test_no_endpoint_takes_more_than_a_quarter_at_once_or_three_in_all(clock: Clock) -> None:
    slots = Slots(400, clock=clock)
    answered(slots, ANSWERING[:1])
    assert slots.choose(ANSWERING[:1], most=100) == (ANSWERING[:1], [], 100)
    hold(slots, ANSWERING[:1], 300)
    assert slots.choose(ANSWERING[:1], most=100)[:2] == ([], ANSWERING[:1])


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=60), st.integers(4, 200))
def test_receivers_known_to_be_slow_leave_a_quarter_free(visits: list[tuple[bool, int]], size: int) -> None:
    slots = Slots(size, clock=Clock())
    for endpoint_id in SLOW[:50]:
        answered(slots, [endpoint_id], 10_000)
    for hangs, wanted in visits:
        ready = (SLOW if hangs else ANSWERING)[:wanted]
        chosen, aside, share = slots.choose(ready, most=wanted)
        taken = [endpoint for endpoint in chosen for _ in range(min(share, wanted))][: slots.free]
        deliveries = [claimed(endpoint) for endpoint in taken]
        slots.take(deliveries)
        assert slots.free >= (size // 4 if hangs else 0)
        if not hangs:
            slots.give_back([settled(delivery) for delivery in deliveries])
        assert sorted([*chosen, *aside]) == ready


def test_a_shortage_halves_what_is_in_flight_and_the_slots_come_back_step_by_step() -> None:
    slots = Slots(100)
    taken = [claimed(ANSWERING[number]) for number in range(60)]
    slots.take(taken)

    slots.shrink()
    assert (slots.count, slots.free, slots.is_shrunk) == (30, 0, True)
    slots.give_back(settled(each) for each in taken)
    assert slots.free == 30

    slots.grow()
    assert slots.count == 35
    for _ in range(20):
        slots.grow()
    assert (slots.count, slots.is_shrunk) == (100, False)


def test_a_shortage_leaves_a_few_slots() -> None:
    slots = Slots(100)
    for _ in range(10):
        slots.shrink()
    assert slots.count == 4
