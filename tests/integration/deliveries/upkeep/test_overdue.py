"""deliveries/upkeep/overdue.py: what only time brings. The days pass by making everything on record older."""

import threading

import pytest
from django.db import connection, transaction
from django.utils import timezone

from deliveries import ingest, tasks
from deliveries.claim import renew_lease
from deliveries.health import lifecycle
from deliveries.health.breaker import Breaker
from deliveries.health.models import Notice
from deliveries.ingest import NewEvent
from deliveries.models import Delivery
from deliveries.pump.models import Lease
from deliveries.upkeep import overdue
from subscriptions import endpoints, ids
from subscriptions.models import Consumer, Endpoint, Lane
from tests.walk import (
    accept,
    answered,
    claim_for,
    hold_until_somebody_waits,
    new_endpoint,
    pass_time,
    settle_all,
    states,
    with_connection,
)

pytestmark = pytest.mark.django_db(transaction=True)

BREAKER = Breaker(failures=1, first_cooldown=10, longest_cooldown=1800)
NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)
# A day and 14 hours in all; a delivery may wait a day longer than that.
SCHEDULE = [0, 60, 300, 1800, 7200, 36000, 86400]


def fail(endpoint: Endpoint, *, breaker: Breaker = NEVER) -> None:
    """One attempt that fails, of an endpoint with work that is due."""
    [claimed] = claim_for(endpoint, limit=1).deliveries
    settle_all(answered(claimed, 500), breaker=breaker)


def failing(consumer: Consumer, **fields: object) -> Endpoint:
    """An endpoint that has just failed for the first time, with more work than it will ever get through."""
    endpoint = new_endpoint(consumer, **{"retry_schedule": [0] * 20, **fields})
    accept(consumer, 20)
    fail(endpoint)
    return endpoint


def told(endpoint: Endpoint) -> list[str]:
    kinds = Notice.objects.filter(endpoint=endpoint).exclude(kind="dead").order_by("id")
    return list(kinds.values_list("kind", flat=True))


def status(endpoint: Endpoint) -> str:
    return Endpoint.objects.get(id=endpoint.id).status


# ── endpoints that fail for days ─────────────────────────────────────────────────────────────────────────────────────


def test_an_endpoint_is_warned_about_after_a_day_of_failure_once(acme: Consumer) -> None:
    endpoint = failing(acme)
    pass_time(hours=23)
    fail(endpoint)
    overdue.watch_failing()
    assert told(endpoint) == []

    pass_time(hours=1)
    overdue.watch_failing()
    overdue.watch_failing()

    assert told(endpoint) == ["warning"]
    assert Notice.objects.get(kind="warning").reason == "Every delivery has failed for a day."
    assert Lane.objects.get().warning_count == 1


def test_it_is_warned_about_again_a_day_before_it_is_disabled(acme: Consumer) -> None:
    endpoint = failing(acme)
    for days, expected in ((1, ["warning"]), (2, ["warning"]), (1, ["warning", "last_warning"])):
        pass_time(days=days)
        fail(endpoint)
        overdue.watch_failing()
        assert told(endpoint) == expected

    assert Notice.objects.get(kind="last_warning").reason == (
        "Every delivery has failed for four days; the endpoint will be disabled in a day."
    )
    assert status(endpoint) == "active"


def test_after_five_days_it_is_disabled_with_the_way_back_and_its_backlog_is_parked(acme: Consumer) -> None:
    endpoint = failing(acme)
    for _ in range(5):
        pass_time(days=1)
        fail(endpoint)
        overdue.watch_failing()
    overdue.watch_failing()

    endpoint.refresh_from_db()
    assert told(endpoint) == ["warning", "last_warning", "disabled"]
    assert endpoint.status == "disabled"
    assert "resume the endpoint: nothing was dropped" in endpoint.disabled_reason
    assert claim_for(endpoint).deliveries == []
    assert states(endpoint).count("pending") == 20


def test_failures_within_twelve_hours_disable_nobody_however_long_ago_they_were(acme: Consumer) -> None:
    endpoint = failing(acme)
    pass_time(hours=11)
    fail(endpoint)
    for _ in range(10):
        pass_time(days=1)
        overdue.watch_failing()

    assert status(endpoint) == "active"


def test_failures_over_more_than_twelve_hours_disable_after_five_days(acme: Consumer) -> None:
    endpoint = failing(acme)
    pass_time(hours=13)
    fail(endpoint)
    for _ in range(10):
        pass_time(hours=12)
        overdue.watch_failing()

    assert status(endpoint) == "disabled"


def test_a_success_in_between_starts_the_count_anew_and_is_announced_as_a_recovery(acme: Consumer) -> None:
    endpoint = failing(acme)
    pass_time(days=1)
    fail(endpoint)
    overdue.watch_failing()

    [claimed] = claim_for(endpoint, limit=1).deliveries
    settle_all(answered(claimed, 200))
    fail(endpoint)
    pass_time(hours=20)
    fail(endpoint)
    overdue.watch_failing()

    assert told(endpoint) == ["warning", "recovered"]
    assert Lane.objects.get().warning_count == 0


