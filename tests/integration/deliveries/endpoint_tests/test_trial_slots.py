"""deliveries/endpoint_tests/trial_slots.py: tests and check-ups, one at a time, within the endpoint's limits."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from deliveries.endpoint_tests import check_up, test_event, trial_slots
from deliveries.endpoint_tests.models import TrialSlot
from deliveries.endpoint_tests.trial_slots import EndpointFull, TooManyTests, pay, slot
from subscriptions import consumers
from subscriptions.models import Consumer, Endpoint, Lane
from tests.conftest import Api
from tests.console import logged_in
from tests.ledger import ledger
from tests.local import wait_until
from tests.receiver import Receiver, Reply
from tests.walk import (
    accept,
    answered,
    answering,
    claim_for,
    hold_until_somebody_waits,
    new_endpoint,
    pass_time,
    settle_all,
)

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def in_a_thread(work: Callable[[], object]) -> Iterator[None]:
    """As another request of the web server would do it."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


@contextmanager
def under_way(receiver: Receiver, endpoint: Endpoint) -> Iterator[None]:
    """A real test of this endpoint, whose receiver has it and does not answer until the end."""
    arrived, answer = threading.Event(), threading.Event()

    def hang(_: object) -> Reply:
        arrived.set()
        answer.wait(20)
        return Reply(200)

    receiver.answer = hang
    with in_a_thread(lambda: test_event.run(endpoint)):
        try:
            assert arrived.wait(20)
            yield
        finally:
            answer.set()


def test_s13_loops_of_tests_against_a_hanging_endpoint_leave_others_their_tests(
    acme: Consumer, acme_api: Api, operator: Api, receiver: Receiver
) -> None:
    """Regression: twelve of them took all places of the process."""
    hanging, other = new_endpoint(acme, url=receiver.url), new_endpoint(acme, url="https://other.test/")
    theirs = new_endpoint(consumers.create(uid="globex"), url="https://receiver.test/")
    with under_way(receiver, hanging):
        before = ledger()
        refused = [
            acme_api.post(f"endpoints/{endpoint.public_id}/{action}/")
            for endpoint in (hanging, other) for action in ("test", "check-up") for _ in range(3)
        ]  # fmt: skip
        assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(429, "too_many_tests")}
        assert all(1 <= int(answer["Retry-After"]) <= 40 for answer in refused)
        assert "of this consumer is under way" in refused[0].json()["detail"]
        assert (len(receiver.received), ledger()) == (1, before)
        assert check_up.run(theirs, transport=answering(200))["verdict"] != "unknown"


