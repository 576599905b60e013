"""deliveries/pump/settler.py while somebody holds a row: whose outcomes wait, and whose do not."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import httpx
import psycopg
import pytest
import redis.asyncio
from django.conf import settings
from django.db import connection

from deliveries import tasks
from deliveries.deliver import Pump
from deliveries.models import Attempt, Delivery
from deliveries.pump import database
from deliveries.pump.settler import UnwrittenOutcomes
from deliveries.pump.slots import Slots
from subscriptions.models import Consumer, Endpoint, Lane
from tests.walk import accept, answered, claim_for, new_endpoint, states

pytestmark = pytest.mark.django_db(transaction=True)

LANE = "SELECT FROM subscriptions_lane WHERE endpoint_id = %(endpoint)s FOR UPDATE"
KEY = "SELECT FROM deliveries_orderingkey WHERE key = 'a' FOR UPDATE"
HEAD = "SELECT FROM deliveries_delivery WHERE endpoint_id = %(endpoint)s AND NOT blocked FOR UPDATE"
NEXT = "SELECT FROM deliveries_delivery WHERE endpoint_id = %(endpoint)s AND blocked FOR UPDATE"


T = TypeVar("T")


def in_thread(ask: Callable[[], T]) -> T:
    try:
        return ask()
    finally:
        connection.close()


async def until(condition: Callable[[], bool], running: "asyncio.Task[None]") -> None:
    while not await asyncio.to_thread(in_thread, condition):
        assert not running.done()


def deliver_while_held(
    lock: str, *, held: Endpoint, healthy: list[Endpoint], accept_more: Callable[[], object]
) -> None:
    """Sends what `held` is owed, and takes the lock before the answer comes. Then the others' events are accepted, and
    all of them are delivered before the lock is given back; then `held` is settled too."""

    async def main() -> None:
        holder = await psycopg.AsyncConnection.connect(database.conninfo())

        async def answer(request: httpx.Request) -> httpx.Response:
            if request.url.host == "held.test" and not locked.is_set():
                await holder.execute(lock, {"endpoint": held.id})
                locked.set()
                return httpx.Response(500 if lock == LANE else 200)
            return httpx.Response(200)

        locked = asyncio.Event()
        async with (
            holder,
            database.new_pool() as pool,
            redis.asyncio.Redis.from_url(settings.REDIS_URL) as client,
            httpx.MockTransport(answer) as transport,
            asyncio.timeout(60),
        ):
            options = replace(tasks.options(), sweep_seconds=0.05)
            pump = Pump(pool=pool, bell_client=client, transport=transport, options=options)
            running = asyncio.create_task(pump.run())
            await locked.wait()
            await asyncio.to_thread(in_thread, accept_more)
            await until(lambda: all(set(states(each)) == {"delivered"} for each in healthy), running)
            assert "in_flight" in await asyncio.to_thread(in_thread, lambda: states(held))
            await holder.rollback()
            await until(lambda: "in_flight" not in states(held), running)
            pump.stop()
            await running

    asyncio.run(main())


def test_a_lane_that_somebody_holds_stops_no_other_endpoint(acme: Consumer, redis_client: "redis.Redis") -> None:
    """Regression: the whole batch was tried again until the lock was gone, and so nobody's outcome was written."""
    held = new_endpoint(acme, url="https://held.test/", event_types=["held"])
    healthy = [new_endpoint(acme, url=f"https://well{n}.test/", event_types=["well"]) for n in range(3)]
    accept(acme, type="held")

    deliver_while_held(LANE, held=held, healthy=healthy, accept_more=lambda: accept(acme, 5, type="well"))

    assert states(held) == ["pending"]
    attempts = list(Attempt.objects.filter(delivery__endpoint=held).values_list("number", "status_code"))
    assert attempts == [(1, 500)]
    assert Lane.objects.get(endpoint=held).failure_count == 1
    assert Attempt.objects.count() == 16


@pytest.mark.parametrize("lock", [KEY, HEAD, NEXT], ids=["the key", "the delivery", "the next of the key"])
def test_an_ordering_key_or_delivery_that_somebody_holds_stops_no_other(
    lock: str, acme: Consumer, redis_client: "redis.Redis"
) -> None:
    held = new_endpoint(acme, url="https://held.test/", event_types=["held"], ordered=True)
    healthy = [new_endpoint(acme, url=f"https://well{n}.test/", event_types=["well"], ordered=n == 0) for n in range(3)]
    accept(acme, 2, type="held", ordering_key="a")

    deliver_while_held(
        lock, held=held, healthy=healthy, accept_more=lambda: accept(acme, 3, type="well", ordering_key="b")
    )

    assert Delivery.objects.filter(endpoint=held).exclude(state="delivered").count() <= 1
    assert Attempt.objects.filter(delivery__endpoint__in=healthy).count() == 9


class EarlyLoop(asyncio.SelectorEventLoop):
    """Its timers ring a little early, as those of uvloop do: it counts whole milliseconds."""

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, **options: Any
    ) -> asyncio.TimerHandle:
        return super().call_later(max(0.0, delay - 0.01), callback, *args, **options)


def test_what_was_set_aside_is_tried_again_although_a_timer_rings_early(acme: Consumer) -> None:
    """Regression: a full pump whose outcomes were all set aside waited for ever, with its lease alive."""
    endpoint = new_endpoint(acme)
    accept(acme)
    [delivery] = claim_for(endpoint, limit=1).deliveries

    async def main() -> None:
        async with (
            await psycopg.AsyncConnection.connect(database.conninfo()) as holder,
            database.new_pool() as pool,
            asyncio.timeout(60),
        ):
            outcomes = UnwrittenOutcomes(pool, breaker=tasks.breaker(), slots=Slots(1), is_awaited=lambda: True)
            await holder.execute(LANE, {"endpoint": endpoint.id})
            outcomes.add(delivery, answered(delivery, 500), is_awaited=True)
            written = await outcomes.write_next()
            assert written.batch == []
            await holder.rollback()
            while not written.batch:
                written = await outcomes.write_next()

    with asyncio.Runner(loop_factory=EarlyLoop) as runner:
        runner.run(main())
    assert Lane.objects.get(endpoint=endpoint).failure_count == 1
