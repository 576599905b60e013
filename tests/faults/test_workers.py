"""CONFORMANCE F, for workers: real processes, a real receiver, kill -9 and SIGTERM at the worst moments."""

import os
import signal
import threading
from collections import Counter, defaultdict

import orjson
import pytest

from deliveries.models import Attempt, Delivery
from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint
from tests.conftest import Api
from tests.local import wait_until
from tests.receiver import Received, Receiver, Reply
from tests.stack import StartStack

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

# A killed worker's deliveries are back within the lease and a sweep.
SHORT_LEASE = {
    "DELIVERY_LEASE_SECONDS": "3",
    "DELIVERY_LEASE_RENEW_SECONDS": "1",
    "DELIVERY_SWEEP_SECONDS": "0.3",
}


def emit(producer: Api, count: int, **fields: str) -> list[str]:
    """So many events in one batch; their ids."""
    events = [{"consumer": "acme", "type": "load.test", "data": {"number": n}, **fields} for n in range(count)]
    answer = producer.post("events/batch/", {"events": events})
    assert answer.status_code == 202
    return [result["event"]["id"] for result in answer.json()["results"]]


def nothing_is_owed() -> bool:
    return not Delivery.objects.exclude(state__in=["delivered", "dead"]).exists()


def ids_of(received: list[Received]) -> Counter[str]:
    return Counter(str(one.headers["Webhook-Id"]) for one in received)


def test_the_bulkhead_is_exact_across_three_workers(
    producer: Api, acme: Consumer, receiver: Receiver, start_stack: StartStack
) -> None:
    def hold_a_little(received: Received) -> Reply:
        threading.Event().wait(0.005)
        return Reply()

    receiver.answer = hold_a_little
    endpoints.create(consumer=acme, url=receiver.url, max_in_flight=4)
    start_stack("deliveries1", "deliveries2", "deliveries3", "background", "beat")
    sent = [event for _ in range(2) for event in emit(producer, 1000)]

    wait_until(nothing_is_owed, seconds=120)

    assert receiver.most_at_once == 4
    assert ids_of(receiver.received) == Counter(sent)
    assert Delivery.objects.filter(state="delivered").count() == 2000


def test_a_killed_workers_deliveries_go_out_again_and_only_those_in_flight_are_doubled(
    producer: Api, acme: Consumer, receiver: Receiver, start_stack: StartStack
) -> None:
    let_go = threading.Event()

    def hold(received: Received) -> Reply:
        let_go.wait(60)
        return Reply()

    receiver.answer = hold
    for _ in range(3):
        endpoints.create(consumer=acme, url=receiver.url, max_in_flight=100, timeout_seconds=30)
    stack = start_stack("deliveries1", "background", "beat", **SHORT_LEASE)
    sent = emit(producer, 200)
    in_flight = len(receiver.wait_for(300, seconds=60))

    stack.kill("deliveries1")
    let_go.set()
    stack.restart("deliveries1")
    wait_until(nothing_is_owed, seconds=60)

    arrived = ids_of(receiver.received)
    assert set(arrived) == set(sent)
    assert Delivery.objects.filter(state="delivered").count() == 600
    assert len(receiver.received) - 600 <= in_flight
    lost = Attempt.objects.filter(error_kind="worker_lost").count()
    assert lost == len(receiver.received) - 600
    assert Delivery.objects.filter(attempt_count__gt=2).count() == 0


def test_a_worker_told_to_stop_finishes_what_is_in_flight_and_doubles_nothing(
    producer: Api, acme: Consumer, receiver: Receiver, start_stack: StartStack
) -> None:
    let_go = threading.Event()

    def hold(received: Received) -> Reply:
        let_go.wait(60)
        return Reply()

    receiver.answer = hold
    endpoints.create(consumer=acme, url=receiver.url, max_in_flight=50, timeout_seconds=30)
    stack = start_stack("deliveries1", "background", "beat", **SHORT_LEASE)
    sent = emit(producer, 80)
    receiver.wait_for(50, seconds=60)

    stack.terminate("deliveries1")
    let_go.set()
    stack.wait_ended("deliveries1", seconds=40)

    assert Delivery.objects.filter(state="in_flight").count() == 0
    assert Delivery.objects.filter(state="delivered").count() == len(receiver.received)
    stack.restart("deliveries1")
    wait_until(nothing_is_owed, seconds=60)
    assert ids_of(receiver.received) == Counter(sent)