def test_a_slot_is_free_again_at_once_and_after_an_error(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    for _ in range(3):
        with slot(endpoint):
            pass
    with pytest.raises(KeyError), slot(endpoint):
        raise KeyError
    with slot(endpoint):
        assert TrialSlot.objects.get().endpoint_id == endpoint.id


def test_a_slot_is_free_again_when_its_process_was_killed(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    trial_slots._take(endpoint)  # and never comes back
    with pytest.raises(TooManyTests) as refused, slot(endpoint):
        pass
    assert 30 <= refused.value.retry_after_seconds <= 40
    pass_time(seconds=40)
    with slot(endpoint):
        pass


def test_a_long_test_is_followed_by_a_pause_as_long(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    token = trial_slots._take(endpoint)
    trial_slots._free(endpoint, token, held_seconds=10)
    with pytest.raises(TooManyTests) as refused, slot(endpoint):
        pass
    assert 8 <= refused.value.retry_after_seconds <= 10
    pass_time(seconds=10)
    with slot(endpoint):
        pass


def test_who_comes_back_late_frees_no_slot_of_somebody_else(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    late = trial_slots._take(endpoint)
    pass_time(seconds=40)
    with slot(endpoint):
        trial_slots._free(endpoint, late, held_seconds=0)
        with pytest.raises(TooManyTests), slot(endpoint):
            pass


def test_a_process_has_four_places_whoever_wants_them(acme: Consumer) -> None:
    """A test holds a thread of the web server, and emits need the others."""
    every = [new_endpoint(consumers.create(uid=f"consumer-{number}")) for number in range(4)]
    with ExitStack() as held:
        for endpoint in every:
            held.enter_context(slot(endpoint))
        with pytest.raises(TooManyTests, match="other consumers"), slot(new_endpoint(acme)):
            pass


def test_a_test_counts_as_a_request_in_flight(acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, max_in_flight=2)
    accept(acme, 5)
    with under_way(receiver, endpoint):
        assert len(claim_for(endpoint).deliveries) == 1
        assert claim_for(endpoint).deliveries == []
    assert len(claim_for(endpoint).deliveries) == 1


def test_a_full_endpoint_gets_no_test_and_says_why(acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme, max_in_flight=2, url="https://receiver.test/")
    accept(acme, 5)
    claimed = claim_for(endpoint).deliveries
    before = ledger()

    refused = acme_api.post(f"endpoints/{endpoint.public_id}/test/")
    page = logged_in("olga", group="Operators").post(f"/admin/endpoints/{endpoint.public_id}/test/", follow=True)

    assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (429, "endpoint_full", "1")
    assert "as many requests in flight as it may have" in page.content.decode()
    beside = {"deliveries_trialslot", "subscriptions_auditentry", "django_session"}
    changed = {name for name, rows in ledger().items() if rows != before[name]} - beside
    assert {name for name in changed if not name.startswith("auth_")} == set()
    with pytest.raises(EndpointFull), slot(endpoint):
        pass
    settle_all(answered(claimed[0]))
    with slot(endpoint):
        pass


def test_a_full_endpoint_s_next_free_place_is_the_test_s(acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, max_in_flight=2)
    accept(acme, 5)
    claimed = claim_for(endpoint).deliveries
    tested: list[test_event.Trial] = []
    with in_a_thread(lambda: tested.append(test_event.run(endpoint))):
        wait_until(lambda: TrialSlot.objects.filter(ends_at__gt=Now()).exists())
        settle_all(answered(claimed[0]))
    assert [each.succeeded for each in tested] == [True]
    assert len(claim_for(endpoint).deliveries) == 1


def test_tests_and_deliveries_together_keep_to_the_rate_limit(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, rate_limit_per_second=1)
    accept(acme, 10)
    pass_time(seconds=1)
    assert len(claim_for(endpoint).deliveries) == 1  # the bucket holds one

    assert pay(endpoint, count=3) == 1

    # Three were taken on credit, and deliveries wait until all are paid back and there is one for them.
    lane = Lane.objects.get(endpoint=endpoint)
    assert -3 <= lane.tokens <= -2
    assert abs(lane.opens_at - lane.tokens_at - timedelta(seconds=1 - lane.tokens)) < timedelta(milliseconds=1)
    assert claim_for(endpoint).deliveries == []
    pass_time(seconds=4)
    assert len(claim_for(endpoint).deliveries) == 1


def test_a_test_pays_out_of_what_a_claim_at_the_same_moment_has_left(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, rate_limit_per_second=1)
    pass_time(seconds=10)
    with ExitStack() as until_paid, transaction.atomic(), connection.cursor() as cursor:
        # As the claim does: the lane is locked, and the bucket is emptied, here with two on credit.
        cursor.execute(trial_slots.LOCK_LANE, {"endpoint_id": endpoint.id})
        until_paid.enter_context(in_a_thread(lambda: pay(endpoint)))
        hold_until_somebody_waits(seconds=20)
        cursor.execute(trial_slots.PAY, {"endpoint_id": endpoint.id, "count": 3})

    assert -3 <= Lane.objects.get(endpoint=endpoint).tokens < 0


def test_an_endpoint_without_a_rate_limit_is_not_waited_for(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    assert pay(endpoint, count=5) == 0
    accept(acme, 3)
    assert len(claim_for(endpoint).deliveries) == 3


def test_a_check_up_sends_no_faster_than_the_endpoint_may_take(acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, rate_limit_per_second=5)
    arrived: list[float] = []

    def note(_: object) -> Reply:
        arrived.append(time.monotonic())
        return Reply(200)

    receiver.answer = note
    check_up.run(endpoint)
    assert len(arrived) == 4
    assert arrived[-1] - arrived[0] >= 3 * 0.2
