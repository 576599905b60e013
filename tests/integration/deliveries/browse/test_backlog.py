"""What is owed, and why it has not gone out: each state is reached by the real walk."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from deliveries.actions import endpoints as actions
from deliveries.actions import holds
from deliveries.browse.backlog import Owed, WaitReason, read_backlog, read_owed
from deliveries.claim import renew_lease
from deliveries.upkeep import heartbeat
from subscriptions import ids
from subscriptions.audit import Actor
from subscriptions.models import Consumer, Endpoint
from tests.console import logged_in
from tests.walk import accept, answered, claim_for, new_endpoint, pass_time, settle_all, with_connection

pytestmark = pytest.mark.django_db(transaction=True)

OLGA = Actor.of_user("olga")


def only(endpoint: Endpoint) -> Owed:
    """What the overview and the endpoint's own page read, which must be the same."""
    [found] = read_backlog().endpoints
    assert read_owed(endpoint.id, up_to=1000) == found
    return found


def workers_are_alive() -> None:
    with connection.cursor() as cursor:
        for name in (heartbeat.BEAT, "deliveries@here"):
            cursor.execute(heartbeat.WRITE_HEARTBEAT, {"name": name, "clock_ahead_ms": 0})
    with_connection(lambda own: renew_lease(own, lease_id=ids.new_uuid(), worker="deliveries@here", seconds=60))


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga", group="Operators")


def test_an_endpoint_at_its_concurrency_limit_is_full(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=5)
    accept(acme, 20)
    pass_time(minutes=1)
    assert len(claim_for(endpoint).deliveries) == 5
    found = only(endpoint)
    assert (found.wait, found.due, found.in_flight) == (WaitReason.FULL, 15, 5)


def test_an_endpoint_nobody_takes_deliveries_for_waits_for_a_worker(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 3)
    pass_time(minutes=1)
    assert only(endpoint).wait is WaitReason.WORKER


def test_an_endpoint_whose_deliveries_went_out_a_moment_ago_is_served(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 3)
    pass_time(minutes=1)
    settle_all(*(answered(delivery) for delivery in claim_for(endpoint, share=2).deliveries))
    found = only(endpoint)
    assert (found.wait, found.due) == (WaitReason.SERVED, 1)


def test_an_endpoint_at_its_rate_limit_is_rate_limited(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, rate_limit_per_second=2)
    accept(acme, 10)
    pass_time(minutes=1)
    settle_all(*(answered(delivery) for delivery in claim_for(endpoint).deliveries))
    assert only(endpoint).wait is WaitReason.RATE_LIMITED


def test_an_endpoint_that_asked_for_a_pause_is_waited_for(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 3)
    settle_all(*(answered(delivery, 503, Retry_After="600") for delivery in claim_for(endpoint, share=1).deliveries))
    found = only(endpoint)
    assert (found.wait, found.due, found.later) == (WaitReason.ASKED_TO_WAIT, 2, 1)


def test_an_endpoint_with_an_open_breaker_is_failing(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=30)
    accept(acme, 25)
    settle_all(*(answered(delivery, 500) for delivery in claim_for(endpoint, share=20).deliveries))
    assert only(endpoint).wait is WaitReason.FAILING


def test_paused_disabled_and_held_endpoints_say_so(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 1)
    actions.pause(endpoint, actor=OLGA, why="")
    assert only(endpoint).wait is WaitReason.PAUSED
    actions.disable(endpoint, actor=OLGA, why="gone")
    assert only(endpoint).wait is WaitReason.DISABLED
    holds.put_on(acme, actor=OLGA, why="flood")
    assert only(endpoint).wait is WaitReason.HELD


def test_the_sums_tell_what_is_parked_from_what_goes_out(acme: Consumer) -> None:
    busy, paused = new_endpoint(acme, max_in_flight=1), new_endpoint(acme)
    accept(acme, 3)
    claim_for(busy)
    actions.pause(paused, actor=OLGA, why="")
    backlog = read_backlog()
    assert (backlog.due, backlog.parked, backlog.parked_endpoints, backlog.is_more) == (2, 3, 1, False)


def overview(operator: Client) -> str:
    return str(operator.get("/admin/").content.decode())


def test_the_overview_of_a_full_endpoint_is_no_alarm_and_does_not_ask_for_workers(
    operator: Client, acme: Consumer
) -> None:
    endpoint = new_endpoint(acme, max_in_flight=5)
    accept(acme, 20)
    pass_time(minutes=1)
    claim_for(endpoint)
    workers_are_alive()
    page = overview(operator)
    assert "Needs attention" not in page
    assert "dd delivery workers" not in page
    assert "More workers would not help" in page
    assert endpoint.public_id in page
    shown = operator.get(f"/admin/endpoints/{endpoint.public_id}/").content.decode()
    assert "All requests its concurrency allows are in flight" in shown


def test_the_overview_says_when_nobody_takes_what_is_due(operator: Client, acme: Consumer) -> None:
    new_endpoint(acme)
    accept(acme, 3)
    pass_time(minutes=1)
    workers_are_alive()
    page = overview(operator)
    assert "Needs attention" in page
    assert "although the workers have slots free" in page


def test_the_overview_asks_for_workers_when_every_slot_is_taken(
    operator: Client, acme: Consumer, settings: Any
) -> None:
    settings.DELIVERY_CONCURRENCY = 5
    busy, waiting = new_endpoint(acme, max_in_flight=5), new_endpoint(acme)
    accept(acme, 5)
    pass_time(minutes=1)
    workers_are_alive()
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM deliveries_lease")
        [lease_id] = cursor.fetchone() or [None]
    claim_for(busy, lease_id=lease_id)
    page = overview(operator)
    assert "Too few delivery workers: 5 of 5 slots are taken" in page
    assert waiting.public_id in page


def test_endpoints_that_answer_500_are_failing_and_not_silent(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=30)
    accept(acme, 25)
    settle_all(*(answered(delivery, 500) for delivery in claim_for(endpoint, share=20).deliveries))
    workers_are_alive()
    page = overview(operator)
    assert "keeps failing" in page
    assert "not answer" not in page
