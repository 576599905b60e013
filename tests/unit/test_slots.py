"""deliveries/slots.py: whoever answers finds a free slot, however many others let us wait."""

from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deliveries.claim import Claimed
from deliveries.retry import Delivered
from deliveries.settle import Outcome
from deliveries.slots import Slots

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
    return deliveries


def test_slots_are_taken_and_given_back_one_by_one(clock: Clock) -> None:
    slots = Slots(10, clock=clock)
    first, second, third = hold(slots, ANSWERING[:3], 1)
    assert (slots.free, slots.in_flight) == (7, 3)
    assert slots.give_back([settled(second)]) == {id(second)}
    assert slots.snapshot() == {id(first), id(third)}
    assert slots.free == 8


def test_while_slots_are_plenty_everybody_has_a_turn(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    hold(slots, SLOW[:10], 4)
    clock.now += 60
    assert slots.choose([*SLOW[:4], *ANSWERING[:4]], most=6) == ([*SLOW[:4], *ANSWERING[:2]], [], 10)


def test_those_that_have_not_answered_for_a_while_are_set_aside_once_they_hold_three_quarters(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    hold(slots, SLOW[:25], 3)
    assert slots.choose(SLOW[:3], most=10)[:2] == (SLOW[:3], [])
    clock.now += 0.3
    assert slots.choose([*SLOW[:3], *ANSWERING[:2]], most=10) == (ANSWERING[:2], SLOW[:3], 13)


def test_below_three_quarters_they_share_what_is_left(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    hold(slots, SLOW[:10], 7)
    clock.now += 0.3
    chosen, aside, share = slots.choose([*SLOW[:8], *ANSWERING[:2]], most=20)
    assert (chosen, aside, share) == ([*SLOW[:5], *ANSWERING[:2]], SLOW[5:8], 1)


def test_one_answer_shows_that_a_receiver_is_there(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    [first, *_] = hold(slots, SLOW[:11], 8)
    clock.now += 0.3
    slots.give_back([settled(first)])
    assert slots.choose(SLOW[:2], most=10)[:2] == ([SLOW[0]], [SLOW[1]])


def test_who_took_long_the_last_time_is_remembered_until_it_is_quick_again(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    slots.give_back([settled(delivery, 10_000) for delivery in hold(slots, SLOW[:2], 1)])
    hold(slots, SLOW[10:35], 3)
    clock.now += 0.3
    assert slots.choose([*SLOW[:2], *ANSWERING[:1]], most=10)[:2] == (ANSWERING[:1], SLOW[:2])
    slots.give_back([settled(delivery) for delivery in hold(slots, SLOW[:1], 1)])
    assert slots.choose([*SLOW[:2], *ANSWERING[:1]], most=10)[:2] == ([SLOW[0], ANSWERING[0]], [SLOW[1]])


def test_no_endpoint_takes_more_than_a_quarter_at_once(clock: Clock) -> None:
    slots = Slots(400, clock=clock)
    assert slots.choose(ANSWERING[:1], most=100) == (ANSWERING[:1], [], 100)


def test_one_that_holds_a_quarter_may_let_the_others_have_the_rest(clock: Clock) -> None:
    slots = Slots(100, clock=clock)
    hold(slots, ANSWERING[:1], 60)
    assert slots.choose(ANSWERING[:2], most=10)[2] == 15


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=60), st.integers(4, 200))
def test_receivers_that_let_us_wait_leave_a_quarter_free_from_then_on(
    visits: list[tuple[bool, int]], size: int
) -> None:
    """Whatever they had before they were found out: from then on they get nothing beyond three quarters."""
    clock = Clock()
    slots = Slots(size, clock=clock)
    hold(slots, SLOW[:1], min(size, 3))
    clock.now += 1
    most = size - size // 4
    for is_slow, wanted in visits:
        ready = (SLOW if is_slow else ANSWERING)[: 1 if is_slow else 3]
        clock.now += 0.3
        chosen, aside, share = slots.choose(ready, most=3) if slots.free else ([], [], 0)
        before = slots.in_flight
        taken = [endpoint for endpoint in chosen for _ in range(min(share, wanted))][: slots.free]
        deliveries = [claimed(endpoint) for endpoint in taken]
        slots.take(deliveries)
        if not is_slow:
            slots.give_back([settled(delivery) for delivery in deliveries])
        elif before * 2 > size:
            assert slots.in_flight <= max(before, most)
        assert not set(chosen) & set(aside)
