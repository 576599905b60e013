"""A bulk replay while the workers that run it are killed: each delivery once, to the end; and one that is cancelled.

The proof at full size, a few minutes: REPLAY_COUNT=50000 REPLAY_RATE=500 pytest -s tests/faults/test_replay_job.py
"""

import os
import sys
import threading
from collections import Counter

import pytest

from deliveries import replay
from deliveries.health import lifecycle
from deliveries.models import Attempt, Delivery
from deliveries.replay import Filter
from deliveries.replaying.models import PutBack, Replay
from subscriptions.models import Consumer
from tests.console import dead_letters
from tests.local import wait_until
from tests.receiver import Received, Receiver, Reply
from tests.stack import Stack, StartStack

COUNT = int(os.environ.get("REPLAY_COUNT", "1000"))
RATE = int(os.environ.get("REPLAY_RATE", "250"))
# Generous: the deadline is for a machine that does other things too.
SECONDS = 60 + 3 * COUNT // RATE

pytestmark = pytest.mark.timeout(4 * SECONDS)

LEASE = {"DELIVERY_LEASE_SECONDS": "2", "DELIVERY_LEASE_RENEW_SECONDS": "0.5"}


def many_dead_letters(consumer: Consumer, receiver: Receiver) -> None:
    endpoint, _ = dead_letters(consumer, COUNT, status_code=500, url=receiver.url)
    # One attempt made them dead; from now on an attempt lost to a kill is not the last.
    lifecycle.update(endpoint, {"retry_schedule": [0, 0, 0, 0], "max_in_flight": 100})
    # What made them dead also opened the breaker: an operator ends that by pausing and resuming.
    lifecycle.pause(endpoint, reason="")
    lifecycle.resume(endpoint, reason="")


def hold_a_little(received: Received) -> Reply:
    """So that there is something in flight whenever a worker is killed."""
    threading.Event().wait(0.05)
    return Reply()


def job() -> Replay:
    return Replay.objects.get()


def sent_count() -> int:
    return Delivery.objects.filter(attempt_count__gt=1).count()


def kill_all(stack: Stack) -> None:
    for name in ("background", "deliveries1"):
        stack.restart(name)


def test_a_bulk_replay_survives_kill_9_and_replays_each_delivery_once(
    start_stack: StartStack, acme: Consumer, receiver: Receiver
) -> None:
    many_dead_letters(acme, receiver)
    receiver.answer = hold_a_little
    replay.start(Filter(), consumer=acme, rate_per_second=RATE, requested_by="olga")
    stack = start_stack("deliveries1", "background", "beat", **LEASE)
    for killed_at in (COUNT // 5, COUNT // 2):
        wait_until(lambda at=killed_at: len(receiver.received) > at, seconds=SECONDS)  # type: ignore[misc]
        kill_all(stack)
    wait_until(lambda: job().status == "done", seconds=SECONDS)
    wait_until(lambda: Delivery.objects.filter(state="delivered").count() == COUNT, seconds=SECONDS)

    wait_until(lambda: not PutBack.objects.exists(), seconds=SECONDS)
    assert (job().replayed, job().delivered, job().dead_again) == (COUNT, COUNT, 0)
    # One round each: whatever was attempted more than twice was in flight at a kill, and says so.
    lost = set(Attempt.objects.filter(error_kind="worker_lost").values_list("delivery_id", flat=True))
    more = set(Delivery.objects.filter(attempt_count__gt=2).values_list("id", flat=True))
    assert more <= lost
    arrived = Counter(each.headers["Webhook-Id"] for each in receiver.received)
    assert len(arrived) == COUNT
    assert sum(count > 1 for count in arrived.values()) <= len(lost)
    report(receiver, f"{sum(arrived.values()) - COUNT} came twice, {len(lost)} in flight at a kill")


def test_a_cancelled_bulk_replay_sends_nothing_more(
    start_stack: StartStack, acme: Consumer, receiver: Receiver
) -> None:
    many_dead_letters(acme, receiver)
    started = replay.start(Filter(), consumer=acme, rate_per_second=RATE, requested_by="olga")
    start_stack("deliveries1", "background", "beat", **LEASE)
    receiver.wait_for(COUNT // 4, seconds=SECONDS)

    assert replay.cancel(started)

    wait_until(lambda: not Delivery.objects.filter(state__in=["pending", "in_flight"]).exists(), seconds=SECONDS)
    assert started.status == "cancelled"
    assert started.replayed == sent_count() == len(receiver.received) < COUNT
    assert Delivery.objects.filter(state="dead").count() == COUNT - started.replayed
    assert replay.advance_all() == 0
    report(receiver, f"cancelled after {started.replayed} of {COUNT}")


def report(receiver: Receiver, text: str) -> None:
    """Seen with -s: how many arrived in each second, the first and the last aside."""
    first = receiver.received[0].at
    per_second = Counter(int(each.at - first) for each in receiver.received)
    whole = [per_second[second] for second in range(1, max(per_second))] or [0]
    sys.stdout.write(f"\n{text}; per second, least and most: {min(whole)}, {max(whole)}; in {max(per_second) + 1} s\n")