def test_a_failing_endpoint_that_a_person_paused_is_left_alone(acme: Consumer) -> None:
    endpoint = failing(acme)
    pass_time(days=1)
    fail(endpoint)
    lifecycle.pause(endpoint, reason="test")

    pass_time(days=5)
    overdue.watch_failing()

    assert (told(endpoint), status(endpoint)) == (["paused"], "paused")


def test_a_resumed_endpoint_has_five_days_again(acme: Consumer) -> None:
    endpoint = failing(acme)
    for _ in range(5):
        pass_time(days=1)
        fail(endpoint, breaker=BREAKER)
        overdue.watch_failing()
    assert status(endpoint) == "disabled"

    lifecycle.resume(endpoint, reason="test")
    overdue.watch_failing()
    fail(endpoint)
    overdue.watch_failing()

    assert status(endpoint) == "active"
    assert told(endpoint)[-1] == "resumed"


# ── deliveries that waited too long ──────────────────────────────────────────────────────────────────────────────────


def behind_a_breaker(consumer: Consumer, **fields: object) -> Endpoint:
    endpoint = new_endpoint(consumer, **fields)
    accept(consumer, 3)
    fail(endpoint, breaker=BREAKER)
    assert Lane.objects.get(endpoint=endpoint).breaker_open
    return endpoint


def test_a_delivery_that_waited_behind_a_breaker_for_its_whole_schedule_and_a_day_is_dead(acme: Consumer) -> None:
    endpoint = behind_a_breaker(acme)
    pass_time(seconds=sum(SCHEDULE), hours=23)
    overdue.expire_late(default_schedule=SCHEDULE)
    assert states(endpoint) == ["pending"] * 3

    pass_time(hours=1, minutes=5)
    overdue.expire_late(default_schedule=SCHEDULE)

    assert states(endpoint) == ["dead"] * 3
    assert set(Delivery.objects.values_list("dead_reason", flat=True)) == {"expired"}
    assert list(Notice.objects.filter(kind="dead").values_list("reason", flat=True)) == ["expired"] * 3
    assert sum(Delivery.objects.values_list("attempt_count", flat=True)) == 1


def test_an_endpoints_own_schedule_says_how_long_its_deliveries_may_wait(acme: Consumer) -> None:
    endpoint = behind_a_breaker(acme, retry_schedule=[0, 60])

    pass_time(hours=25)
    overdue.expire_late(default_schedule=SCHEDULE)

    assert states(endpoint) == ["dead"] * 3


def test_what_waits_for_a_person_waits_as_long_as_it_takes(acme: Consumer) -> None:
    paused, not_asked = behind_a_breaker(acme), new_endpoint(acme, event_types=["other"])
    lifecycle.pause(paused, reason="test")
    accept(acme, 2, type="other")

    pass_time(days=100)
    overdue.expire_late(default_schedule=SCHEDULE)

    assert states(paused) == ["pending"] * 5
    assert states(not_asked) == ["pending"] * 2


def test_w15_an_expired_head_lets_the_next_of_its_key_wait_its_turn(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 3, ordering_key="a")
    fail(endpoint, breaker=BREAKER)

    pass_time(seconds=sum(SCHEDULE), hours=25)
    overdue.expire_late(default_schedule=SCHEDULE)

    assert list(Delivery.objects.order_by("sequence").values_list("state", "blocked")) == [
        ("dead", False),
        ("pending", False),
        ("pending", True),
    ]


def test_w15_an_event_accepted_while_its_keys_head_expires_is_not_left_blocked(acme: Consumer) -> None:
    """Regression: the head was gone, the event behind it not yet visible, and nobody would have let it go."""
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, ordering_key="a")
    fail(endpoint, breaker=BREAKER)
    pass_time(seconds=sum(SCHEDULE), hours=25)
    accepted = threading.Event()

    def produce() -> None:
        try:
            with transaction.atomic():
                new = NewEvent(consumer=acme.public_id, type="invoice.paid", data={}, ordering_key="a")
                ingest.accept([new], now=timezone.now())
                accepted.set()
                hold_until_somebody_waits()
        finally:
            connection.close()

    thread = threading.Thread(target=produce)
    thread.start()
    assert accepted.wait(10)
    overdue.expire_late(default_schedule=SCHEDULE)
    thread.join(10)

    assert list(Delivery.objects.order_by("sequence").values_list("state", "blocked")) == [
        ("dead", False),
        ("pending", False),
    ]


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_leases_of_workers_that_died_are_forgotten_after_an_hour(acme: Consumer) -> None:
    for _ in range(2):
        with_connection(lambda own: renew_lease(own, lease_id=ids.new_uuid(), worker="here:1", seconds=15))
        pass_time(minutes=40)

    overdue.drop_old_leases()

    assert Lease.objects.count() == 1


def test_the_periodic_task_does_all_of_it_and_doing_it_twice_changes_nothing(acme: Consumer) -> None:
    deleted, late = new_endpoint(acme), behind_a_breaker(acme)
    endpoints.delete(deleted)
    pass_time(seconds=sum(SCHEDULE), hours=25)

    tasks.take_care()
    once = (states(deleted), states(late), Notice.objects.count())
    tasks.take_care()

    assert once == (["dead"] * 3, ["dead"] * 3, once[2])
    assert (states(deleted), states(late), Notice.objects.count()) == once
