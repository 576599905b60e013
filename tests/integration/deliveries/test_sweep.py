"""deliveries/sweep.py: what no message announced is found, what dead workers held goes out again. Without Redis."""

import asyncio
from uuid import UUID

import psycopg
import pytest
import redis
from django.utils import timezone

from deliveries import bell, sweep, tasks
from deliveries.claim import Claimed, renew_lease
from deliveries.health.breaker import Breaker
from deliveries.health.models import Notice
from deliveries.models import Attempt, Delivery
from deliveries.pump import database
from deliveries.pump.models import Lease
from subscriptions import endpoints, ids
from subscriptions.models import Consumer, Endpoint, Lane
from tests.walk import (
    accept,
    answered,
    claim_for,
    connect,
    new_endpoint,
    pass_time,
    settle_all,
    states,
    with_connection,
)

pytestmark = pytest.mark.django_db(transaction=True)

BREAKER = Breaker(failures=2, first_cooldown=10, longest_cooldown=1800)


def working(*wanted: Endpoint, limit: int = 1000) -> list[Claimed]:
    """A worker with a lease of 15 seconds, which it never renews."""
    lease_id = ids.new_uuid()
    with_connection(lambda own: renew_lease(own, lease_id=lease_id, worker="here:1", seconds=15))
    return claim_for(*wanted, limit=limit, lease_id=lease_id).deliveries


def recovered() -> int:
    return with_connection(lambda own: sweep.recover_lost(own, schedule=[0, 60, 300], breaker=BREAKER))


def due(limit: int = 100) -> list[UUID]:
    found = with_connection(lambda own: sweep.due_endpoints(own, limit=limit))
    assert sweep.due_endpoints_now(limit=limit) == found
    return found


# ── workers that died ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_delivery_whose_workers_lease_ran_out_is_pending_and_due_again_with_the_lost_attempt_on_record(
    acme: Consumer,
) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    [lost] = working(endpoint)
    pass_time(seconds=16)

    assert sweep.anything_lost()
    assert recovered() == 1

    delivery, attempt = Delivery.objects.get(), Attempt.objects.get()
    assert (delivery.state, delivery.attempt_count, delivery.leased_by) == ("pending", 1, None)
    assert delivery.due_at <= timezone.now()
    assert (attempt.delivery_id, attempt.number, attempt.url) == (lost.id, 1, endpoint.url)
    assert (attempt.status_code, attempt.error_kind, attempt.request_headers) == (None, "worker_lost", [])
    assert attempt.error_detail == "The worker died during this attempt; whether it reached the receiver is not known."


