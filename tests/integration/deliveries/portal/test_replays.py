"""Finding deliveries in the portal, and sending them again: one, some, all that match, what was missed."""

from typing import Any

import pytest
from django.test import Client

from deliveries import replay
from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from subscriptions import consumers, event_types
from subscriptions.models import Consumer
from tests.console import dead_letters
from tests.portal import inside
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all, unanswered

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def visitor(acme: Consumer) -> Client:
    return inside(acme)


def listed(visitor: Client, **query: Any) -> list[Delivery]:
    rows: list[Delivery] = visitor.get("/portal/deliveries/", query).context["page"].rows
    return rows


def test_a_list_says_why(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=10)
    accept(acme, 3)
    refused, slow, fine = claim_for(endpoint).deliveries
    settle_all(answered(refused, 503), unanswered(slow, "read_timeout", "Nothing came within 10 s."), answered(fine))
    accept(acme)

    shown = {(line.why, line.detail) for line in visitor.get("/portal/deliveries/").context["lines"]}

    assert shown == {
        ("503 Service Unavailable", ""), ("read timeout", "Nothing came within 10 s."), ("200 OK", ""),
        ("not attempted yet", ""),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({}, 5),
        ({"state": "dead"}, 3),
        ({"event_type": "order.made"}, 2),
        ({"answer": "503"}, 3),
        ({"answer": "503 Service Unavailable"}, 3),
        ({"answer": "read timeout"}, 0),
        ({"within": "1h"}, 5),
        ({"since": "2999-01-01"}, 0),
        ({"q": "nothing-of-ours"}, 0),
        ({"state": "dead", "event_type": "order.made"}, 0),
    ],
)
def test_filters_narrow_the_list(visitor: Client, acme: Consumer, query: dict[str, str], count: int) -> None:
    dead_letters(acme, 3, event_types=["invoice.*"])
    new_endpoint(acme, event_types=["order.*"])
    accept(acme, 2, type="order.made")
    accept(consumers.create(uid="globex"), 4)
    assert len(listed(visitor, **query)) == count


def test_an_id_of_an_event_or_a_delivery_finds_it(visitor: Client, acme: Consumer) -> None:
    _, [first, *_] = dead_letters(acme, 3)
    for text in (first.public_id, first.event.public_id):
        assert [row.id for row in listed(visitor, q=text)] == [first.id]


@pytest.mark.parametrize("query", [{"state": "gone"}, {"within": "2d"}, {"since": "soon"}, {"endpoint": "ep_x"}])
def test_a_filter_that_is_not_understood_shows_nothing_and_says_so(visitor: Client, query: dict[str, str]) -> None:
    answer = visitor.get("/portal/deliveries/", query)
    assert (len(answer.context["asked"].problems), answer.context["page"].rows) == (1, [])


def test_the_list_refreshes_itself_and_older_pages_do_not(visitor: Client, acme: Consumer) -> None:
    dead_letters(acme, 60)
    first = visitor.get("/portal/deliveries/")
    assert b'data-every="5"' in first.content
    assert b"data-every" not in visitor.get(f"/portal/deliveries/?{first.context['page'].older}").content


def test_all_that_match_are_previewed_then_replayed_with_their_outcome(visitor: Client, acme: Consumer) -> None:
    endpoint, found = dead_letters(acme, 4, event_types=["invoice.*"], status_code=500)
    query = {"state": "dead", "event_type": "invoice.paid", "answer": "500"}
    preview = visitor.get("/portal/replays/new/", query)
    assert (preview.context["matched"].count, preview.context["shown"]) == (4, [(endpoint, 4)])
    assert Replay.objects.count() == 0

    answer = visitor.post("/portal/replays/new/", query)
    replay.advance_all()
    job = Replay.objects.get()
    assert answer.headers["Location"] == f"/portal/replays/{job.public_id}/"
    claimed = claim_for(endpoint).deliveries
    settle_all(*(answered(each, 200 if number else 500) for number, each in enumerate(claimed)))

    page = visitor.get(f"/portal/replays/{job.public_id}/")
    assert page.context["sentence"] == "Of 4: 3 delivered, 1 dead again."
    assert len(found) == 4


def test_those_selected_are_replayed_and_no_others(visitor: Client, acme: Consumer) -> None:
    endpoint, [first, second, third] = dead_letters(acme, 3)
    visitor.post("/portal/replays/new/", {"delivery": [first.public_id, third.public_id]})
    assert replay.advance_all() == 2
    assert Delivery.objects.get(id=second.id).state == "dead"
    assert endpoint.deleted_at is None