def test_w15_order_per_key_survives_a_failing_head_three_workers_and_a_crash(
    producer: Api, acme: Consumer, receiver: Receiver, start_stack: StartStack
) -> None:
    failures: dict[str, int] = defaultdict(int)
    lock = threading.Lock()

    def fail_each_third_once(received: Received) -> Reply:
        body = orjson.loads(received.body)
        with lock:
            failures[body["id"]] += 1
            fails = body["sequence"] % 3 == 0 and failures[body["id"]] == 1
        return Reply(status=500) if fails else Reply()

    receiver.answer = fail_each_third_once
    endpoints.create(consumer=acme, url=receiver.url, ordered=True, retry_schedule=[0, 0, 0, 0, 0, 0])
    stack = start_stack("deliveries1", "deliveries2", "deliveries3", "background", "beat", **SHORT_LEASE)
    for key in ("a", "b", "c", "d"):
        emit(producer, 40, ordering_key=key)
    receiver.wait_for(30, seconds=60)

    stack.kill("deliveries1")
    stack.restart("deliveries1")
    wait_until(nothing_is_owed, seconds=120)

    succeeded: dict[str, list[int]] = defaultdict(list)
    for one in receiver.received:
        body = orjson.loads(one.body)
        seen = succeeded[body["ordering_key"]]
        # A sequence comes again (a retry, or the crash), or it is the next one: it is never skipped or overtaken.
        assert not seen or body["sequence"] in (seen[-1], seen[-1] + 1)
        if not seen or seen[-1] != body["sequence"]:
            seen.append(body["sequence"])
    assert succeeded == {key: list(range(1, 41)) for key in ("a", "b", "c", "d")}
    assert Delivery.objects.filter(state="delivered").count() == 160


def test_a_stopped_worker_that_comes_back_late_is_fenced(
    producer: Api, acme: Consumer, receiver: Receiver, start_stack: StartStack
) -> None:
    let_go = threading.Event()
    first = threading.Event()

    def hold_the_first(received: Received) -> Reply:
        if not first.is_set():
            first.set()
            let_go.wait(60)
        return Reply()

    receiver.answer = hold_the_first
    endpoints.create(consumer=acme, url=receiver.url, timeout_seconds=30)
    stack = start_stack("deliveries1", "background", "beat", **SHORT_LEASE)
    emit(producer, 1)
    receiver.wait_for(1, seconds=60)
    # Suspended, not killed: it believes it still holds its lease when it wakes up.
    os.kill(stack.pid("deliveries1"), signal.SIGSTOP)
    try:
        stack.start_more("deliveries2")
        wait_until(nothing_is_owed, seconds=60)
    finally:
        let_go.set()
        os.kill(stack.pid("deliveries1"), signal.SIGCONT)
    stack.terminate("deliveries1")
    stack.wait_ended("deliveries1", seconds=40)

    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count) == ("delivered", 2)
    outcomes = list(Attempt.objects.order_by("number").values_list("error_kind", "status_code"))
    assert outcomes == [("worker_lost", None), (None, 200)]


def test_a_hanging_endpoint_does_not_hold_up_the_others(
    producer: Api, acme: Consumer, receiver: Receiver, start_stack: StartStack
) -> None:
    def hang_on_sick(received: Received) -> Reply:
        if received.path == "/sick":
            threading.Event().wait(5)
        return Reply()

    receiver.answer = hang_on_sick
    sick: list[Endpoint] = [
        endpoints.create(
            consumer=acme, url=receiver.url.replace("/hook", "/sick"), event_types=["sick.test"], timeout_seconds=3
        )[0]
        for _ in range(5)
    ]
    endpoints.create(consumer=acme, url=receiver.url, event_types=["load.test"])
    start_stack("deliveries1", "background", "beat")
    events = [{"consumer": "acme", "type": "sick.test", "data": {}} for _ in range(100)]
    assert producer.post("events/batch/", {"events": events}).status_code == 202
    emit(producer, 300)

    healthy = Delivery.objects.exclude(endpoint__in=sick)
    wait_until(lambda: not healthy.exclude(state="delivered").exists(), seconds=60)

    # All healthy ones went out while the sick endpoints were still in their first rounds.
    assert Attempt.objects.filter(delivery__endpoint__in=sick).count() <= 100
    assert healthy.filter(state="delivered").count() == 300
