"""deliveries/deliver.py with everything real: accepted over the API, claimed, signed, sent, settled."""

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import orjson
import psycopg
import pytest
import redis
import redis.asyncio
import stripe
from django.conf import settings
from django.db import connection
from django.db.models.expressions import RawSQL
from standardwebhooks import Webhook

from deliveries import bell, tasks
from deliveries.deliver import Pump
from deliveries.health.breaker import Breaker
from deliveries.models import Attempt, Delivery, Event
from deliveries.pump import database
from deliveries.pump.listener import Listener
from deliveries.pump.models import Lease
from deliveries.pump.pool import Pool
from deliveries.pump.transport import GuardedTransport
from subscriptions import endpoints
from subscriptions.guards.targets import policy
from subscriptions.models import Consumer, Lane
from tests.conftest import Api, PumpRunner
from tests.local import free_port
from tests.receiver import Received, Receiver, Reply, running_receiver
from tests.servers import needs_session
from tests.walk import accept, answering, new_endpoint, pass_time, states

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999, "note": "Grüße 🎉\u2028"}}


def test_w02_a_delivery_verifies_with_stripe_and_its_attempt_is_recorded(
    producer: Api, acme_api: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url)
    event = producer.post("events/", EVENT).json()

    assert pump.run() == 1

    [received] = receiver.received
    assert stripe.WebhookSignature.verify_header(
        received.body.decode(), received.headers["Webhook-Signature"], secret, tolerance=5
    )
    assert received.headers["Webhook-Id"] == event["id"]
    assert received.headers["Webhook-Attempt"] == "1"
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count) == ("delivered", 1)
    attempt = Attempt.objects.get()
    assert (attempt.number, attempt.status_code, attempt.error_kind) == (1, 200, None)
    shown = acme_api.get(f"deliveries/{delivery.public_id}/").json()
    assert shown["attempts"][0]["response_body"] == "ok"


def test_w02_a_standard_endpoint_verifies_with_standardwebhooks(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url, signature_scheme="standard")
    producer.post("events/", EVENT)

    pump.run()

    [received] = receiver.received
    headers = {name.lower(): value for name, value in received.headers.items()}
    assert Webhook(secret).verify(received.body, headers)["data"] == EVENT["data"]


