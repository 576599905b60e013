"""deliveries/claim.py on a real database: the bulkhead, turns, closed lanes, rates, secrets."""

import asyncio
import random
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from psycopg import AsyncConnection

from deliveries import claim as step
from deliveries.claim import Claimed, claim, close_lease, renew_lease
from deliveries.health.breaker import Breaker
from deliveries.models import Attempt, Delivery
from deliveries.settle import settle
from subscriptions import endpoints, ids
from subscriptions.models import Consumer, Endpoint, Lane
from subscriptions.secrets.endpoint_secrets import Column, unseal
from subscriptions.secrets.vault import vault
from tests.walk import (
    accept,
    answered,
    claim_for,
    connect,
    new_endpoint,
    new_lease,
    pass_time,
    settle_all,
    states,
    unanswered,
    with_connection,
)

pytestmark = pytest.mark.django_db(transaction=True)

BREAKER = Breaker(failures=2, first_cooldown=10, longest_cooldown=1800)


# ── what a claim does ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_due_delivery_becomes_in_flight_under_the_workers_lease_and_counts_an_attempt(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, timeout_seconds=7, retry_schedule=[0, 5])
    [event] = accept(acme)
    lease_id = with_connection(new_lease)

    [claimed] = claim_for(endpoint, lease_id=lease_id).deliveries

    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.leased_by, delivery.attempt_count) == ("in_flight", lease_id, 1)
    assert (claimed.id, claimed.event_id, claimed.endpoint_id) == (delivery.id, event.id, endpoint.id)
    assert (claimed.number, claimed.attempt_in_round, claimed.body) == (1, 1, bytes(event.body or b""))
    assert (claimed.url, claimed.timeout_seconds, claimed.retry_schedule) == (endpoint.url, 7, [0, 5])
    assert (claimed.room, claimed.is_well, claimed.consumer_id) == (10, True, acme.id)


def test_nothing_is_claimed_twice(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 3)

    assert len(claim_for(endpoint).deliveries) == 3
    assert claim_for(endpoint).deliveries == []


def test_a_delivery_that_is_not_due_yet_is_left_alone_until_it_is(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[60])
    accept(acme)

    assert claim_for(endpoint).deliveries == []
    pass_time(seconds=60)
    assert len(claim_for(endpoint).deliveries) == 1


