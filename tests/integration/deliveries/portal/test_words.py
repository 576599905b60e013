"""What the portal says of an endpoint is true in each state that one can be in, reached by real deliveries."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from deliveries import replay
from deliveries.actions import holds
from deliveries.browse.filter import Filter
from deliveries.models import Delivery
from deliveries.upkeep import retention
from subscriptions import endpoints
from subscriptions.audit import Actor
from subscriptions.models import Consumer, Endpoint
from tests.console import dead_letters
from tests.portal import inside
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def visitor(acme: Consumer) -> Client:
    return inside(acme)


def timeless(health: Any) -> tuple[str, str, str]:
    """Between two pages, a second may have passed."""
    return health.tone, health.title, re.sub(r"in \d+ s", "soon", health.text)


def said(visitor: Client, endpoint: Endpoint) -> tuple[str, str]:
    """The same in the list and on the endpoint's page."""
    health: Any = visitor.get(f"/portal/endpoints/{endpoint.public_id}/").context["health"]
    [listed] = [each for found, each, *_ in visitor.get("/portal/").context["rows"] if found.id == endpoint.id]
    assert timeless(listed) == timeless(health)
    return health.title, health.text


def failing(acme: Consumer, count: int, **fields: Any) -> Endpoint:
    """An endpoint with so many failed requests whose deliveries are tried again."""
    endpoint = new_endpoint(acme, max_in_flight=50, **fields)
    accept(acme, count)
    settle_all(*(answered(each, 503) for each in claim_for(endpoint).deliveries))
    return endpoint


def test_before_there_is_an_endpoint_nothing_is_promised_of_events_that_it_will_never_get(
    visitor: Client, acme: Consumer
) -> None:
    accept(acme)
    page = visitor.get("/portal/").content.decode()
    assert "events are kept" not in page
    assert "events from before are not sent by themselves" in page
    # And so it is.
    new_endpoint(acme)
    assert Delivery.objects.count() == 0


def test_failures_that_are_all_dead_letters_are_not_sent_again_on_the_schedule(visitor: Client, acme: Consumer) -> None:
    endpoint, _ = dead_letters(acme, 3)
    assert said(visitor, endpoint) == (
        "Failing",
        "The last 3 requests failed. Nothing is left to be sent again by itself: what failed is among the dead letters,"
        " to be replayed.",
    )
    replay.start(Filter(endpoint_id=endpoint.id), consumer=acme, rate_per_second=None, requested_by="test")
    replay.advance_all()
    assert said(visitor, endpoint)[1].endswith("What is not delivered yet is sent again on the schedule.")


@pytest.mark.parametrize(("count", "words"), [(1, "The last request failed."), (2, "The last 2 requests failed.")])
def test_failures_that_are_tried_again_are(visitor: Client, acme: Consumer, count: int, words: str) -> None:
    endpoint = failing(acme, count)
    assert said(visitor, endpoint) == ("Failing", f"{words} What is not delivered yet is sent again on the schedule.")


def test_behind_an_open_breaker_a_probe_is_promised_only_where_something_waits(visitor: Client, acme: Consumer) -> None:
    waiting = failing(acme, 20, event_types=["invoice.paid"])
    title, text = said(visitor, waiting)
    assert (title, "We send one at a time to see whether it is back, the next in " in text) == ("Keeps failing", True)
    settled, _ = dead_letters(acme, 20)
    title, text = said(visitor, settled)
    assert title == "Keeps failing"
    assert text == (
        "The last 20 requests failed. Nothing is left to be sent again by itself: what failed is among the dead"
        " letters, to be replayed. The next event, or a replay, shows whether it is back."
    )


def test_an_endpoint_with_every_slot_taken_is_full_and_not_at_ease(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=1)
    accept(acme, 2)
    assert len(claim_for(endpoint).deliveries) == 1
    title, text = said(visitor, endpoint)
    assert (title, text.partition(". ")[0]) == (
        "Full", "1 request is under way, as many as it may have at once; 1 more waits",
    )  # fmt: skip
    waiting = Delivery.objects.get(state="pending")
    page = visitor.get(f"/portal/deliveries/{waiting.public_id}/").content.decode()
    assert "Attempt 1 is due: it goes out as soon as its endpoint&#x27;s limits and a free worker allow." in page