def test_a_failed_attempt_is_due_again_after_the_schedules_wait(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    receiver.answer = lambda received: Reply(status=500)
    endpoints.create(consumer=acme, url=receiver.url)
    producer.post("events/", EVENT)

    assert pump.run() == 0

    delivery = Delivery.objects.get()
    attempt = Attempt.objects.get()
    assert (delivery.state, delivery.attempt_count, attempt.error_kind) == ("pending", 1, "http_500")
    wait = (delivery.due_at - attempt.started_at).total_seconds()
    assert 60 * 0.8 <= wait <= 60 * 1.2 + 1


def test_w13_the_last_attempt_fails_and_the_delivery_is_dead(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    receiver.answer = lambda received: Reply(status=503)
    endpoints.create(consumer=acme, url=receiver.url, retry_schedule=[0, 0, 0])
    producer.post("events/", EVENT)

    pump.run()

    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count, delivery.dead_reason) == ("dead", 3, "attempts_exhausted")
    assert len(receiver.received) == 3
    assert [received.headers["Webhook-Attempt"] for received in receiver.received] == ["1", "2", "3"]


def test_w12_a_new_pump_for_every_attempt_keeps_the_whole_schedule_and_its_jitter(
    acme: Consumer, pump: PumpRunner
) -> None:
    """Nothing of the schedule lives in a process: each attempt here is made by another one than the last."""
    endpoint = new_endpoint(acme)
    accept(acme)
    for number, wait in enumerate(settings.DELIVERY_RETRY_SCHEDULE[1:], start=1):
        assert pump.run(transport=answering(500)) == 0
        delivery, attempt = Delivery.objects.get(), Attempt.objects.get(number=number)
        waits = (delivery.due_at - attempt.started_at).total_seconds()
        # A slow machine takes its time between the answer and its settlement.
        assert (delivery.state, wait * 0.8 <= waits <= wait * 1.2 + 30) == ("pending", True)
        pass_time(seconds=wait * 1.2 + 30)
    pump.run(transport=answering(500))

    assert states(endpoint) == ["dead"]
    assert list(Attempt.objects.order_by("number").values_list("number", flat=True)) == [1, 2, 3, 4, 5, 6, 7]


class Patient:
    """A receiver that answers nobody until it is told to, and then everybody."""

    def __init__(self) -> None:
        self.under_way: list[httpx.Request] = []
        self._answer = asyncio.Event()
        self.transport = httpx.MockTransport(self._take)

    def answer(self) -> None:
        self._answer.set()

    async def _take(self, request: httpx.Request) -> httpx.Response:
        self.under_way.append(request)
        await self._answer.wait()
        return httpx.Response(200)


@asynccontextmanager
async def running_pumps(
    count: int = 1,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    redis_url: str | None = None,
    connection_class: type[psycopg.AsyncConnection] = psycopg.AsyncConnection,
    **changes: Any,
) -> AsyncIterator[dict[asyncio.Task[None], Pump]]:
    """Pumps at work until the block ends; then each is stopped, and has settled what it had in flight."""
    options = replace(tasks.options(), **{"idle_seconds": 60, "sweep_seconds": 0.05, **changes})
    async with AsyncExitStack() as stack:
        running = {}
        for _ in range(count):
            pool = Pool(partial(connection_class.connect, database.conninfo(), **database.session()))
            client = redis.asyncio.Redis.from_url(redis_url or settings.REDIS_URL, socket_timeout=5)
            carrier = transport or GuardedTransport(policy=policy())
            for resource in (pool, client, carrier):
                await stack.enter_async_context(resource)
            pump = Pump(pool=pool, bell_client=client, transport=carrier, options=options)
            running[asyncio.create_task(pump.run())] = pump
        try:
            yield running
        finally:
            for pump in running.values():
                pump.stop()
            await asyncio.wait_for(asyncio.gather(*running), 30)


async def until(condition: Callable[[], bool], running: dict[asyncio.Task[None], Pump], *, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            ended, _ = await asyncio.wait(running, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
            assert not ended, "a pump ended by itself"


def pump_until(condition: Callable[[], bool], *, count: int = 1, **changes: Any) -> None:
    """Runs pumps until the receiver has seen enough; a lane that is closed for a moment does not end them."""

    async def main() -> None:
        async with running_pumps(count, **changes) as running:
            await until(condition, running)

    asyncio.run(main())


def ids_of(received: list[Received]) -> list[str]:
    return [each.headers["Webhook-Id"] for each in received]


@pytest.fixture
def other_receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


# ── on the wire ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_w01_a_delivery_is_a_post_of_json(producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner) -> None:
    new_endpoint(acme, url=receiver.url)
    event = producer.post("events/", EVENT, headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}).json()

    pump.run()

    [received] = receiver.received
    assert (received.path, received.headers["Content-Type"]) == ("/hook", "application/json")
    assert received.headers["User-Agent"] == "webhooks-platform/1"
    assert received.headers["Idempotency-Key"] == event["id"]
    assert received.headers["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert orjson.loads(received.body) == {
        "id": event["id"],
        "type": "invoice.paid",
        "created_at": event["created_at"],
        "timestamp": event["created_at"],
        "api_version": "1",
        "data": EVENT["data"],
    }


def test_w03_the_bytes_received_are_the_bytes_stored_and_signed(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url)
    data = (
        '{"z":"Grüße 🎉","a":"\u2028\u2029","float":0.1,"tiny":5e-324,"whole":1.0,"big":9007199254740993,'
        '"huge":18446744073709551615,"empty":{"list":[],"object":{},"text":"","null":null},"quote":"\\"\\\\/"}'
    )

    answer = producer.post("events/", f'{{"consumer":"acme","type":"t","data":{data}}}')
    assert answer.status_code == 202, answer.content
    pump.run()

    [received] = receiver.received
    assert received.body.partition(b'"data":')[2] == data.encode() + b"}"
    assert received.body == bytes(Event.objects.get().body or b"")
    assert stripe.WebhookSignature.verify_header(
        received.body.decode(), received.headers["Webhook-Signature"], secret, tolerance=5
    )


def test_w04_w05_a_retry_has_the_same_id_and_body_and_a_fresh_timestamp(
    producer: Api, acme: Consumer, receiver: Receiver, redis_client: "redis.Redis"
) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url, retry_schedule=[0, 2])
    receiver.answer = lambda received: Reply(status=500)
    producer.post("events/", EVENT)
    producer.post("events/", EVENT)

    pump_until(lambda: len(receiver.received) == 4)

    by_event = [
        [r for r in receiver.received if r.headers["Webhook-Id"] == each] for each in set(ids_of(receiver.received))
    ]
    assert [len(attempts) for attempts in by_event] == [2, 2]
    for first, second in by_event:
        assert first.body == second.body
        assert [r.headers["Webhook-Attempt"] for r in (first, second)] == ["1", "2"]
        assert int(second.headers["Webhook-Timestamp"]) > int(first.headers["Webhook-Timestamp"])
        for received in (first, second):
            assert abs(received.at - int(received.headers["Webhook-Timestamp"])) <= 2
            assert stripe.WebhookSignature.verify_header(
                received.body.decode(), received.headers["Webhook-Signature"], secret, tolerance=5
            )


def numbered(base: int) -> Callable[[Received], Reply]:
    """Answers event number n with status base + n. These statuses have no body by definition: 204, 205, 304."""

    def answer(received: Received) -> Reply:
        status = base + int(orjson.loads(received.body)["data"]["number"])
        body = b"" if status in (204, 205, 304) else b"ok"
        return Reply(status=status, body=body, headers={"Location": "http://127.0.0.1:9/elsewhere"})

    return answer


def test_w07_each_of_200_to_299_succeeds(acme: Consumer, receiver: Receiver, pump: PumpRunner) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    receiver.answer = numbered(200)
    accept(acme, 100)

    assert pump.run() == 100

    assert states(endpoint) == ["delivered"] * 100
    assert set(Attempt.objects.values_list("status_code", flat=True)) == set(range(200, 300))
    assert len(receiver.received) == 100


def test_w07_each_of_300_to_399_fails_and_causes_no_second_request(
    acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, retry_schedule=[0])
    receiver.answer = numbered(300)
    accept(acme, 100)

    assert pump.run(breaker=NEVER) == 0

    assert states(endpoint) == ["dead"] * 100
    assert sorted(Attempt.objects.values_list("status_code", "error_kind")) == [
        (status, f"http_{status}") for status in range(300, 400)
    ]
    assert len(receiver.received) == len(set(ids_of(receiver.received))) == 100


@pytest.mark.parametrize("status_code", [429, 503])
def test_w09_a_retry_after_holds_the_whole_endpoint_back_that_long_and_nobody_else(
    acme: Consumer, receiver: Receiver, other_receiver: Receiver, redis_client: "redis.Redis", status_code: int
) -> None:
    new_endpoint(acme, url=receiver.url, max_in_flight=1)
    other = new_endpoint(acme, url=other_receiver.url)
    replies = iter([Reply(status=status_code, headers={"Retry-After": "1"})])
    receiver.answer = lambda received: next(replies, Reply())
    accept(acme, 5)

    pump_until(lambda: len(receiver.received) == 6)

    refused, *rest = receiver.received
    assert min(received.at for received in rest) - refused.at >= 1
    assert states(other) == ["delivered"] * 5
    assert max(received.at for received in other_receiver.received) - refused.at < 1


def test_w09_nonsense_in_a_retry_after_is_ignored_and_a_year_is_a_day(
    acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    new_endpoint(acme, url=receiver.url, event_types=["a"])
    new_endpoint(acme, url=receiver.url, event_types=["b"])
    values = {"a": "Sun, 01 Mar 2026 12:00:07 +99999999999999999999", "b": "31536000"}
    receiver.answer = lambda received: Reply(
        status=503, headers={"Retry-After": values[orjson.loads(received.body)["type"]]}
    )
    accept(acme, type="a")
    accept(acme, type="b")

    pump.run()

    waits = {
        lane.endpoint.event_types[0]: (lane.opens_at - lane.last_failure_at).total_seconds()
        for lane in Lane.objects.select_related("endpoint")
        if lane.last_failure_at
    }
    assert waits == {"a": pytest.approx(30, abs=1), "b": pytest.approx(86_400, abs=1)}


# ── who holds up whom ────────────────────────────────────────────────────────────────────────────────────────────────


def test_w10_a_receiver_that_never_answers_is_cut_off_and_holds_nobody_up(
    acme: Consumer, receiver: Receiver, other_receiver: Receiver, redis_client: "redis.Redis"
) -> None:
    silent = new_endpoint(acme, url=receiver.url, timeout_seconds=1, retry_schedule=[0])
    new_endpoint(acme, url=other_receiver.url)
    over = threading.Event()
    receiver.answer = lambda received: Reply() if over.wait(20) else Reply(status=500)
    accept(acme, 40)

    try:
        pump_until(lambda: len(receiver.received) >= 20)
    finally:
        over.set()

    first = receiver.received[0].at
    assert len(other_receiver.received) == 40
    assert max(received.at for received in other_receiver.received) - first < 1
    assert sum(received.at - first < 0.9 for received in receiver.received) == 10
    attempts = Attempt.objects.filter(delivery__endpoint=silent)
    assert set(attempts.values_list("error_kind", flat=True)) == {"read_timeout"}
    assert all(1000 <= duration < 2000 for duration in attempts.values_list("duration_ms", flat=True))


def test_three_pumps_together_never_go_over_an_endpoints_cap(
    acme: Consumer, receiver: Receiver, redis_client: "redis.Redis"
) -> None:
    new_endpoint(acme, url=receiver.url, max_in_flight=4)
    held = threading.Event()
    receiver.answer = lambda received: Reply(status=500 if held.wait(0.01) else 200)
    accept(acme, 150)

    pump_until(lambda: len(receiver.received) == 150, count=3)

    assert receiver.most_at_once == 4
    assert len(set(ids_of(receiver.received))) == 150


def test_a_rate_limit_holds_at_the_receiver_over_every_window(
    acme: Consumer, receiver: Receiver, redis_client: "redis.Redis"
) -> None:
    new_endpoint(acme, url=receiver.url, rate_limit_per_second=30, max_in_flight=100)
    accept(acme, 45)

    pump_until(lambda: len(receiver.received) == 45, count=2)

    # The bucket holds a tenth of a second, three requests; half a one is for what the network adds.
    times = sorted(received.at for received in receiver.received)
    for first, begin in enumerate(times):
        for count, end in enumerate(times[first:], start=1):
            assert count <= 3.5 + 30 * (end - begin) + 1
    assert times[-1] - times[0] <= 45 / 30 + 1


def test_f_more_hanging_requests_than_slots_hold_nobody_up(acme: Consumer, redis_client: "redis.Redis") -> None:
    """Ten slots, and four endpoints that would take five each. Once they are known, two slots stay free of them."""
    hanging = [new_endpoint(acme, url="https://hangs.test/", max_in_flight=5, event_types=["a"]) for _ in range(4)]
    healthy = new_endpoint(acme, url="https://answers.test/", event_types=["b"])
    over, asked = asyncio.Event(), Counter[str]()

    async def answer(request: httpx.Request) -> httpx.Response:
        asked[request.url.host] += 1
        if request.url.host == "hangs.test" and not over.is_set():
            await over.wait()
        return httpx.Response(200)

    def answered_more_than(count: int) -> bool:
        return asked["answers.test"] > count

    async def main() -> None:
        async with running_pumps(transport=httpx.MockTransport(answer), concurrency=10) as running:
            await asyncio.to_thread(accepted, acme, 2, "a")
            await until(lambda: asked["hangs.test"] == 8, running)
            # They have been silent for a while, and there are more of them now than slots.
            since = time.monotonic()
            await until(lambda: time.monotonic() - since > 0.3, running)
            await asyncio.to_thread(accepted, acme, 5, "a")
            for _ in range(3):
                before = asked["answers.test"]
                await asyncio.to_thread(accepted, acme, 1, "b")
                await until(partial(answered_more_than, before), running)
            assert asked["hangs.test"] == 8
            over.set()
            await until(lambda: asked["hangs.test"] == 28, running)

    asyncio.run(main())
    assert states(healthy) == ["delivered"] * 3
    assert [states(endpoint) for endpoint in hanging] == [["delivered"] * 7] * 4


def accepted(consumer: Consumer, count: int, type: str) -> None:
    """From a thread of its own, as the web server does it, and rung for."""
    try:
        accept(consumer, count, type=type)
    finally:
        connection.close()


def test_f_a_claim_whose_answer_is_lost_goes_out_again_although_its_worker_lives(
    acme: Consumer, redis_client: "redis.Redis"
) -> None:
    """The claim is committed, and the connection dies before the worker hears of it."""
    endpoint = new_endpoint(acme, max_in_flight=1)
    accept(acme, 2)

    class LosesAnAnswer(Pool):
        lost = 0

        @asynccontextmanager
        async def connection(self, *, seconds: float = 30) -> AsyncIterator[psycopg.AsyncConnection]:
            async with super().connection(seconds=seconds) as own:
                yield own
                cursor = await own.execute("SELECT count(*) FROM deliveries_delivery WHERE state = 'in_flight'")
                [claimed] = await cursor.fetchone() or [0]
                if claimed and not self.lost:
                    self.lost = claimed
                    raise psycopg.OperationalError("the connection is gone")

    async def main() -> None:
        pool = LosesAnAnswer(partial(psycopg.AsyncConnection.connect, database.conninfo(), **database.session()))
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=5)
        options = replace(tasks.options(), idle_seconds=60, sweep_seconds=0.05, renew_seconds=0.1)
        async with pool, client, answering(200) as transport, asyncio.timeout(60):
            pump = Pump(pool=pool, bell_client=client, transport=transport, options=options)
            running = asyncio.create_task(pump.run())
            while not running.done() and await asyncio.to_thread(delivered) < 2:
                await asyncio.wait([running], timeout=0.01)
            pump.stop()
            await running
        assert pool.lost == 1

    asyncio.run(main())
    assert states(endpoint) == ["delivered"] * 2
    attempts = Counter(Attempt.objects.values_list("number", "error_kind"))
    assert attempts == {(1, "worker_lost"): 1, (2, None): 1, (1, None): 1}
    assert Lease.objects.count() == 0


@needs_session
def test_f_a_server_that_takes_no_writes_any_more_is_left_for_its_successor(acme: Consumer) -> None:
    """A primary that was demoted in place looks healthy to a pool, and would be asked for an hour."""
    made: list[psycopg.AsyncConnection] = []

    async def demote_the_first() -> psycopg.AsyncConnection:
        own = await psycopg.AsyncConnection.connect(database.conninfo(), **database.session())
        await own.execute(f"SET default_transaction_read_only = {'off' if made else 'on'}")
        made.append(own)
        return own

    async def main() -> int:
        async with Pool(demote_the_first, size=1) as pool, asyncio.timeout(60):
            change = "UPDATE subscriptions_consumer SET name = 'New'"
            return (await database.insist(pool, lambda own: own.execute(change))).rowcount

    assert asyncio.run(main()) == 1
    assert len(made) == 2


def test_a_success_that_was_under_way_when_another_failed_ends_the_run_of_failures(
    acme: Consumer, redis_client: "redis.Redis"
) -> None:
    """Both were claimed while the endpoint was well."""
    new_endpoint(acme, max_in_flight=2)
    asked: list[httpx.Request] = []

    def failures() -> list[int]:
        try:
            return list(Lane.objects.values_list("failure_count", flat=True))
        finally:
            connection.close()

    async def main() -> None:
        answer = asyncio.Event()

        async def take(request: httpx.Request) -> httpx.Response:
            asked.append(request)
            if len(asked) == 1:
                return httpx.Response(500)
            await answer.wait()
            return httpx.Response(200)

        async with running_pumps(transport=httpx.MockTransport(take)):
            await asyncio.to_thread(accepted, acme, 2, "invoice.paid")
            async with asyncio.timeout(20):
                while await asyncio.to_thread(failures) != [1]:
                    pass
                answer.set()
                while await asyncio.to_thread(failures) != [0]:
                    pass

    asyncio.run(main())
    assert len(asked) == 2


def test_f_a_pump_stays_while_redis_is_full_since_no_message_could_start_another(redis_client: "redis.Redis") -> None:
    """A full one still lets us listen."""

    async def main() -> list[bool]:
        async with redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=5) as client:
            listener = Listener(client, sweep_seconds=0.001)
            redis_client.config_set("maxmemory", 1)
            try:
                full = await listener.is_my_turn(), listener.works
                redis_client.config_set("maxmemory", 0)
                redis_client.zadd(bell.READY, {endpoint_id.hex: 1})
                redis_client.config_set("maxmemory", 1)
                heard = await listener.hear(lambda: 1) == [endpoint_id]
                still = listener.works
            finally:
                redis_client.config_set("maxmemory", 0)
            await listener.is_my_turn()
            return [*full, heard, still, listener.works]

    endpoint_id = uuid4()
    assert asyncio.run(main()) == [True, False, True, False, True]


