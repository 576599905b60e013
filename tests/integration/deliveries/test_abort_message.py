"""`webhook-delivery: abort-message` ends its delivery and says nothing about the endpoint's health (W18)."""

import httpx
import pytest

from deliveries.health.breaker import Breaker
from deliveries.health.models import Notice
from deliveries.models import Delivery
from deliveries.statistics import figures
from subscriptions.models import Consumer, Endpoint, Lane
from tests.conftest import PumpRunner
from tests.walk import accept, answering, new_endpoint, pass_time, states

pytestmark = pytest.mark.django_db(transaction=True)

BREAKER = Breaker(failures=2, first_cooldown=10, longest_cooldown=1800)


def aborting(status_code: int = 400, **headers: str) -> httpx.MockTransport:
    return answering(status_code, webhook_delivery="abort-message", **headers)


def health(endpoint: Endpoint) -> tuple[int, bool, bool]:
    lane = Lane.objects.get(endpoint=endpoint)
    return lane.failure_count, lane.breaker_open, lane.failing_since is not None


@pytest.mark.parametrize("status_code", [400, 422, 500, 503])
def test_w18_ten_messages_refused_for_good_leave_the_endpoint_well(
    acme: Consumer, pump: PumpRunner, status_code: int
) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 10)
    pump.run(transport=aborting(status_code), breaker=BREAKER)

    assert states(endpoint) == ["dead"] * 10
    assert set(Delivery.objects.values_list("dead_reason", flat=True)) == {"aborted_by_receiver"}
    assert health(endpoint) == (0, False, False)
    assert set(Notice.objects.filter(endpoint=endpoint).values_list("kind", flat=True)) == {"dead"}


def test_w18_it_does_not_make_an_ailing_endpoint_well_either(acme: Consumer, pump: PumpRunner) -> None:
    endpoint = new_endpoint(acme, max_in_flight=1)
    accept(acme)
    pump.run(transport=answering(500), breaker=BREAKER)
    assert health(endpoint) == (1, False, True)

    accept(acme)
    pump.run(transport=aborting(), breaker=BREAKER)
    assert sorted(states(endpoint)) == ["dead", "pending"]
    assert health(endpoint) == (1, False, True)


def test_w18_a_probe_that_is_refused_for_good_leaves_the_breaker_as_it_is(acme: Consumer, pump: PumpRunner) -> None:
    endpoint = new_endpoint(acme, max_in_flight=1)
    accept(acme, 2)
    pump.run(transport=answering(500), breaker=BREAKER)
    assert health(endpoint) == (2, True, True)

    accept(acme)
    pass_time(seconds=15)
    pump.run(transport=aborting(), breaker=BREAKER)
    assert sorted(states(endpoint)) == ["dead", "pending", "pending"]
    assert health(endpoint) == (2, True, True)

    accept(acme)
    pump.run(transport=answering(200), breaker=BREAKER)
    assert health(endpoint) == (0, False, False)


def test_w18_a_pause_it_asks_for_beside_that_is_kept(acme: Consumer, pump: PumpRunner) -> None:
    endpoint = new_endpoint(acme, max_in_flight=1)
    accept(acme, 2)
    pump.run(transport=aborting(503, retry_after="60"), breaker=BREAKER)

    assert sorted(states(endpoint)) == ["dead", "pending"]
    assert health(endpoint) == (0, False, False)
    assert pump.run(transport=answering(200), breaker=BREAKER) == 0
    pass_time(seconds=61)
    assert pump.run(transport=answering(200), breaker=BREAKER) == 1


def test_statistics_count_the_attempt_as_failed_and_its_delivery_as_dead(acme: Consumer, pump: PumpRunner) -> None:
    """They count attempts, and only a 2xx is a success; health is another matter."""
    endpoint = new_endpoint(acme)
    accept(acme)
    pump.run(transport=aborting())
    whole = figures.total(figures.series(figures.RANGES["1h"], endpoint.id))
    assert (whole.delivered, whole.failed, whole.dead) == (0, 1, 1)
