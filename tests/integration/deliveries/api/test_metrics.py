"""/metrics: who may read it, what it says, and that it agrees with the database."""

from typing import Any

import pytest
from django.test import Client
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from deliveries import replay
from deliveries.health import lifecycle
from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from deliveries.statistics import deltas, totals
from deliveries.statistics.models import Total
from subscriptions import keys
from subscriptions.models import Consumer, Role
from subscriptions.process import counting
from tests.conftest import Api, PumpRunner
from tests.console import dead_letters
from tests.ledger import ledger
from tests.receiver import Receiver
from tests.walk import accept, answering, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "a-token-of-more-than-16-characters"
NAMES = {
    "webhooks_events_accepted_total",
    "webhooks_deliveries_total",
    "webhooks_attempts_total",
    "webhooks_attempt_duration_seconds_bucket",
    "webhooks_delivery_latency_seconds_bucket",
    "webhooks_deliveries",
    "webhooks_oldest_due_seconds",
    "webhooks_endpoints",
    "webhooks_breaker_transitions_total",
    "webhooks_idempotency_total",
    "webhooks_refused_addresses_total",
    "webhooks_leases_lost_total",
    "webhooks_replays_total",
    "webhooks_build_info",
}


RESULTS = ("new", "replayed", "reused", "in_progress")


@pytest.fixture(autouse=True)
def no_cache(settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN
    settings.METRICS_CACHE_SECONDS = 0
    counting.flush()
    totals.fold()
    Total.objects.all().delete()


def scrape(token: str = TOKEN, **headers: str) -> Any:
    return Client().get("/metrics", headers={"Authorization": f"Bearer {token}", **headers})


def figures() -> dict[str, float]:
    """By name and labels, as Prometheus writes them."""
    counting.flush()
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(scrape().content.decode())
        for sample in family.samples
    }


def test_every_promised_name_is_there_before_anything_has_happened() -> None:
    assert {name.split(" ")[0] for name in figures()} >= NAMES
    assert figures()["webhooks_events_accepted_total"] == 0


def test_an_operators_key_and_the_token_read_it() -> None:
    assert scrape(keys.issue(role=Role.OPERATOR)[1]).status_code == 200
    assert scrape().status_code == 200


@pytest.mark.parametrize("role", [Role.PRODUCER, Role.CONSUMER])
def test_no_other_role_reads_it(role: Role, acme: Consumer) -> None:
    secret = keys.issue(role=role, consumer=acme if role == Role.CONSUMER else None)[1]
    answer = scrape(secret)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_an_operators_key_needs_the_scope() -> None:
    assert scrape(keys.issue(role=Role.OPERATOR, scopes=["events:read"])[1]).status_code == 403
    assert scrape(keys.issue(role=Role.OPERATOR, scopes=["metrics:read"])[1]).status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", "Bearer \u00e9", TOKEN])
