"""Replays as they are asked for: which ones, said aloud where it is all of them, and no more jobs than a consumer may
have. A slip costs nothing."""

import threading
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from subscriptions.models import Consumer
from tests.conftest import Api
from tests.console import dead_letters, logged_in
from tests.ledger import ledger
from tests.portal import inside
from tests.walk import states

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "body",
    [{}, {"dry_run": True}, {"state": "dead"}, {"state": "delivered"}, {"filter": {}}, {"filter": {"state": "dead"}},
     {"rate_per_second": 5, "why": "fixed"}, {"all": False}],
)  # fmt: skip
def test_a_replay_without_a_filter_is_refused(
    operator: Api, acme: Consumer, acme_api: Api, body: dict[str, Any]
) -> None:
    """Also of a consumer's key, which implies its consumer: the rule is about slips."""
    dead_letters(acme, 2)
    before = ledger()

    answers = [api.post("replays/", body) for api in (operator, acme_api)]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(400, "filter_required")] * 2
    assert ledger() == before


def test_all_said_aloud_takes_all_and_filters_hold_beside_it(operator: Api, acme: Consumer) -> None:
    dead_letters(acme, 2)
    other, _ = dead_letters(acme, 1, status_code=500)

    def count(**body: Any) -> int:
        matched: int = operator.post("replays/", {**body, "dry_run": True}).json()["matched"]
        return matched

    assert count(all=True) == Delivery.objects.filter(state="dead").count()
    assert count(all=True, endpoint=other.public_id) == count(endpoint=other.public_id) == 1


@pytest.mark.parametrize("name", ["event_type", "dead_reason", "since", "until", "consumer", "endpoint", "error_kind",
                                  "event", "ordering_key", "deliveries"])  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_every_filter_counts_beside_the_other_fields_and_under_filter(
    operator: Api, acme: Consumer, name: str, nested: bool
) -> None:
    endpoint, [delivery] = dead_letters(acme, 1, status_code=503)
    value = {
        "event_type": "invoice.paid", "dead_reason": "attempts_exhausted", "since": "2020-01-01T00:00:00Z",
        "until": "2099-01-01T00:00:00Z", "consumer": "acme", "endpoint": endpoint.public_id, "error_kind": "http_503",
        "event": delivery.event.public_id, "ordering_key": "none", "deliveries": [delivery.public_id],
    }[name]  # fmt: skip
    body = {"filter": {name: value}} if nested else {name: value}

    answer = operator.post("replays/", {**body, "dry_run": True})

    assert answer.status_code == 200, answer.content
    assert answer.json()["matched"] == (0 if name == "ordering_key" else 1)


def test_a_field_said_twice_is_refused(operator: Api, acme: Consumer) -> None:
    dead_letters(acme, 1)
    before = ledger()
    answer = operator.post("replays/", {"filter": {"consumer": "acme"}, "consumer": "acme"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/filter/consumer")
    assert ledger() == before


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"since": "1960-01-01T00:00:00Z"}, "/since"),
        ({"until": "9999-06-01T00:00:00Z"}, "/until"),
        ({"since": "2026-01-01T00:00:00"}, "/since"),
        ({"since": 5}, "/since"),
        ({"deliveries": []}, "/deliveries"),
        ({"deliveries": ["evt_1"]}, "/deliveries/0"),
        ({"all": "yes"}, "/all"),
        ({"all": True, "why": "x" * 501}, "/why"),
        ({"endpoint": None}, "/endpoint"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    operator: Api, acme: Consumer, body: dict[str, Any], pointer: str
) -> None:
    dead_letters(acme, 1)
    before = ledger()
    answer = operator.post("replays/", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), answer.content
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert ledger() == before


def test_why_is_kept_with_the_job(operator: Api, acme: Consumer) -> None:
    job = operator.post("replays/", {"consumer": "acme", "why": "receiver fixed, ticket 4711"}).json()
    assert job["why"] == "receiver fixed, ticket 4711"
    assert operator.get(f"replays/{job['id']}/").json()["why"] == Replay.objects.get().why == job["why"]


def test_the_console_asks_for_all_to_be_said_where_no_filter_is_set(acme: Consumer) -> None:
    endpoint, _ = dead_letters(acme, 1)
    console: Client = logged_in("olga", group="Operators")
    preview = console.get("/admin/dead-letters/replay/").content.decode()
    narrowed = console.get("/admin/dead-letters/replay/", {"endpoint": endpoint.public_id}).content.decode()
    assert ('name="all"' in preview, 'name="all"' in narrowed) == (True, False)

    refused = console.post("/admin/dead-letters/replay/start/", {"why": "fixed", "rate": ""}, follow=True)
    assert "No filter is set" in refused.content.decode()
    assert Replay.objects.count() == 0
    console.post("/admin/dead-letters/replay/start/", {"why": "fixed", "rate": "", "all": "yes"})
    assert Replay.objects.get().why == "fixed"


# ── how many at once ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_consumer_s_jobs_beyond_the_cap_are_refused_until_one_ends(
    acme: Consumer, acme_api: Api, operator: Api, settings: Settings
) -> None:
    settings.MAX_RUNNING_REPLAYS_PER_CONSUMER = 2
    endpoint, _ = dead_letters(acme, 1)
    first = acme_api.post("replays/", {"all": True, "rate_per_second": 1}).json()["id"]
    operator.post("replays/", {"consumer": "acme"})
    before = ledger()

    refused = [api.post("replays/", {"consumer": "acme"}) for api in (acme_api, operator)]

    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(409, "too_many_replays")] * 2
    assert "2 replays of this consumer are running" in refused[0].json()["detail"]
    assert ledger() == before
    # A look costs nothing, and jobs of no certain consumer are nobody's.
    assert acme_api.post("replays/", {"all": True, "dry_run": True}).status_code == 200
    assert operator.post("replays/", {"endpoint": endpoint.public_id}).status_code == 202
    acme_api.post(f"replays/{first}/cancel/")
    assert acme_api.post("replays/", {"all": True}).status_code == 202


def test_the_cap_is_exact_when_eight_ask_at_the_same_moment(acme: Consumer, settings: Settings) -> None:
    settings.MAX_RUNNING_REPLAYS_PER_CONSUMER = 3
    outcomes: list[str] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        try:
            barrier.wait(20)
            replay.start(Filter(consumer_id=acme.id), consumer=acme, rate_per_second=1, requested_by="test")
            outcomes.append("started")
        except replay.TooManyReplays:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(outcomes) == ["refused"] * 5 + ["started"] * 3
    assert Replay.objects.count() == 3


def test_the_portal_and_the_console_say_so_too(acme: Consumer, settings: Settings) -> None:
    settings.MAX_RUNNING_REPLAYS_PER_CONSUMER = 1
    endpoint, _ = dead_letters(acme, 1)
    replay.start(Filter(consumer_id=acme.id), consumer=acme, rate_per_second=1, requested_by="test")
    console, portal = logged_in("olga", group="Operators"), inside(acme)

    form = {"consumer": "acme", "why": "fixed", "rate": ""}
    pages = [
        console.post("/admin/dead-letters/replay/start/", form, follow=True),
        portal.post(f"/portal/endpoints/{endpoint.public_id}/replay/", follow=True),
    ]

    assert all("1 replay of this consumer is running" in page.content.decode() for page in pages)
    assert (Replay.objects.count(), states(endpoint)) == (1, ["dead"])
