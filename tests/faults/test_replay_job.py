"""A bulk replay while the worker that runs it and the one that delivers are killed: each delivery once, to the end."""

from collections import Counter

import pytest

from deliveries import lifecycle, replay
from deliveries.models import Attempt, Delivery, Replay
from deliveries.replay import Filter
from subscriptions.models import Consumer
from tests.console import dead_letters
from tests.local import wait_until
from tests.receiver import Receiver
from tests.stack import StartStack

pytestmark = pytest.mark.timeout(180)

COUNT, RATE = 2000, 400


def resumed(consumer: Consumer) -> None:
    endpoint = consumer.endpoints.get()
    # One attempt made them dead; from now on an attempt lost to a kill is not the last.
    lifecycle.update(endpoint, {"retry_schedule": [0, 0, 0, 0], "max_in_flight": 100})
    lifecycle.pause(endpoint, reason="")
    lifecycle.resume(endpoint, reason="")


def put_back() -> int:
    return Replay.objects.get().replayed


def test_a_bulk_replay_survives_kill_9_and_replays_each_delivery_once(
    start_stack: StartStack, acme: Consumer, receiver: Receiver
) -> None:
    dead_letters(acme, COUNT, status_code=500, url=receiver.url, max_in_flight=COUNT)
    # What made them dead also opened the breaker: an operator ends that by pausing and resuming.
    resumed(acme)
    replay.start(Filter(), consumer=acme, rate_per_second=RATE, requested_by="olga")
    lease = {"DELIVERY_LEASE_SECONDS": "2", "DELIVERY_LEASE_RENEW_SECONDS": "0.5"}
    stack = start_stack("deliveries1", "background", "beat", **lease)
    for killed_at in (COUNT // 5, COUNT // 2):
        wait_until(lambda at=killed_at: put_back() > at, seconds=60)  # type: ignore[misc]
        for name in ("background", "deliveries1"):
            stack.restart(name)
    wait_until(lambda: Replay.objects.get().status == "done", seconds=60)
    wait_until(lambda: Delivery.objects.filter(state="delivered").count() == COUNT, seconds=60)

    assert put_back() == COUNT
    # One round each: whatever was attempted more than twice was in flight at a kill, and says so.
    lost = set(Attempt.objects.filter(error_kind="worker_lost").values_list("delivery_id", flat=True))
    more = set(Delivery.objects.filter(attempt_count__gt=2).values_list("id", flat=True))
    assert more <= lost
    arrived = Counter(each.headers["Webhook-Id"] for each in receiver.received)
    assert len(arrived) == COUNT
    assert sum(count > 1 for count in arrived.values()) <= len(lost)


def test_a_bulk_replay_is_cancelled_under_way(start_stack: StartStack, acme: Consumer, receiver: Receiver) -> None:
    dead_letters(acme, 1000, status_code=500, url=receiver.url)
    job = replay.start(Filter(), consumer=acme, rate_per_second=100, requested_by="olga")
    start_stack("background", "beat")
    wait_until(lambda: put_back() > 100, seconds=60)
    assert replay.cancel(job)
    assert job.status == "cancelled"
    left = Delivery.objects.filter(state="dead").count()
    assert left == 1000 - put_back() > 0
    assert replay.advance_all() == 0
    assert Delivery.objects.filter(state="dead").count() == left