def test_the_next_worker_goes_on_with_the_next_number(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    working(endpoint)
    pass_time(seconds=16)
    recovered()

    [again] = working(endpoint)

    assert (again.number, again.attempt_in_round) == (2, 2)


def test_a_delivery_under_a_live_lease_is_left_alone(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    working(endpoint)
    pass_time(seconds=14)

    assert not sweep.anything_lost()
    assert recovered() == 0
    assert states(endpoint) == ["in_flight"]
    assert Attempt.objects.count() == 0


def test_a_lease_renewed_in_time_goes_on(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    working(endpoint)
    lease = Lease.objects.get()
    pass_time(seconds=14)
    with_connection(lambda own: renew_lease(own, lease_id=lease.id, worker="here:1", seconds=15))
    pass_time(seconds=14)

    assert recovered() == 0


def test_deliveries_of_a_lease_that_was_closed_go_out_again(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    claim_for(endpoint)  # no lease was ever opened, or it was closed already

    assert recovered() == 1
    assert states(endpoint) == ["pending"]


def test_the_last_attempt_lost_is_dead_with_a_notice(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    accept(acme)
    working(endpoint)
    pass_time(seconds=16)

    recovered()

    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.dead_reason) == ("dead", "attempts_exhausted")
    assert list(Notice.objects.values_list("kind", "delivery_id")) == [("dead", delivery.id)]


def test_attempts_lost_one_after_the_other_never_exceed_the_schedule(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    for _ in range(5):
        working(endpoint)
        pass_time(seconds=16)
        recovered()

    # The schedule in force has three entries.
    assert (states(endpoint), Attempt.objects.count()) == (["dead"], 3)


def test_a_worker_that_died_says_nothing_about_the_endpoint(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 5)
    working(endpoint)
    pass_time(seconds=16)
    before = Lane.objects.values().get()

    assert recovered() == 5

    assert Lane.objects.values().get() == before


def test_the_work_of_a_worker_that_held_hundreds_is_put_back_whole(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=1000)
    accept(acme, 620)
    working(endpoint)
    pass_time(seconds=16)

    assert recovered() == 620
    assert states(endpoint) == ["pending"] * 620
    assert Attempt.objects.filter(number=1, error_kind="worker_lost").count() == 620


def test_two_sweeps_at_once_put_back_each_delivery_once(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=1000)
    accept(acme, 300)
    working(endpoint)
    pass_time(seconds=16)

    async def main() -> list[int]:
        async with await connect() as one, await connect() as other:
            sweeps = [sweep.recover_lost(own, schedule=[0, 60], breaker=BREAKER) for own in (one, other)]
            return await asyncio.gather(*sweeps)

    assert sum(asyncio.run(main())) == 300
    assert Attempt.objects.count() == 300
    assert states(endpoint) == ["pending"] * 300


def test_w15_a_lost_head_keeps_its_key_waiting_and_a_dead_one_lets_it_go(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True, retry_schedule=[0, 0])
    accept(acme, 2, ordering_key="a")
    for blocked in (1, 0):
        working(endpoint)
        pass_time(seconds=16)
        recovered()
        assert Delivery.objects.filter(blocked=True).count() == blocked

    assert list(Delivery.objects.order_by("sequence").values_list("state", flat=True)) == ["dead", "pending"]


# ── work nobody was told of ──────────────────────────────────────────────────────────────────────────────────────────


def test_every_endpoint_with_due_work_is_found_once(acme: Consumer) -> None:
    busy = [new_endpoint(acme) for _ in range(5)]
    new_endpoint(acme, event_types=["other"])
    accept(acme, 3)

    assert due() == sorted(endpoint.id for endpoint in busy)
    assert len(due(limit=2)) == 2


def test_where_there_are_more_than_one_sweep_takes_the_longest_due_go_first(acme: Consumer) -> None:
    """Regression: those with the smallest ids were found every time, and the others starved behind them."""
    first, second, third = (new_endpoint(acme, event_types=[name]) for name in ("a", "b", "c"))
    for name in ("c", "b", "a"):
        accept(acme, type=name)
        pass_time(seconds=1)

    assert due(limit=2) == [third.id, second.id]
    assert due() == [third.id, second.id, first.id]


def test_an_endpoint_whose_work_is_under_way_or_done_is_not_found(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    one, two = claim_for(endpoint).deliveries
    assert due() == []

    settle_all(answered(one), answered(two))
    assert due() == []


def test_an_endpoint_whose_work_is_due_later_is_found_then(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[60])
    accept(acme)

    assert due() == []
    pass_time(seconds=60)
    assert due() == [endpoint.id]


def test_a_paused_endpoint_is_not_found_until_it_is_resumed(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    endpoints.pause(endpoint)
    assert due() == []

    endpoints.resume(endpoint)
    assert due() == [endpoint.id]


def test_a_disabled_endpoint_is_not_found(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    [first] = claim_for(endpoint, limit=1).deliveries
    settle_all(answered(first, 410))

    assert due() == []


def test_a_deleted_endpoint_is_not_found(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    endpoints.delete(endpoint)

    assert due() == []


def test_an_endpoint_behind_its_breaker_is_found_when_a_probe_may_go(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 5)
    settle_all(*[answered(delivery, 500) for delivery in claim_for(endpoint, limit=2).deliveries], breaker=BREAKER)

    assert due() == []
    pass_time(seconds=10)
    assert due() == [endpoint.id]


def test_w15_what_waits_behind_its_head_is_not_due(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 3, ordering_key="a")
    claim_for(endpoint)

    assert due() == []


# ── the periodic task ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_periodic_sweep_puts_back_and_rings(acme: Consumer, redis_client: "redis.Redis") -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    claim_for(endpoint)  # under a lease that was ended

    tasks.sweep_due()

    assert states(endpoint) == ["pending"]
    assert redis_client.zrange(bell.READY, 0, -1) == [endpoint.id.hex.encode()]
    assert redis_client.llen("deliveries") == 1


def test_a_background_worker_that_has_just_started_gives_all_others_time_to_renew_first(
    acme: Consumer, redis_client: "redis.Redis"
) -> None:
    """The database may have been away until now, and a lease that has run out says nothing."""
    endpoint = new_endpoint(acme)
    accept(acme)
    working(endpoint)
    pass_time(seconds=16)
    tasks._watch.cache_clear()

    tasks.sweep_due()

    assert states(endpoint) == ["in_flight"]
    assert recovered() == 1


def test_the_periodic_sweep_with_nothing_to_do_rings_nobody(acme: Consumer, redis_client: "redis.Redis") -> None:
    new_endpoint(acme)

    tasks.sweep_due()

    assert (redis_client.zcard(bell.READY), redis_client.llen("deliveries")) == (0, 0)


def test_an_ordering_key_that_somebody_holds_keeps_no_other_lost_delivery_from_coming_back(acme: Consumer) -> None:
    """Regression: the sweep waited for the key, gave up, and put nothing back."""
    held = new_endpoint(acme, event_types=["held"], ordered=True)
    other = new_endpoint(acme, event_types=["other"], ordered=True)
    accept(acme, type="held", ordering_key="a")
    accept(acme, type="other", ordering_key="b")
    claim_for(held, other)
    lock = "SELECT FROM deliveries_orderingkey WHERE key = 'a' FOR UPDATE"
    with psycopg.connect(database.conninfo()) as holder:
        holder.execute(lock)
        assert (recovered(), states(held), states(other)) == (1, ["in_flight"], ["pending"])

    assert (recovered(), states(held)) == (1, ["pending"])
