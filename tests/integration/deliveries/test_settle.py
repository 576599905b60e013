"""deliveries/settle.py on a real database: attempts are recorded once, deliveries move on, health follows."""

import asyncio
import random
import threading
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import orjson
import pytest
from django.db import connection, transaction
from django.utils import timezone
from psycopg import AsyncConnection

from deliveries import ingest, tasks
from deliveries.claim import Claimed, claim
from deliveries.health.breaker import Breaker
from deliveries.health.models import Notice
from deliveries.ingest import NewEvent
from deliveries.models import Attempt, Delivery
from deliveries.settle import settle
from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint, Lane
from tests.walk import (
    accept,
    answered,
    claim_for,
    connect,
    hold_until_somebody_waits,
    new_endpoint,
    new_lease,
    pass_time,
    settle_all,
    states,
    unanswered,
    with_connection,
)

pytestmark = pytest.mark.django_db(transaction=True)

T = TypeVar("T")

BREAKER = Breaker(failures=5, first_cooldown=10, longest_cooldown=1800)


def claimed_one(endpoint: Endpoint) -> Claimed:
    [claimed] = claim_for(endpoint, limit=1).deliveries
    return claimed


# ── what becomes of a delivery ───────────────────────────────────────────────────────────────────────────────────────


def test_a_delivered_one_is_finished_and_its_attempt_on_record(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    [event] = accept(acme)
    claimed = claimed_one(endpoint)

    settled = settle_all(answered(claimed, 204, x_request_id="r1"))

    delivery, attempt = Delivery.objects.get(), Attempt.objects.get()
    assert settled.moved == {(claimed.id, 1)}
    assert (delivery.state, delivery.attempt_count, delivery.leased_by) == ("delivered", 1, None)
    assert delivery.finished_at is not None
    assert (attempt.delivery_id, attempt.number, attempt.status_code) == (delivery.id, 1, 204)
    assert (attempt.error_kind, attempt.error_detail, attempt.duration_ms) == (None, None, 5)
    assert (attempt.url, attempt.address) == (endpoint.url, "192.0.2.1")
    assert attempt.request_headers == [["webhook-id", event.public_id]]
    assert attempt.response_headers == [["x-request-id", "r1"]]
    assert bytes(attempt.response_body or b"") == b"ok"


def test_a_failed_one_is_pending_again_and_due_after_its_wait(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0, 90, 5])
    accept(acme)

    settle_all(unanswered(claimed_one(endpoint), "read_timeout", "The receiver did not finish its answer in time."))

    delivery, attempt = Delivery.objects.get(), Attempt.objects.get()
    assert (delivery.state, delivery.leased_by, delivery.finished_at) == ("pending", None, None)
    assert (delivery.due_at - timezone.now()).total_seconds() == pytest.approx(90, abs=2)
    assert (attempt.status_code, attempt.error_kind) == (None, "read_timeout")
    assert attempt.error_detail == "The receiver did not finish its answer in time."
    assert (attempt.response_headers, attempt.response_body) == (None, None)


