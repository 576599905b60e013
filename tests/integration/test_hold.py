"""Kill switches: what is held is neither claimed nor found by the sweep, waits, and goes out once let go."""

import pytest

from deliveries import hold, sweep
from deliveries.models import AuditEntry
from subscriptions import consumers
from subscriptions.models import Consumer, Hold
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)


def due() -> set[object]:
    return set(sweep.due_endpoints_now(limit=100))


def test_a_consumer_s_hold_stops_its_endpoints_and_no_others(acme: Consumer) -> None:
    other = consumers.create(uid="other")
    held, free = new_endpoint(acme), new_endpoint(other)
    accept(acme)
    accept(other)
    hold.put_on(acme, actor="olga", reason="flood")
    assert due() == {free.id}
    assert [each.endpoint_id for each in claim_for(held, free).deliveries] == [free.id]
    assert states(held) == ["pending"]


def test_an_endpoint_made_under_a_hold_is_held_too(acme: Consumer) -> None:
    hold.put_on(acme, actor="olga", reason="flood")
    endpoint = new_endpoint(acme)
    accept(acme)
    assert (due(), claim_for(endpoint).deliveries) == (set(), [])


def test_everything_held_means_everything_and_what_is_in_flight_still_ends(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    [under_way] = claim_for(endpoint, limit=1).deliveries
    hold.put_on(None, actor="olga", reason="incident")
    assert (due(), claim_for(endpoint).deliveries) == (set(), [])
    settle_all(answered(under_way))
    assert states(endpoint) == ["delivered", "pending"]
    hold.take_off(None, actor="olga", reason="over")
    assert due() == {endpoint.id}
    assert len(claim_for(endpoint).deliveries) == 1


def test_a_switch_is_on_once_and_says_so(acme: Consumer) -> None:
    assert hold.put_on(None, actor="olga", reason="a")
    assert not hold.put_on(None, actor="otto", reason="b")
    assert hold.put_on(acme, actor="otto", reason="c")
    assert not hold.put_on(acme, actor="otto", reason="d")
    assert hold.take_off(None, actor="olga", reason="")
    assert not hold.take_off(None, actor="olga", reason="")
    assert Hold.objects.get().consumer == acme
    assert AuditEntry.objects.count() == 3