def test_the_longest_due_go_first(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    events = [event for _ in range(3) for event in accept(acme)]

    claimed = [claim_for(endpoint, limit=1).deliveries[0].event_id for _ in range(3)]

    assert claimed == [event.id for event in events]


# ── the bulkhead ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_more_is_claimed_than_an_endpoint_has_room_for(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=3)
    accept(acme, 10)

    first = claim_for(endpoint).deliveries
    settle_all(answered(first[0]))
    second = claim_for(endpoint).deliveries

    assert ([delivery.room for delivery in first], [delivery.room for delivery in second]) == ([3, 3, 3], [1])


def test_a_cap_lowered_under_way_holds_for_the_next_claim(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=5)
    accept(acme, 10)
    in_flight = claim_for(endpoint).deliveries
    endpoints.update(endpoint, {"max_in_flight": 2})

    settle_all(*[answered(delivery) for delivery in in_flight[:2]])
    assert claim_for(endpoint).deliveries == []
    settle_all(*[answered(delivery) for delivery in in_flight[2:4]])

    assert len(claim_for(endpoint).deliveries) == 1


def test_the_bulkhead_is_exact_whoever_claims_at_the_same_moment(acme: Consumer) -> None:
    """Six workers on six connections claim for the same endpoints and settle in between, until all is delivered.

    After each commit the database itself is asked how much is in flight: whoever goes over a cap sees it at once.
    """
    caps = {new_endpoint(acme, max_in_flight=cap).id: cap for cap in (2, 4, 7)}
    accept(acme, 120)
    dice = random.Random(4)
    most: Counter[UUID] = Counter()
    passed_over = 0

    async def work(own: AsyncConnection) -> None:
        nonlocal passed_over
        held: list[Claimed] = []
        lease_id = await new_lease(own)
        while True:
            share, limit = dice.randint(1, 8), dice.randint(1, 12)
            claimed = await claim(own, endpoint_ids=list(caps), lease_id=lease_id, share=share, limit=limit)
            for endpoint_id, count in await in_flight(own):
                most[endpoint_id] = max(most[endpoint_id], count)
            passed_over += len(claimed.passed_over)
            held += claimed.deliveries
            done, held = held[: (cut := dice.randint(0, len(held)))], held[cut:]
            await settle(own, [answered(delivery) for delivery in done], breaker=BREAKER)
            if not held and not await something_left(own):
                return

    async def main() -> None:
        connections = [await connect() for _ in range(6)]
        await asyncio.gather(*[work(own) for own in connections])
        for own in connections:
            await own.close()

    asyncio.run(main())

    assert dict(most) == caps
    assert passed_over > 0, "nobody ever met anybody: this proved nothing"
    assert set(Delivery.objects.values_list("state", "attempt_count")) == {("delivered", 1)}
    assert Attempt.objects.count() == 360


async def in_flight(own: AsyncConnection) -> list[tuple[UUID, int]]:
    query = "SELECT endpoint_id, count(*) FROM deliveries_delivery WHERE state = 'in_flight' GROUP BY endpoint_id"
    return await (await own.execute(query)).fetchall()


async def something_left(own: AsyncConnection) -> bool:
    query = "SELECT EXISTS (SELECT FROM deliveries_delivery WHERE state = 'pending')"
    return bool((await (await own.execute(query)).fetchone() or [False])[0])


# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_endpoint_with_a_deep_backlog_gets_its_share_and_no_more(acme: Consumer) -> None:
    deep, shallow = new_endpoint(acme, event_types=["a"], max_in_flight=100), new_endpoint(acme, event_types=["b"])
    accept(acme, 50, type="a")
    accept(acme, 2, type="b")

    claimed = Counter(delivery.endpoint_id for delivery in claim_for(deep, shallow, share=3).deliveries)

    assert claimed == {deep.id: 3, shallow.id: 2}


def test_no_claim_takes_more_than_its_worker_has_slots_for(acme: Consumer) -> None:
    many = [new_endpoint(acme) for _ in range(5)]
    accept(acme, 5)

    assert len(claim_for(*many, share=3, limit=7).deliveries) == 7


def test_the_one_endpoint_at_which_the_limit_was_reached_is_told_from_those_that_gave_all_they_had(
    acme: Consumer,
) -> None:
    many = [new_endpoint(acme) for _ in range(5)]
    accept(acme, 2)

    found = claim_for(*many, share=4, limit=5).deliveries

    given = Counter(delivery.endpoint_id for delivery in found)
    assert sorted(given.values()) == [1, 2, 2]
    assert {delivery.endpoint_id for delivery in found if delivery.is_cut} == {
        endpoint_id for endpoint_id, count in given.items() if count == 1
    }
    # Five are left, and not all six slots are used.
    assert [delivery.is_cut for delivery in claim_for(*many, share=4, limit=6).deliveries] == [False] * 5


# ── endpoints that are not visited ───────────────────────────────────────────────────────────────────────────────────


def test_a_paused_endpoint_is_not_visited(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    endpoints.pause(endpoint)

    nothing = claim_for(endpoint)

    assert (nothing.deliveries, nothing.closed, nothing.passed_over) == ([], {}, [])
    assert states(endpoint) == ["pending", "pending"]


def test_a_disabled_endpoint_is_not_visited(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 3)
    [first] = claim_for(endpoint, limit=1).deliveries
    settle_all(answered(first, 410))

    assert claim_for(endpoint).deliveries == []
    assert states(endpoint) == ["dead", "pending", "pending"]


def test_a_deleted_endpoint_is_not_visited(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    endpoints.delete(endpoint)

    assert claim_for(endpoint).deliveries == []
    assert states(endpoint) == ["pending"]


def test_w09_a_lane_closed_by_a_retry_after_says_when_it_opens(acme: Consumer) -> None:
    held_back, other = new_endpoint(acme), new_endpoint(acme)
    accept(acme, 2)
    [first] = claim_for(held_back, limit=1).deliveries
    settle_all(answered(first, 503, retry_after="7"))

    claimed = claim_for(held_back, other)

    assert {delivery.endpoint_id for delivery in claimed.deliveries} == {other.id}
    assert claimed.closed == {held_back.id: pytest.approx(7, abs=1)}
    assert claimed.passed_over == []


def test_w09_a_closed_lane_is_visited_once_its_time_has_come(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    [first] = claim_for(endpoint, limit=1).deliveries
    settle_all(answered(first, 503, retry_after="7"))

    pass_time(seconds=7)

    assert len(claim_for(endpoint).deliveries) == 2


def test_an_endpoint_another_worker_is_claiming_for_is_passed_over_at_once(acme: Consumer) -> None:
    taken, free = new_endpoint(acme), new_endpoint(acme)
    accept(acme)

    async def main() -> step.Claim:
        async with await connect() as theirs, await connect() as ours, theirs.transaction():
            lease_id = await new_lease(ours)
            await theirs.execute(step.LOCK_LANES, {"endpoint_ids": [taken.id], "lease_id": lease_id})
            return await claim(ours, endpoint_ids=[taken.id, free.id], lease_id=lease_id, share=10, limit=10)

    claimed = asyncio.run(main())

    assert claimed.passed_over == [taken.id]
    assert [delivery.endpoint_id for delivery in claimed.deliveries] == [free.id]


# ── the rate limit ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rate_limited_endpoint_gets_a_tenth_of_a_second_at_once_and_is_closed_until_the_next(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, rate_limit_per_second=20, max_in_flight=100)
    accept(acme, 10)
    pass_time(minutes=1)

    burst = claim_for(endpoint)

    assert len(burst.deliveries) == 2
    assert burst.closed == {endpoint.id: pytest.approx(0.05, abs=0.05)}


def test_a_rate_of_one_per_second_lets_one_go_and_is_closed_for_a_second(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, rate_limit_per_second=1)
    accept(acme, 10)
    pass_time(minutes=1)

    first, second = claim_for(endpoint), claim_for(endpoint)

    assert (len(first.deliveries), len(second.deliveries)) == (1, 0)
    assert 0 < second.closed[endpoint.id] <= first.closed[endpoint.id] <= 1


def test_f_a_bucket_from_before_the_clock_was_set_back_is_full(acme: Consumer) -> None:
    """Regression: it held minus an hour's worth, so its endpoint got nothing for an hour."""
    endpoint = new_endpoint(acme, rate_limit_per_second=20, max_in_flight=100)
    accept(acme, 10)
    Lane.objects.update(tokens=0, tokens_at=Now() + timedelta(hours=1))

    assert len(claim_for(endpoint).deliveries) == 2


def test_the_rate_limit_holds_over_every_window_and_is_used_to_the_full(acme: Consumer) -> None:
    """Time passes in steps, by moving the bucket's own clock: about five seconds at 100 per second."""
    endpoint = new_endpoint(acme, rate_limit_per_second=100, max_in_flight=1000)
    accept(acme, 700)
    older = "UPDATE subscriptions_lane SET tokens_at = tokens_at - %(by)s, opens_at = opens_at - %(by)s"
    dice = random.Random(7)

    async def main(own: AsyncConnection) -> list[tuple[float, float, int]]:
        loop, passed, taken = asyncio.get_running_loop(), 0.0, []
        lease_id = await new_lease(own)
        while passed < 5:
            by = dice.choice([0.0, 0.01, 0.05, 0.09])
            passed += by
            before = passed + loop.time()
            await own.execute(older, {"by": timedelta(seconds=by)})
            got = await claim(own, endpoint_ids=[endpoint.id], lease_id=lease_id, share=1000, limit=1000)
            taken.append((before, passed + loop.time(), len(got.deliveries)))
        return taken

    taken = with_connection(main)

    # The bucket holds a tenth of a second, so any window of w seconds lets 10 + 100 w go at most.
    for first, (begin, _, _) in enumerate(taken):
        total = 0
        for _, end, count in taken[first:]:
            total += count
            assert total <= 10 + 100 * (end - begin) + 1
    # What a slow machine lets overflow between two claims is gone, and there are 700 deliveries in all.
    refilled = sum(min(10.0, 100 * (begin - ended)) for (_, ended, _), (begin, _, _) in pairwise(taken))
    assert sum(count for *_, count in taken) >= min(700, 0.9 * refilled)


# ── recovering endpoints ─────────────────────────────────────────────────────────────────────────────────────────────


def opened_breaker(endpoint: Endpoint) -> None:
    for delivery in claim_for(endpoint, limit=2).deliveries:
        settle_all(answered(delivery, 500), breaker=BREAKER)
    assert Lane.objects.get(endpoint=endpoint).breaker_open


def test_an_open_breaker_lets_nothing_go_before_its_cool_down(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 10)
    opened_breaker(endpoint)

    parked = claim_for(endpoint)

    assert parked.deliveries == []
    assert parked.closed == {endpoint.id: pytest.approx(10, abs=1)}


def test_after_the_cool_down_one_probe_goes_and_no_second_one_beside_it(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 10)
    opened_breaker(endpoint)
    pass_time(seconds=10)

    assert len(claim_for(endpoint).deliveries) == 1
    assert claim_for(endpoint).deliveries == []


def test_waiting_behind_a_breaker_uses_up_no_attempts(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 4)
    opened_breaker(endpoint)
    for _ in range(5):
        claim_for(endpoint)

    assert sorted(Delivery.objects.values_list("attempt_count", flat=True)) == [0, 0, 1, 1]


def test_after_the_probe_has_succeeded_the_backlog_drains_with_a_slow_start(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=10)
    accept(acme, 40)
    opened_breaker(endpoint)
    pass_time(seconds=10)
    in_flight = []
    for _ in range(6):
        claimed = claim_for(endpoint).deliveries
        in_flight.append(len(claimed))
        for delivery in claimed:
            settle_all(answered(delivery), breaker=BREAKER)
        if claimed[0].is_well:
            break

    assert in_flight == [1, 2, 4, 8, 10]


def test_a_probe_of_a_rate_limited_endpoint_that_fails_at_once_doubles_the_cool_down(acme: Consumer) -> None:
    """Regression: the rate limit closed the lane, so the probe was taken for one in flight since before the breaker."""
    endpoint = new_endpoint(acme, rate_limit_per_second=1)
    accept(acme, 10)
    for _ in range(2):
        pass_time(seconds=1)
        [delivery] = claim_for(endpoint).deliveries
        settle_all(answered(delivery, 500), breaker=BREAKER)
    pass_time(seconds=10)

    [probe] = claim_for(endpoint).deliveries
    settle_all(answered(probe, 500), breaker=BREAKER)

    lane = Lane.objects.get(endpoint=endpoint)
    assert (lane.cooldown_seconds, lane.failure_count) == (20, 3)
    assert (lane.opens_at - timezone.now()).total_seconds() == pytest.approx(20, abs=2)


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def opened(sealed: bytes | None, endpoint: Endpoint, column: Column = "secret_encrypted") -> str | None:
    return None if sealed is None else unseal(vault(), sealed, endpoint_id=endpoint.id, column=column)


def test_w06_the_previous_secret_is_handed_out_until_it_expires_and_no_longer(acme: Consumer) -> None:
    endpoint, old = endpoints.create(consumer=acme, url="https://receiver.test/")
    new = endpoints.rotate_secret(endpoint, overlap_seconds=3600).secret
    accept(acme, 2)

    [during] = claim_for(endpoint, limit=1).deliveries
    pass_time(seconds=3601)
    [after] = claim_for(endpoint, limit=1).deliveries

    assert opened(during.secret_encrypted, endpoint) == new
    assert opened(during.previous_secret_encrypted, endpoint, "previous_secret_encrypted") == old
    assert opened(after.secret_encrypted, endpoint) == new
    assert after.previous_secret_encrypted is None


# ── ordered endpoints ────────────────────────────────────────────────────────────────────────────────────────────────


def test_w15_one_delivery_of_a_key_is_claimed_and_other_keys_are_not_held_up(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    [first, *_] = accept(acme, 3, ordering_key="a")
    [other, *_] = accept(acme, 2, ordering_key="b")
    [unkeyed] = accept(acme)

    claimed = claim_for(endpoint).deliveries

    assert {delivery.event_id for delivery in claimed} == {first.id, other.id, unkeyed.id}
    assert claim_for(endpoint).deliveries == []


def test_w15_a_head_that_failed_keeps_its_key_waiting(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 3, ordering_key="a")
    [head] = claim_for(endpoint).deliveries

    settle_all(unanswered(head))

    assert claim_for(endpoint).deliveries == []
    pass_time(seconds=61)
    [again] = claim_for(endpoint).deliveries
    assert (again.id, again.number) == (head.id, 2)


def test_nothing_is_claimed_under_a_lease_that_is_over(acme: Consumer) -> None:
    """Regression: a worker that woke up after its lease had run out claimed deliveries that counted as lost at once."""
    endpoint, lease_id = new_endpoint(acme), ids.new_uuid()
    accept(acme, 2)
    with_connection(lambda own: renew_lease(own, lease_id=lease_id, worker="here:1", seconds=10))
    assert len(claim_for(endpoint, lease_id=lease_id, limit=1).deliveries) == 1
    pass_time(seconds=11)

    late = claim_for(endpoint, lease_id=lease_id)
    assert (late.deliveries, late.lease_is_over) == ([], True)

    with_connection(lambda own: renew_lease(own, lease_id=lease_id, worker="here:1", seconds=10))
    again = claim_for(endpoint, lease_id=lease_id)
    assert (len(again.deliveries), again.lease_is_over) == (1, False)


def test_nothing_is_claimed_under_a_lease_that_somebody_has_ended(acme: Consumer) -> None:
    """Its worker was taken for dead: what it claims now would go out again at the next sweep."""
    endpoint, lease_id = new_endpoint(acme), with_connection(new_lease)
    accept(acme)
    with_connection(lambda own: close_lease(own, lease_id=lease_id))

    late = claim_for(endpoint, lease_id=lease_id)

    assert (late.deliveries, late.lease_is_over, states(endpoint)) == ([], True, ["pending"])
    with_connection(lambda own: renew_lease(own, lease_id=lease_id, worker="here:1", seconds=10))
    assert len(claim_for(endpoint, lease_id=lease_id).deliveries) == 1