def delivered() -> int:
    try:
        return Delivery.objects.filter(state="delivered").count()
    finally:
        connection.close()


def test_endpoints_take_turns_when_slots_are_few(acme: Consumer, pump: PumpRunner) -> None:
    """Regression: endpoints that found no slot lost their turn, so the same ones went first again and again."""
    for number in range(12):
        new_endpoint(acme, url=f"https://receiver.test/{number}")
    accept(acme, 8)
    order: list[str] = []

    def take(request: httpx.Request) -> httpx.Response:
        order.append(request.url.path)
        return httpx.Response(200)

    assert pump.run(transport=httpx.MockTransport(take), concurrency=3) == 96

    # After half of it, nobody has had everything and nobody nothing.
    half = Counter(order[:48])
    assert len(half) == 12
    assert max(half.values()) <= 6


def test_who_came_too_late_for_a_slot_is_visited_again_without_a_sweep(
    acme: Consumer, pump: PumpRunner, redis_client: "redis.Redis"
) -> None:
    """Ten slots for three endpoints: four, four and two, and the third has more to send."""
    endpoints = [new_endpoint(acme, url=f"https://receiver.test/{number}") for number in range(3)]
    accept(acme, 20)
    bell.ring_now([endpoint.id for endpoint in endpoints], client=redis_client)
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    assert pump.run(transport=transport, concurrency=10, sweep_seconds=1000) == 60