def test_a_held_endpoint_that_is_also_paused_says_both(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    holds.put_on(acme, actor=Actor.of_user("olga"), why="test")
    assert said(visitor, endpoint)[1] == "An operator holds deliveries back. What comes waits, nothing is lost."
    endpoints.pause(endpoint)
    assert said(visitor, endpoint)[1].endswith("It is paused as well: resume it, too.")
    answer = visitor.post(f"/portal/endpoints/{endpoint.public_id}/resume/", follow=True)
    assert b"What waited goes out once the operator lets go." in answer.content


def test_a_disabled_endpoint_gives_its_reason_in_one_sentence(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    settle_all(*(answered(each, 410) for each in claim_for(endpoint).deliveries))
    title, text = said(visitor, endpoint)
    assert (title, ".." in text) == ("Disabled", False)
    assert text.endswith("What comes for it waits. Once it works, resume it.")


@pytest.mark.parametrize(("count", "words"), [(1, "1 dead letter goes out again"), (2, "2 go out again")])
def test_a_replay_says_how_many_and_when(visitor: Client, acme: Consumer, count: int, words: str) -> None:
    endpoint, _ = dead_letters(acme, count)
    path = f"/portal/endpoints/{endpoint.public_id}/replay/"
    now = visitor.post(path, follow=True).content.decode()
    assert f"{words}, as fast as the endpoint&#x27;s limits allow." in now
    endpoints.pause(endpoint)
    later = visitor.post(path, follow=True).content.decode()
    assert f"{words}, once you resume the endpoint." in later
    replay.advance_all()
    assert "There was no dead letter left to replay." in visitor.post(path, follow=True).content.decode()


def test_a_replayed_delivery_says_when_it_goes_out(visitor: Client, acme: Consumer) -> None:
    endpoint, [delivery] = dead_letters(acme, 1)
    endpoints.pause(endpoint)
    page = visitor.post(f"/portal/deliveries/{delivery.public_id}/replay/", follow=True).content.decode()
    assert "It goes out again, with the same id and body, once you resume the endpoint." in page


def test_a_dead_letter_that_cannot_be_replayed_is_not_told_to_be(visitor: Client, acme: Consumer) -> None:
    endpoint, [delivery] = dead_letters(acme, 1)
    endpoints.delete(endpoint)
    page = visitor.get(f"/portal/deliveries/{delivery.public_id}/").content.decode()
    assert "It can no longer be replayed" in page
    assert "replay: the event and its id stay the same" not in page


def test_attempts_whose_details_are_gone_are_not_denied(visitor: Client, acme: Consumer) -> None:
    _, [delivery] = dead_letters(acme, 1)
    days = retention.Days(attempts=30, payloads=30, delivered=90, dead=180, audit_entries=730, deleted_endpoints=7)
    retention.forget(days, now=timezone.now() + timedelta(days=31))
    page = visitor.get(f"/portal/deliveries/{delivery.public_id}/").content.decode()
    assert "No attempt yet" not in page
    assert "1 attempt, whose details are no longer kept." in page


def test_a_failing_endpoint_says_how_its_newest_failure_ended_and_what_to_do(visitor: Client, acme: Consumer) -> None:
    endpoint = failing(acme, 3)
    accept(acme, 50)  # newer, and not attempted
    page = visitor.get(f"/portal/endpoints/{endpoint.public_id}/")
    cause = page.context["cause"]
    assert (cause.outcome, cause.detail) == ("503 Service Unavailable", "")
    assert cause.advice == "Your receiver failed on it: its own log of that moment says why. Fix it, then replay."
    assert f"/portal/deliveries/{cause.delivery}/" in page.content.decode()
    assert "503 Service Unavailable" in visitor.get("/portal/").content.decode()


def test_a_working_endpoint_has_no_cause(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    assert visitor.get(f"/portal/endpoints/{endpoint.public_id}/").context["cause"] is None


def test_deleting_says_everything_that_is_owed_also_what_is_due_later_or_behind_another(
    visitor: Client, acme: Consumer
) -> None:
    endpoint = failing(acme, 3)  # tried again in a minute
    ordered = new_endpoint(acme, ordered=True, event_types=["order.made"])
    accept(acme, 4, type="order.made", ordering_key="one")
    owed = [visitor.get(f"/portal/endpoints/{each.public_id}/").context["backlog"] for each in (endpoint, ordered)]
    assert owed == [7, 4]