def test_w13_a_dead_one_says_why_and_leaves_a_notice(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    accept(acme)

    settle_all(answered(claimed_one(endpoint), 500))

    delivery, notice = Delivery.objects.get(), Notice.objects.get()
    assert (delivery.state, delivery.dead_reason) == ("dead", "attempts_exhausted")
    assert delivery.finished_at is not None
    assert (notice.kind, notice.reason, notice.delivery_id) == ("dead", "attempts_exhausted", delivery.id)
    assert (notice.endpoint_id, notice.announced_at) == (endpoint.id, None)


def test_one_batch_may_hold_every_kind_of_verdict(acme: Consumer) -> None:
    endpoint, last_try = (
        new_endpoint(acme, event_types=["a"]),
        new_endpoint(acme, event_types=["b"], retry_schedule=[0]),
    )
    accept(acme, 3, type="a")
    accept(acme, type="b")
    one, two, three = claim_for(endpoint).deliveries
    [four] = claim_for(last_try).deliveries

    settled = settle_all(
        answered(one, 200), answered(two, 500), answered(three, 200, webhook_delivery="x"), unanswered(four, "dns")
    )

    assert settled.moved == {(each.id, 1) for each in (one, two, three, four)}
    assert {delivery.id: delivery.state for delivery in Delivery.objects.all()} == {
        one.id: "delivered",
        two.id: "pending",
        three.id: "delivered",
        four.id: "dead",
    }
    assert sorted(Attempt.objects.values_list("status_code", "error_kind"), key=str) == [
        (200, None), (200, None), (500, "http_500"), (None, "dns"),
    ]  # fmt: skip


def test_settling_nothing_changes_nothing(acme: Consumer) -> None:
    assert settle_all().moved == set()


def test_an_explanation_longer_than_its_column_is_cut_and_the_attempt_recorded(acme: Consumer) -> None:
    """Regression: a certificate for another host names that host, which may take 253 characters by itself."""
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    one, two = claim_for(endpoint).deliveries

    settled = settle_all(unanswered(one, "tls", "x" * 400), answered(two))

    assert settled.moved == {(one.id, 1), (two.id, 1)}
    assert Attempt.objects.get(error_kind="tls").error_detail == "x" * 255


# ── the fence ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_outcome_twice_moves_and_records_once(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    outcome = answered(claimed_one(endpoint))

    first, second = settle_all(outcome), settle_all(outcome)

    assert (len(first.moved), len(second.moved), Attempt.objects.count()) == (1, 0, 1)


def test_a_worker_that_comes_back_late_changes_nothing(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0, 0, 0])
    accept(acme)
    late = claimed_one(endpoint)
    settle_all(unanswered(late, "worker_lost"))  # what the sweep does once the lease has run out
    newer = claimed_one(endpoint)
    before = (Delivery.objects.values().get(), Attempt.objects.count(), Lane.objects.values().get())

    settled = settle_all(answered(late, 410))

    assert settled.moved == set()
    assert (Delivery.objects.values().get(), Attempt.objects.count(), Lane.objects.values().get()) == before
    assert settle_all(answered(newer)).moved == {(newer.id, newer.number)}
    assert list(Attempt.objects.order_by("number").values_list("number", "error_kind")) == [
        (1, "worker_lost"), (2, None),
    ]  # fmt: skip


def test_a_late_outcome_in_one_batch_with_the_newer_one_does_not_hold_it_up(acme: Consumer) -> None:
    """Regression: both were recorded, and the number of the late one was taken already."""
    endpoint = new_endpoint(acme, retry_schedule=[0, 0, 0])
    accept(acme)
    late = claimed_one(endpoint)
    settle_all(unanswered(late, "worker_lost"))
    newer = claimed_one(endpoint)

    assert settle_all(answered(late, 500), answered(newer, 200)).moved == {(newer.id, newer.number)}
    assert states(endpoint) == ["delivered"]
    assert list(Attempt.objects.order_by("number").values_list("number", "status_code")) == [(1, None), (2, 200)]


