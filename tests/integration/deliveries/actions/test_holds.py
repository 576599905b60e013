"""Kill switches: what is held is neither claimed nor found by the sweep, waits, and goes out once let go."""

import pytest

from deliveries import sweep
from deliveries.actions import holds
from deliveries.health.models import Hold
from subscriptions import consumers
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry, Consumer
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

OLGA, OTTO = Actor.of_user("olga"), Actor.of_user("otto")


def due() -> set[object]:
    return set(sweep.due_endpoints_now(limit=100))


def test_a_consumer_s_hold_stops_its_endpoints_and_no_others(acme: Consumer) -> None:
    other = consumers.create(uid="other")
    held, free = new_endpoint(acme), new_endpoint(other)
    accept(acme)
    accept(other)
    holds.put_on(acme, actor=OLGA, why="flood")
    assert due() == {free.id}
    assert [each.endpoint_id for each in claim_for(held, free).deliveries] == [free.id]
    assert states(held) == ["pending"]


def test_an_endpoint_made_under_a_hold_is_held_too(acme: Consumer) -> None:
    holds.put_on(acme, actor=OLGA, why="flood")
    endpoint = new_endpoint(acme)
    accept(acme)
    assert (due(), claim_for(endpoint).deliveries) == (set(), [])


def test_everything_held_means_everything_and_what_is_in_flight_still_ends(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    [under_way] = claim_for(endpoint, limit=1).deliveries
    holds.put_on(None, actor=OLGA, why="incident")
    assert (due(), claim_for(endpoint).deliveries) == (set(), [])
    settle_all(answered(under_way))
    assert states(endpoint) == ["delivered", "pending"]
    holds.take_off(None, actor=OLGA, why="over")
    assert due() == {endpoint.id}
    assert len(claim_for(endpoint).deliveries) == 1


def test_a_switch_is_on_once_and_says_so(acme: Consumer) -> None:
    assert holds.put_on(None, actor=OLGA, why="a")
    assert not holds.put_on(None, actor=OTTO, why="b")
    assert holds.put_on(acme, actor=OTTO, why="c")
    assert not holds.put_on(acme, actor=OTTO, why="d")
    assert holds.take_off(None, actor=OLGA, why="")
    assert not holds.take_off(None, actor=OLGA, why="")
    assert Hold.objects.get().consumer == acme
    assert AuditEntry.objects.count() == 3