def test_where_most_have_a_delivery_or_two_a_claim_still_fills_the_slots(
    acme: Consumer, redis_client: "redis.Redis", settings: Any
) -> None:
    """Regression: it asked so many endpoints as if each had four, and then for the rest again, nine times over."""
    settings.MAX_ENDPOINTS_PER_CONSUMER = 200
    endpoints = [new_endpoint(acme, url=f"https://receiver.test/{number}") for number in range(160)]
    accept(acme)
    receiver = Patient()
    claims: list[int] = []

    async def main() -> None:
        async with running_pumps(transport=receiver.transport, concurrency=160, sweep_seconds=3600) as running:
            bell.ring_now([endpoint.id for endpoint in endpoints], client=redis_client)
            await until(lambda: len(receiver.under_way) >= 120, running)
            claims.append(await asyncio.to_thread(writers, "in_flight"))
            receiver.answer()

    asyncio.run(main())

    # Forty at the first, which cannot know yet.
    assert claims[0] <= 3


def test_who_has_given_all_it_had_is_not_asked_again_although_all_slots_were_taken(
    acme: Consumer, redis_client: "redis.Redis", settings: Any
) -> None:
    """Regression: whenever a claim filled the slots, everybody it had asked was asked again, most of them for nothing.

    And a slot or two that were left over had a claim to themselves.
    """
    settings.MAX_ENDPOINTS_PER_CONSUMER = 200
    endpoints = [new_endpoint(acme, url=f"https://receiver.test/{number}") for number in range(165)]
    claims: list[int] = []
    taken: list[httpx.Request] = []

    class Counting(psycopg.AsyncConnection[Any]):
        def pipeline(self) -> Any:  # what a claim is sent in, and nothing else
            claims.append(len(taken))
            return super().pipeline()

    def emit(count: int) -> None:
        try:
            accept(acme, count)
            bell.ring_now([endpoint.id for endpoint in endpoints], client=redis_client)
        finally:
            connection.close()

    def take(request: httpx.Request) -> httpx.Response:
        taken.append(request)
        return httpx.Response(200)

    async def main() -> None:
        transport = httpx.MockTransport(take)
        async with running_pumps(
            transport=transport, connection_class=Counting, concurrency=64, sweep_seconds=3600
        ) as running:
            await asyncio.to_thread(emit, 1)  # so that the pump has met them all
            await until(lambda: len(taken) == 165, running)
            await asyncio.to_thread(emit, 2)
            await until(lambda: len(taken) == 495, running)

    asyncio.run(main())
    # Six would do: 330 by 64. It was thirty and more.
    assert len([before for before in claims if before >= 165]) <= 18