def test_nobody_reads_it_without_either(header: str) -> None:
    answer = Client().get("/metrics", headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert answer["WWW-Authenticate"] == 'Bearer realm="webhooks"'


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer "])
def test_without_a_token_in_the_settings_it_is_not_open(header: str, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    assert Client().get("/metrics", headers={"Authorization": header}).status_code == 401


def test_a_parameter_is_refused_and_so_is_a_post() -> None:
    answer = Client().get("/metrics?name=x", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")
    assert Client().post("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 405


def test_it_is_openmetrics_for_who_asks_for_that() -> None:
    answer = scrape(Accept="application/openmetrics-text; version=1.0.0")
    assert answer["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    parse: Any = openmetrics.text_string_to_metric_families
    families = parse(answer.content.decode())
    names = {family.name for family in families}
    assert {"webhooks_events_accepted", "webhooks_build"} <= names
    assert scrape()["Content-Type"].startswith("text/plain; version=0.0.4")


def test_reading_it_writes_nothing(acme: Consumer) -> None:
    new_endpoint(acme)
    accept(acme, 3)
    before = ledger(but=["subscriptions_apikey"])
    scrape()
    assert ledger(but=["subscriptions_apikey"]) == before


def test_events_deliveries_and_attempts_are_counted_to_the_unit(pump: PumpRunner, acme: Consumer) -> None:
    new_endpoint(acme, retry_schedule=[0])
    accept(acme, 5)
    # Before anything was added up, and after.
    assert figures()["webhooks_events_accepted_total"] == 5
    pump.run(transport=answering(200))
    accept(acme, 2)
    pump.run(transport=answering(503))
    found = figures()
    assert found["webhooks_events_accepted_total"] == 7
    assert found["webhooks_deliveries_total state=delivered"] == 5
    assert found["webhooks_deliveries_total state=dead"] == 2
    assert found["webhooks_attempts_total kind=2xx outcome=succeeded"] == 5
    assert found["webhooks_attempts_total kind=5xx outcome=failed"] == 2
    assert found["webhooks_attempt_duration_seconds_count"] == 7
    assert found["webhooks_attempt_duration_seconds_bucket le=+Inf"] == 7
    assert found["webhooks_delivery_latency_seconds_count"] == 5
    assert found["webhooks_delivery_latency_seconds_bucket le=86400.0"] == 5
    assert found["webhooks_deliveries state=dead"] == 2


def test_a_producers_id_sent_twice_counts_once(producer: Api, acme: Consumer) -> None:
    body = {"consumer": "acme", "type": "invoice.paid", "data": {}, "id": "inv-1"}
    assert [producer.post("events", body).status_code for _ in range(3)] == [202, 202, 202]
    assert figures()["webhooks_events_accepted_total"] == 1


def test_a_batch_counts_each_of_its_events(producer: Api, acme: Consumer) -> None:
    event = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    assert producer.post("events/batch", {"events": [event] * 7}).status_code == 202
    assert figures()["webhooks_events_accepted_total"] == 7


def test_what_dies_without_an_attempt_is_dead_all_the_same(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 4)
    assert lifecycle.bury(endpoint.id) == 4
    found = figures()
    assert found["webhooks_deliveries_total state=dead"] == Delivery.objects.filter(state="dead").count() == 4
    assert found["webhooks_attempts_total kind=5xx outcome=failed"] == 0


def test_the_hit_rate_of_idempotency_keys(producer: Api, acme: Consumer) -> None:
    body = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    for _ in range(3):
        assert producer.post("events", body, headers={"Idempotency-Key": "k"}).status_code == 202
    assert producer.post("events", {**body, "data": {"a": 1}}, headers={"Idempotency-Key": "k"}).status_code == 409
    assert producer.post("consumers", {"uid": "b"}, headers={"Idempotency-Key": "k"}).status_code == 201
    assert producer.post("consumers", {"uid": "b"}, headers={"Idempotency-Key": "k"}).status_code == 201
    found = figures()
    results = {result: found[f"webhooks_idempotency_total layer=database result={result}"] for result in RESULTS}
    assert results == {"new": 2, "replayed": 3, "reused": 1, "in_progress": 0}


def test_breakers_that_open_and_close(pump: PumpRunner, acme: Consumer, settings: Any) -> None:
    settings.BREAKER_FAILURES = 2
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    pump.run(transport=answering(500))
    assert figures()["webhooks_breaker_transitions_total to=open"] == 1
    lifecycle.pause(endpoint, reason="test")
    lifecycle.resume(endpoint, reason="test")
    assert figures()["webhooks_breaker_transitions_total to=closed"] == 1


def test_refused_addresses_by_reason(producer: Api, acme: Consumer, settings: Any) -> None:
    settings.DELIVERY_ALLOWED_NETWORKS = []
    body = {"url": "https://169.254.169.254/", "event_types": ["*"]}
    assert producer.post("consumers/acme/endpoints", body).status_code == 400
    assert figures()["webhooks_refused_addresses_total reason=address_not_allowed"] == 1


def test_replays_by_status(acme: Consumer) -> None:
    dead_letters(acme, 2, status_code=500)
    job = replay.start(replay.Filter(), consumer=acme, rate_per_second=None, requested_by="test")
    replay.cancel(job)
    replay.start(replay.Filter(), consumer=acme, rate_per_second=None, requested_by="test")
    while Replay.objects.filter(status="running").exists():
        replay.advance_all()
    found = figures()
    assert [found[f"webhooks_replays_total status={status}"] for status in ("running", "cancelled", "done")] == [
        2,
        1,
        1,
    ]


def test_what_is_owed_by_state(acme: Consumer, receiver: Receiver) -> None:
    paused, free = new_endpoint(acme, event_types=["a.b"]), new_endpoint(acme, event_types=["c.d"])
    accept(acme, 3, type="a.b")
    accept(acme, 2, type="c.d")
    lifecycle.pause(paused, reason="test")
    found = figures()
    assert found["webhooks_deliveries state=parked"] == 3
    assert found["webhooks_deliveries state=pending"] == 2
    assert found["webhooks_deliveries state=in_flight"] == 0
    assert found["webhooks_endpoints status=active"] == 1
    assert found["webhooks_endpoints status=paused"] == 1
    assert found["webhooks_oldest_due_seconds"] > 0
    lifecycle.pause(free, reason="test")
    assert figures()["webhooks_oldest_due_seconds"] == 0


def test_a_second_reading_within_the_same_moment_is_the_first_one(acme: Consumer, settings: Any) -> None:
    settings.METRICS_CACHE_SECONDS = 0
    before = scrape().content
    settings.METRICS_CACHE_SECONDS = 60
    accept(acme, 1)
    assert scrape().content == before
    settings.METRICS_CACHE_SECONDS = 0
    assert scrape().content != before


def test_what_is_rolled_back_was_not_counted(acme: Consumer) -> None:
    from django.db import transaction

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        deltas.count(deltas.BREAKER, "open")
        raise ZeroDivisionError
    assert figures()["webhooks_breaker_transitions_total to=open"] == 0