def test_an_outcome_for_a_delivery_finished_by_another_worker_changes_nothing(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0, 0])
    accept(acme)
    late = claimed_one(endpoint)
    settle_all(unanswered(late, "worker_lost"))
    settle_all(answered(claimed_one(endpoint), 200))

    assert settle_all(answered(late, 500)).moved == set()
    assert states(endpoint) == ["delivered"]
    assert Lane.objects.get().failure_count == 0


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_failures_are_counted_with_their_first_and_last_moment(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    one, two = claim_for(endpoint).deliveries

    settle_all(answered(one, 500), breaker=BREAKER)
    pass_time(minutes=5)
    settle_all(answered(two, 500), breaker=BREAKER)

    lane = Lane.objects.get()
    assert (lane.failure_count, lane.breaker_open) == (2, False)
    assert lane.failing_since is not None
    assert lane.last_failure_at is not None
    assert (lane.last_failure_at - lane.failing_since).total_seconds() == pytest.approx(300, abs=2)


def test_a_run_of_failures_opens_the_breaker_with_a_notice_and_parks_the_rest(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 8)

    settle_all(*[answered(delivery, 500) for delivery in claim_for(endpoint, limit=5).deliveries], breaker=BREAKER)

    lane, notice = Lane.objects.get(), Notice.objects.get()
    assert (lane.breaker_open, lane.allowance, lane.cooldown_seconds) == (True, 1, 10)
    assert (lane.opens_at - timezone.now()).total_seconds() == pytest.approx(10, abs=2)
    assert (notice.kind, notice.reason, notice.delivery_id) == ("breaker_opened", "5 failures in a row", None)
    assert list(Delivery.objects.filter(attempt_count=0).values_list("state", flat=True)) == ["pending"] * 3


def test_the_probe_that_succeeds_closes_the_breaker_with_a_notice(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 8)
    settle_all(*[answered(delivery, 500) for delivery in claim_for(endpoint, limit=5).deliveries], breaker=BREAKER)
    pass_time(seconds=10)

    settle_all(answered(claimed_one(endpoint)), breaker=BREAKER)

    lane = Lane.objects.get()
    assert (lane.breaker_open, lane.allowance, lane.failure_count, lane.failing_since) == (False, 2, 0, None)
    assert list(Notice.objects.order_by("id").values_list("kind", flat=True)) == ["breaker_opened", "breaker_closed"]


def test_w08_a_410_disables_the_endpoint_with_one_notice_however_many_were_in_flight(acme: Consumer) -> None:
    """Regression: each of those in flight was announced as one more disabling."""
    endpoint = new_endpoint(acme)
    accept(acme, 5)
    one, two, three = claim_for(endpoint, limit=3).deliveries

    settle_all(answered(one, 410))
    settle_all(answered(two, 410), answered(three, 410))

    endpoint.refresh_from_db()
    assert (endpoint.status, endpoint.disabled_reason) == ("disabled", "The receiver answered 410 Gone.")
    assert list(Notice.objects.filter(kind="disabled").values_list("reason", flat=True)) == [
        "The receiver answered 410 Gone."
    ]
    assert states(endpoint) == ["dead", "dead", "dead", "pending", "pending"]
    assert set(Delivery.objects.filter(state="dead").values_list("dead_reason", flat=True)) == {"endpoint_disabled"}


def test_w08_a_410_for_a_paused_endpoint_leaves_it_paused_and_announces_nothing(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    claimed = claimed_one(endpoint)
    endpoints.pause(endpoint)

    settle_all(answered(claimed, 410))

    endpoint.refresh_from_db()
    assert (endpoint.status, endpoint.disabled_reason) == ("paused", "")
    assert list(Notice.objects.values_list("kind", flat=True)) == ["dead"]


def test_w08_a_2xx_with_the_header_disable_is_delivered_and_disables(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)

    settle_all(answered(claimed_one(endpoint), 200, webhook_delivery="disable"))

    endpoint.refresh_from_db()
    assert (states(endpoint), endpoint.status) == (["delivered"], "disabled")


def test_a_failure_that_was_not_the_receivers_leaves_its_health_alone(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    before = Lane.objects.values().get()
    one, two = claim_for(endpoint).deliveries

    settle_all(unanswered(one, "refused_address"), unanswered(two, "internal"))

    assert Lane.objects.values().get() == before
    assert states(endpoint) == ["dead", "pending"]


def test_concurrent_settlers_of_the_same_endpoints_neither_block_each_other_nor_lose_a_count(acme: Consumer) -> None:
    """Six workers hold deliveries of all ten endpoints and settle them at once, in any order, again and again."""
    many = [new_endpoint(acme, max_in_flight=1000) for _ in range(10)]
    accept(acme, 36)
    claimed = claim_for(*many).deliveries
    assert len(claimed) == 360
    dice = random.Random(1)
    dice.shuffle(claimed)
    batches = [claimed[start : start + 12] for start in range(0, 360, 12)]
    never = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)

    async def work(own: AsyncConnection, mine: list[list[Claimed]]) -> None:
        for batch in mine:
            await settle(own, [answered(delivery, 500) for delivery in batch], breaker=never)

    async def main() -> None:
        connections = [await connect() for _ in range(6)]
        await asyncio.gather(*[work(own, batches[n::6]) for n, own in enumerate(connections)])
        for own in connections:
            await own.close()

    asyncio.run(main())

    assert list(Lane.objects.values_list("failure_count", flat=True)) == [36] * 10
    assert Attempt.objects.count() == 360


# ── ordered endpoints ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status_code", [200, 410])
def test_w15_a_head_that_is_delivered_or_dead_lets_the_next_of_its_key_go(acme: Consumer, status_code: int) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    [_, second, _] = accept(acme, 3, ordering_key="a")
    accept(acme, 2, ordering_key="b")
    [head] = [delivery for delivery in claim_for(endpoint).deliveries if delivery.ordering_key == "a"]

    settled = settle_all(answered(head, status_code))

    assert settled.unblocked == {endpoint.id}
    free = Delivery.objects.filter(ordering_key="a", state="pending", blocked=False)
    assert [delivery.event_id for delivery in free] == [second.id]
    assert Delivery.objects.filter(ordering_key="b", blocked=True).count() == 1


def test_w15_a_head_that_is_tried_again_keeps_the_others_waiting(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 3, ordering_key="a")
    [head] = claim_for(endpoint).deliveries

    settled = settle_all(answered(head, 500))

    assert settled.unblocked == set()
    assert list(Delivery.objects.order_by("sequence").values_list("blocked", flat=True)) == [False, True, True]


def test_w15_the_last_of_a_key_leaves_nothing_waiting(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, ordering_key="a")

    settled = settle_all(answered(claimed_one(endpoint)))

    assert (settled.moved != set(), settled.unblocked) == (True, set())


def test_w15_two_endpoints_of_one_key_go_on_by_themselves(acme: Consumer) -> None:
    fast, slow = new_endpoint(acme, ordered=True), new_endpoint(acme, ordered=True)
    accept(acme, 2, ordering_key="a")
    claim_for(slow)

    settle_all(answered(claimed_one(fast)))

    assert list(Delivery.objects.filter(endpoint=slow, blocked=True).values_list("sequence", flat=True)) == [2]
    assert list(Delivery.objects.filter(endpoint=fast, blocked=True).values_list("sequence", flat=True)) == []


def test_w15_accepting_while_settling_never_leaves_a_key_stuck(acme: Consumer) -> None:
    """A producer thread accepts events of two keys while a worker claims and settles them, each as fast as it can.

    Every event that arrives just as the head before it is settled could be overlooked by both: then the key would stop.
    """
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, ordering_key="a")
    accept(acme, ordering_key="b")
    done = threading.Event()

    def produce() -> None:
        try:
            for number in range(120):
                with transaction.atomic():
                    ingest.accept([_keyed(acme, "ab"[number % 2])], now=timezone.now())
        finally:
            connection.close()
            done.set()

    async def work(own: AsyncConnection) -> list[tuple[str | None, int]]:
        sent: list[tuple[str | None, int]] = []
        lease_id = await new_lease(own)
        idle = 0
        while idle < 3:
            finished = done.is_set()
            got = await claim(own, endpoint_ids=[endpoint.id], lease_id=lease_id, share=10, limit=10)
            sent += [(delivery.ordering_key, _number(delivery)) for delivery in got.deliveries]
            outcomes = [answered(delivery) for delivery in got.deliveries]
            await settle(own, outcomes, breaker=tasks.breaker())
            idle = idle + 1 if finished and not got.deliveries else 0
        return sent

    sent = _beside(produce, lambda: with_connection(work))

    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
    for key in "ab":
        assert [number for sent_key, number in sent if sent_key == key] == list(range(1, 62))


def test_w15_accepting_while_a_dead_head_is_settled_never_leaves_a_key_stuck(acme: Consumer) -> None:
    """The same race, made certain: the event is accepted but not committed when the head is settled."""
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, ordering_key="a")
    [head] = claim_for(endpoint).deliveries
    accepted = threading.Event()

    def produce() -> None:
        try:
            with transaction.atomic():
                ingest.accept([_keyed(acme, "a")], now=timezone.now())
                accepted.set()
                hold_until_somebody_waits()
        finally:
            connection.close()

    def work() -> set[UUID]:
        assert accepted.wait(10)
        return settle_all(answered(head, 410), breaker=BREAKER).unblocked

    assert _beside(produce, work) == {endpoint.id}
    assert Delivery.objects.get(sequence=2).blocked is False


def _keyed(consumer: Consumer, key: str) -> NewEvent:
    return NewEvent(consumer=consumer.public_id, type="invoice.paid", data={}, ordering_key=key)


def _number(delivery: Claimed) -> int:
    return int(orjson.loads(delivery.body)["sequence"])


def _beside(other: Callable[[], None], run: Callable[[], T]) -> T:
    thread = threading.Thread(target=other)
    thread.start()
    try:
        return run()
    finally:
        thread.join(20)