def test_a_replay_of_nothing_in_particular_is_refused(visitor: Client, acme: Consumer) -> None:
    dead_letters(acme, 2)
    answer = visitor.post("/portal/replays/new/", {}, follow=True)
    assert b"Say which" in answer.content
    assert Replay.objects.count() == 0


@pytest.mark.parametrize("rate", ["0", "fast", "10001"])
def test_a_rate_that_is_none_is_refused(visitor: Client, acme: Consumer, rate: str) -> None:
    dead_letters(acme, 1)
    answer = visitor.post("/portal/replays/new/", {"state": "dead", "rate": rate}, follow=True)
    assert b"A rate is a number from 1 to 10000" in answer.content
    assert Replay.objects.count() == 0


def test_a_running_replay_is_cancelled(visitor: Client, acme: Consumer) -> None:
    dead_letters(acme, 3)
    visitor.post("/portal/replays/new/", {"state": "dead", "rate": "1"})
    job = Replay.objects.get()
    visitor.post(f"/portal/replays/{job.public_id}/cancel/")
    job.refresh_from_db()
    assert job.status == "cancelled"


def test_what_was_missed_is_counted_then_sent(visitor: Client, acme: Consumer) -> None:
    accept(acme, 3)
    endpoint = new_endpoint(acme)
    path = f"/portal/endpoints/{endpoint.public_id}/missed/"
    assert visitor.get(path).context["matched"].count == 3
    assert Delivery.objects.count() == 0

    visitor.post(path, {"within": "24h"})

    assert replay.advance_all() == 3
    assert visitor.get(path).context["matched"].count == 0
    assert (
        "Of 3: 0 delivered, 3 still to go."
        in visitor.get(f"/portal/replays/{Replay.objects.get().public_id}/").content.decode()
    )


def test_a_failed_delivery_leads_to_the_debugger_with_its_request_filled_in(visitor: Client, acme: Consumer) -> None:
    _, [delivery] = dead_letters(acme, 1, status_code=401)
    page = visitor.get(f"/portal/deliveries/{delivery.public_id}/").content.decode()
    assert f"/portal/signatures/?delivery={delivery.public_id}" in page
    assert "Your receiver did not accept the signature" in page
    filled = visitor.get("/portal/signatures/", {"delivery": delivery.public_id}).context["posted"]
    assert filled["headers"] == f"webhook-id: {delivery.event.public_id}"
    assert '"type":"invoice.paid"' in filled["body"]


def test_nobody_elses_delivery_fills_the_debugger(visitor: Client) -> None:
    _, [theirs] = dead_letters(consumers.create(uid="globex"), 1)
    filled = visitor.get("/portal/signatures/", {"delivery": theirs.public_id}).context["posted"]
    assert filled == {"headers": "", "body": "", "computed": "", "endpoint": ""}


def test_a_search_finds_the_end_of_an_id_an_attempt_an_answer_a_type_and_a_key(visitor: Client, acme: Consumer) -> None:
    _, [first, *_] = dead_letters(acme, 3)
    attempt = first.attempts.get()
    whole = first.public_id.removeprefix("dlv_")
    for text in (
        first.public_id[-8:], f"dlv_…{first.public_id[-6:]}", first.event.public_id[-8:].upper(), whole,
        str(first.id), attempt.public_id,
    ):  # fmt: skip
        assert [row.id for row in listed(visitor, q=text)] == [first.id], text
    event_types.create(name="invoice.paid")
    for text in ("503", "Last answer: 503", "service unavailable", "invoice.paid"):
        assert len(listed(visitor, q=text)) == 3, text
    accept(acme, ordering_key="503")
    assert [row.event.ordering_key for row in listed(visitor, q="503")] == ["503"]


def test_a_search_finds_nothing_of_another_consumer(visitor: Client) -> None:
    _, [theirs] = dead_letters(consumers.create(uid="globex"), 1)
    for text in (theirs.public_id, theirs.public_id[-8:], theirs.event.public_id, theirs.attempts.get().public_id):
        assert listed(visitor, q=text) == [], text


def test_a_line_says_where_it_goes_where_there_are_several_endpoints(visitor: Client, acme: Consumer) -> None:
    dead_letters(acme, 1)
    other = new_endpoint(acme, url="https://other.receiver.test/hook")
    accept(acme)

    def urls(**query: str) -> set[str]:
        return {line.url for line in visitor.get("/portal/deliveries/", query).context["lines"]}

    assert urls() == {"receiver.test/hook", "other.receiver.test/hook"}
    assert urls(endpoint=other.public_id) == {""}


def test_a_time_that_was_typed_stays_in_the_form(visitor: Client) -> None:
    page = visitor.get("/portal/deliveries/", {"since": "2026-01-31T12:00+01:00"}).content.decode()
    assert 'value="2026-01-31T11:00"' in page
