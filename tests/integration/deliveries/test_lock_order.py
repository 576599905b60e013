"""Everybody locks in one order: endpoint, lane, ordering key, delivery, event; in id order within each.

Each test holds what one party locks first, lets the other run until it waits, and goes on to what the first one locks
next. Locked in two orders, the two would wait for each other, and PostgreSQL would end one of them.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from psycopg import AsyncConnection

from deliveries import ingest, replay, sweep, tasks
from deliveries.actions import endpoints as actions
from deliveries.claim import Claimed
from deliveries.health import lifecycle
from deliveries.ingest import Accepted, Duplicate, NewEvent
from deliveries.models import Attempt, Delivery, Event
from deliveries.replay import NotReplayable
from deliveries.settle import Settled, lock_keys, settle
from deliveries.upkeep import retention
from subscriptions import endpoints
from subscriptions.audit import Actor
from subscriptions.models import Consumer, Endpoint, Lane
from tests.local import wait_until
from tests.walk import accept, answered, claim_for, connect, new_endpoint, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

Beside = Callable[[Callable[[], Any]], "Future[Any]"]

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"


@pytest.fixture
def beside() -> Iterator[Beside]:
    """Runs it on a connection of its own, as far as it comes: to its end, or to a lock that somebody holds."""
    with ThreadPoolExecutor() as threads:

        def start(run: Callable[[], Any]) -> "Future[Any]":
            before = waiting()
            running = threads.submit(_closing, run)
            wait_until(lambda: running.done() or waiting() > before, seconds=30)
            return running

        yield start


def _closing(run: Callable[[], Any]) -> Any:
    try:
        return run()
    finally:
        connection.close()


def waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return int((cursor.fetchone() or [0])[0])


def claimed_one(endpoint: Endpoint) -> Claimed:
    [claimed] = claim_for(endpoint).deliveries
    return claimed


def delivered_one(consumer: Consumer) -> Delivery:
    endpoint = new_endpoint(consumer)
    accept(consumer)
    settle_all(answered(claimed_one(endpoint)))
    return Delivery.objects.get(endpoint=endpoint, state="delivered")


async def swept_beside(own: AsyncConnection, other: AsyncConnection) -> "asyncio.Task[int]":
    """A sweep on the other connection, as far as it comes while the first one's transaction is open."""
    task = asyncio.create_task(sweep.recover_lost(other, schedule=[0, 60, 300], breaker=tasks.breaker()))
    async with asyncio.timeout(30):
        while not task.done():
            [count] = await (await own.execute(WAITING)).fetchone() or [0]
            if count:
                break
            await asyncio.wait([task], timeout=0.01)
    return task


def test_a_sweep_and_a_late_settler_of_an_ordered_delivery_do_not_deadlock(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, ordering_key="a")
    late = claimed_one(endpoint)  # under a lease that nobody opened: to a sweep it is lost

    async def race() -> tuple[Settled, int]:
        async with await connect() as own, await connect() as other:
            async with own.transaction():
                await lock_keys(own, [(acme.id, "a")])
                sweeping = await swept_beside(own, other)
                settled = await settle(own, [answered(late)], breaker=tasks.breaker())
            return settled, await sweeping

    settled, swept = asyncio.run(race())

    assert (settled.moved, swept) == ({(late.id, 1)}, 0)
    assert states(endpoint) == ["delivered"]
    assert list(Attempt.objects.values_list("number", "status_code")) == [(1, 200)]


def test_a_sweep_passes_over_what_its_worker_settles_after_all(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    one, two = claim_for(endpoint).deliveries

    async def race() -> int:
        async with await connect() as own, await connect() as other, own.transaction():
            await settle(own, [answered(one)], breaker=tasks.breaker())
            return await (await swept_beside(own, other))

    assert asyncio.run(race()) == 1
    assert Delivery.objects.get(id=one.id).state == "delivered"
    assert Delivery.objects.get(id=two.id).state == "pending"


def test_a_late_outcome_beside_the_newer_one_says_nothing_about_the_endpoint(acme: Consumer) -> None:
    """Both in one batch: the fence is the delivery and the attempt's number, not the delivery alone."""
    endpoint = new_endpoint(acme, retry_schedule=[0, 0, 0])
    accept(acme)
    late = claimed_one(endpoint)
    asyncio.run(_recovered())
    newer = claimed_one(endpoint)

    settle_all(answered(newer, 500), answered(late, 410))

    endpoint.refresh_from_db()
    assert (endpoint.status, Lane.objects.get(endpoint=endpoint).failure_count) == ("active", 1)


async def _recovered() -> None:
    async with await connect() as own:
        await sweep.recover_lost(own, schedule=[0, 0, 0], breaker=tasks.breaker())


def test_a_410_and_a_person_who_probes_do_not_deadlock(acme: Consumer, beside: Beside) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    claimed = claimed_one(endpoint)

    with transaction.atomic():
        endpoints.rotate_secret(endpoint, overlap_seconds=0)  # locks the endpoint, as all that people do to one
        settling = beside(lambda: settle_all(answered(claimed, 410)))
        actions.probe_now(endpoint, actor=Actor.of_user("olga"), why="")

    assert settling.result(30).moved == {(claimed.id, 1)}
    endpoint.refresh_from_db()
    assert endpoint.status == "disabled"


def test_turning_order_on_and_probing_do_not_deadlock(acme: Consumer, beside: Beside) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2, ordering_key="a")

    with transaction.atomic():
        endpoints.rotate_secret(endpoint, overlap_seconds=0)
        turning = beside(lambda: lifecycle.update(Endpoint.objects.get(), {"ordered": True}))
        actions.probe_now(endpoint, actor=Actor.of_user("olga"), why="")

    assert turning.result(30).ordered is True
    assert list(Delivery.objects.order_by("sequence").values_list("blocked", flat=True)) == [False, True]