def test_receivers_at_their_cap_that_hang_do_not_hurry_the_others_outcomes(
    acme: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: one endpoint that waited for its own slot had the outcomes of all others written one by one."""
    new_endpoint(acme, url="https://receiver.test/hangs", max_in_flight=1, event_types=["hangs"])
    new_endpoint(acme, url="https://receiver.test/answers", max_in_flight=100, event_types=["answers"])
    accept(acme, 2, type="hangs")
    accept(acme, 30, type="answers")
    answered: list[str] = []

    async def main() -> None:
        later, over = asyncio.Event(), asyncio.Event()
        arrived = itertools.count()

        async def take(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/hangs":
                await over.wait()
            elif next(arrived) >= 15:
                await later.wait()
            answered.append(request.url.path)
            return httpx.Response(200)

        async with running_pumps(transport=httpx.MockTransport(take)) as running:
            await until(lambda: len(answered) == 15, running)
            later.set()
            await until(lambda: len(answered) == 30, running)
            over.set()

    # So that outcomes are written when somebody waits for them, and not before.
    monkeypatch.setattr("deliveries.pump.settler._GATHER_SECONDS", 60)
    asyncio.run(main())
    assert writers("delivered", endpoint__event_types=["answers"]) == 1


def writers(state: str, **which: Any) -> int:
    """How many transactions wrote the deliveries of this state as they are now."""
    try:
        written_by = RawSQL("deliveries_delivery.xmin::text", ())
        return Delivery.objects.filter(state=state, **which).values(by=written_by).distinct().count()
    finally:
        connection.close()


def test_hundreds_with_deep_backlogs_keep_nobody_waiting_in_the_bell(
    acme: Consumer, redis_client: "redis.Redis", settings: Any
) -> None:
    """Regression: a pump with enough to do left the bell alone, and those it had came back to it until all was sent."""
    settings.MAX_ENDPOINTS_PER_CONSUMER = 1000
    busy = [new_endpoint(acme, url="https://receiver.test/busy", event_types=["hello", "busy"]) for _ in range(520)]
    late = new_endpoint(acme, url="https://receiver.test/late", event_types=["hello", "late"])
    order: list[str] = []

    def take(request: httpx.Request) -> httpx.Response:
        order.append(request.url.path)
        return httpx.Response(200)

    def emit(**counts: int) -> None:
        try:
            for type_, count in counts.items():
                accept(acme, count, type=type_)
            bell.ring_now([endpoint.id for endpoint in [*busy, late]], client=redis_client)
        finally:
            connection.close()

    async def main() -> None:
        transport = httpx.MockTransport(take)
        async with running_pumps(transport=transport, concurrency=64, sweep_seconds=3600) as running:
            await asyncio.to_thread(emit, hello=1)  # so that the pump has met them all
            await until(lambda: len(order) == 521, running)
            order.clear()
            await asyncio.to_thread(emit, busy=16, late=1)
            await until(lambda: "/late" in order, running)

    asyncio.run(main())

    # It is the last of those in the bell, and a pump has 400 at hand. The others have sixteen, and take four at a turn:
    # by the time that everybody could have had two turns, it has had its first.
    assert order.index("/late") < 2 * 4 * 521


# ── stopping, and going without Redis ────────────────────────────────────────────────────────────────────────────────


def test_a_pump_without_a_free_slot_hands_on_what_it_cannot_send(acme: Consumer, redis_client: "redis.Redis") -> None:
    """Regression: it kept the endpoints to itself, and other pumps heard of them only from the next sweep."""
    endpoints = [new_endpoint(acme) for _ in range(4)]
    accept(acme, 2)
    receiver = Patient()

    async def main() -> None:
        never: dict[str, Any] = {"transport": receiver.transport, "concurrency": 4, "sweep_seconds": 3600}
        async with running_pumps(**never) as first:
            bell.ring_now([endpoint.id for endpoint in endpoints], client=redis_client)
            await until(lambda: len(receiver.under_way) == 4, first)
            async with running_pumps(**never) as second:
                await until(lambda: len(receiver.under_way) == 8, second)
                receiver.answer()

    asyncio.run(main())

    assert [states(endpoint) for endpoint in endpoints] == [["delivered"] * 2] * 4


def test_a_pump_whose_requests_all_hang_hands_on_again(acme: Consumer, redis_client: "redis.Redis") -> None:
    """Regression: only a claim made it do so, and while all its requests hang it makes none."""
    endpoints = [new_endpoint(acme) for _ in range(4)]
    accept(acme, 2)
    receiver = Patient()

    def handed_on() -> set[Any]:
        return set(redis_client.zrange(bell.READY, 0, -1))

    async def main() -> None:
        expected = {endpoint.id.hex.encode() for endpoint in endpoints}
        async with running_pumps(transport=receiver.transport, concurrency=4, sweep_seconds=3600) as running:
            bell.ring_now([endpoint.id for endpoint in endpoints], client=redis_client)
            await until(lambda: len(receiver.under_way) == 4, running)
            await until(lambda: bool(handed_on()), running)  # it may have taken one back itself
            redis_client.delete(bell.READY)  # another pump took them, and was killed
            await until(lambda: handed_on() == expected, running)
            assert len(receiver.under_way) == 4
            receiver.answer()

    asyncio.run(main())


def test_nothing_is_handed_on_while_somebody_waits_in_the_bell_for_long(redis_client: "redis.Redis") -> None:
    """Regression: a pump that was alone told itself of the same endpoints over and over."""
    waiting, others = uuid4(), [uuid4() for _ in range(3)]

    async def hand_on() -> None:
        async with redis.asyncio.Redis.from_url(settings.REDIS_URL) as client:
            await Listener(client, sweep_seconds=1).hand_on(others)

    redis_client.zadd(bell.READY, {waiting.hex: time.time() - 1})
    asyncio.run(hand_on())
    assert redis_client.zrange(bell.READY, 0, -1) == [waiting.hex.encode()]

    redis_client.delete(bell.READY)
    redis_client.zadd(bell.READY, {waiting.hex: time.time() + 60})  # younger than any machine is slow
    asyncio.run(hand_on())
    assert set(redis_client.zrange(bell.READY, 0, -1)) == {each.hex.encode() for each in [waiting, *others]}


def test_a_pump_told_to_stop_claims_no_more_and_settles_what_is_in_flight(
    acme: Consumer, redis_client: "redis.Redis"
) -> None:
    endpoint = new_endpoint(acme, max_in_flight=7)
    accept(acme, 20)
    receiver = Patient()

    async def main() -> None:
        async with running_pumps(transport=receiver.transport) as running:
            await until(lambda: len(receiver.under_way) == 7, running)
            [pump] = running.values()
            pump.stop()
            receiver.answer()

    asyncio.run(main())

    assert len(receiver.under_way) == 7
    assert states(endpoint) == ["delivered"] * 7 + ["pending"] * 13
    assert Attempt.objects.count() == 7
    assert Lease.objects.count() == 0


def test_a_pump_told_to_stop_leaves_the_bell_to_others(acme: Consumer, redis_client: "redis.Redis") -> None:
    """Regression: while it finished what was in flight, it took every other ring and did nothing about it."""
    slow = new_endpoint(acme, url="https://receiver.test/slow", event_types=["slow"])
    others = [new_endpoint(acme, url=f"https://receiver.test/{number}", event_types=["quick"]) for number in range(12)]
    accept(acme, type="slow")
    under_way: list[str] = []

    async def main() -> None:
        answer = asyncio.Event()

        async def take(request: httpx.Request) -> httpx.Response:
            under_way.append(request.url.path)
            if request.url.path == "/slow":
                await answer.wait()
            return httpx.Response(200)

        alone: dict[str, Any] = {"transport": httpx.MockTransport(take), "sweep_seconds": 3600}
        async with running_pumps(**alone) as first:
            bell.ring_now([slow.id], client=redis_client)
            await until(lambda: under_way == ["/slow"], first)
            [stopped] = first.values()
            stopped.stop()
            async with running_pumps(**alone) as second:
                # Not before: a pump sweeps once as it starts.
                await until(lambda: bool(redis_client.exists(bell.SWEPT)), second)
                await asyncio.to_thread(accepted, acme, 1, "quick")
                for count, endpoint in enumerate(others, start=2):
                    bell.ring_now([endpoint.id], client=redis_client)
                    await until(lambda wanted=count: len(under_way) == wanted, second)  # type: ignore[misc]
            answer.set()

    asyncio.run(main())

    assert (states(slow), len(under_way)) == (["delivered"], 13)


def test_a_pump_that_may_wait_no_longer_leaves_what_is_in_flight_to_the_next_one(
    acme: Consumer, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 3)
    under_way: list[httpx.Request] = []

    async def main() -> None:
        async def take(request: httpx.Request) -> httpx.Response:
            under_way.append(request)
            await asyncio.Event().wait()
            raise AssertionError

        async with running_pumps(transport=httpx.MockTransport(take), drain_seconds=0.1) as running:
            await until(lambda: len(under_way) == 3, running)

    asyncio.run(main())
    assert (states(endpoint), Lease.objects.count()) == (["in_flight"] * 3, 0)

    assert pump.run(transport=answering(200)) == 3
    assert sorted(Attempt.objects.values_list("number", "error_kind"), key=str) == [
        *[(1, "worker_lost")] * 3,
        *[(2, None)] * 3,
    ]


def test_without_redis_the_sweep_alone_delivers(acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    accept(acme, 25)

    pump_until(lambda: len(receiver.received) == 25, redis_url=f"redis://127.0.0.1:{free_port()}")

    assert states(endpoint) == ["delivered"] * 25


def test_a_pump_told_to_stop_ends_although_the_database_is_away(redis_client: "redis.Redis") -> None:
    """Regression: it tried to open its lease for ever, and a deploy had to kill it."""

    async def main() -> None:
        address = f"host=127.0.0.1 port={free_port()} dbname=webhooks connect_timeout=2"
        away = Pool(partial(psycopg.AsyncConnection.connect, address))
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL)
        async with client, answering(200) as transport, asyncio.timeout(60):
            pump = Pump(pool=away, bell_client=client, transport=transport, options=tasks.options())
            running = asyncio.create_task(pump.run())
            await asyncio.wait([running], timeout=0.1)
            assert not running.done()
            pump.stop()
            await running

    asyncio.run(main())


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_w15_keys_go_in_sequence_across_a_failing_head_and_do_not_hold_each_other_up(
    acme: Consumer, receiver: Receiver, redis_client: "redis.Redis"
) -> None:
    new_endpoint(acme, url=receiver.url, ordered=True, retry_schedule=[0, 1, 0])
    log: list[tuple[str, int]] = []
    open_requests: Counter[str] = Counter()
    open_at_once = []
    guard = threading.Lock()

    def answer(received: Received) -> Reply:
        body = orjson.loads(received.body)
        key, sequence = body["ordering_key"], body["sequence"]
        with guard:
            log.append((key, sequence))
            open_requests[key] += 1
            open_at_once.append(open_requests[key])
            failing = key == "a" and log.count((key, sequence)) < 3 and sequence == 1
        with guard:
            open_requests[key] -= 1
        return Reply(status=500) if failing else Reply()

    receiver.answer = answer
    accept(acme, 4, ordering_key="a")
    accept(acme, 8, ordering_key="b")

    pump_until(lambda: len(log) == 14, count=3)

    a, b = ([sequence for key, sequence in log if key == wanted] for wanted in "ab")
    assert a == [1, 1, 1, 2, 3, 4]
    assert b == list(range(1, 9))
    assert max(open_at_once) == 1
    # All of b went out while a's head waited for its second attempt.
    assert log.index(("b", 8)) < [index for index, entry in enumerate(log) if entry == ("a", 1)][1]
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}


def test_w15_a_dead_head_lets_the_rest_of_its_key_go(
    acme: Consumer, receiver: Receiver, redis_client: "redis.Redis"
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, ordered=True, retry_schedule=[0, 0])
    receiver.answer = lambda received: Reply(status=500 if orjson.loads(received.body)["sequence"] == 1 else 200)
    accept(acme, 3, ordering_key="a")

    pump_until(lambda: len(receiver.received) == 4)

    sent = [orjson.loads(received.body)["sequence"] for received in receiver.received]
    assert sent == [1, 1, 2, 3]
    assert states(endpoint) == ["dead", "delivered", "delivered"]