def test_an_event_accepted_while_order_is_turned_on_takes_its_place(acme: Consumer, beside: Beside) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, ordering_key="a")

    with transaction.atomic():
        ingest.accept([NewEvent(consumer="acme", type="invoice.paid", data={}, ordering_key="a")], now=timezone.now())
        turning = beside(lambda: lifecycle.update(Endpoint.objects.get(id=endpoint.id), {"ordered": True}))

    turning.result(30)
    assert list(Delivery.objects.order_by("id").values_list("sequence", "blocked")) == [(1, False), (2, True)]


def test_two_batches_with_the_same_producer_ids_do_not_deadlock(acme: Consumer, beside: Beside) -> None:
    new_endpoint(acme)

    def batch(*producer_ids: str) -> list[Any]:
        new = [NewEvent(consumer="acme", type="a.b", data={}, producer_id=each) for each in producer_ids]
        with transaction.atomic():
            return ingest.accept(new, now=timezone.now()).results

    batch("first")  # the catalogue knows the type from now on
    # Both wait for somebody who has taken the id in the middle, and then find it free.
    with suppress(ZeroDivisionError), transaction.atomic():
        ingest.accept([NewEvent(consumer="acme", type="a.b", data={}, producer_id="m")], now=timezone.now())
        one = beside(lambda: batch("a", "m", "z"))
        two = beside(lambda: batch("z", "m", "a"))
        raise ZeroDivisionError

    assert [type(result) for result in one.result(30)] == [Accepted] * 3
    assert [type(result) for result in two.result(30)] == [Duplicate] * 3
    assert set(Event.objects.values_list("producer_id", flat=True)) == {"a", "first", "m", "z"}
    assert Event.objects.count() == 4


def test_two_replays_of_the_same_deliveries_do_not_deadlock(acme: Consumer, beside: Beside) -> None:
    first, second, third = (delivered_one(acme).id for _ in range(3))

    def replayed(*delivery_ids: Any) -> int:
        with transaction.atomic():
            return replay.replay_many(delivery_ids)

    with suppress(ZeroDivisionError), transaction.atomic():
        replay.replay_many([second])
        one = beside(lambda: replayed(first, second, third))
        two = beside(lambda: replayed(third, second, first))
        raise ZeroDivisionError

    assert [one.result(30), two.result(30)] == [3, 0]


# ── a replay and the end of retention ────────────────────────────────────────────────────────────────────────────────

DAYS = retention.Days(attempts=30, payloads=40, delivered=90, dead=180, audit_entries=730, deleted_endpoints=7)


def forget_payloads() -> None:
    retention.forget(DAYS, now=timezone.now() + timedelta(days=41))


def test_a_payload_is_kept_while_a_replay_of_it_is_under_way(acme: Consumer, beside: Beside) -> None:
    delivery = delivered_one(acme)

    with transaction.atomic():
        replay.replay_one(delivery)
        forgetting = beside(forget_payloads)
    forgetting.result(30)

    assert claimed_one(delivery.endpoint).body == bytes(Event.objects.get().body or b"")


def test_a_replay_beside_retention_finds_the_payload_or_says_that_it_is_gone(acme: Consumer, beside: Beside) -> None:
    delivery = delivered_one(acme)

    with transaction.atomic():
        forget_payloads()
        replaying = beside(lambda: replay.replay_one(delivery))

    with pytest.raises(NotReplayable, match="payload was removed"):
        replaying.result(30)
    assert states(delivery.endpoint) == ["delivered"]
