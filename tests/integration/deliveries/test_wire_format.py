"""What goes on the wire, whoever sends it: header names in lower case, and a body that says when it happened (W16)."""

from datetime import UTC, datetime
from email.message import Message
from typing import Any

import orjson
import pytest
import stripe
from standardwebhooks import Webhook

from deliveries import ingest
from deliveries.endpoint_tests import check_up, test_event
from deliveries.ingest import Accepted, Duplicate, NewEvent
from deliveries.models import Attempt, Event
from subscriptions import endpoints
from subscriptions.models import Consumer
from tests.conftest import Api, PumpRunner
from tests.receiver import Received, Receiver
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

OURS = [
    *("host", "content-type", "user-agent", "webhook-id", "webhook-timestamp", "webhook-signature"),
    *("webhook-attempt", "idempotency-key"),
]
CLIENT_S = ["accept", "accept-encoding", "content-length"]
EVENT: dict[str, Any] = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4711}}
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OCCURRED = "2026-01-31T12:00:00+02:00"
SHOWN = "2026-01-31T10:00:00.000000Z"


def names(headers: Message) -> list[str]:
    """As they came: only looking one up ignores upper and lower case."""
    return list(headers.keys())


def body(received: Received) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(received.body)
    return found


# Header names


def test_w16_header_names_go_out_in_lower_case_and_custom_ones_as_they_were_given(
    producer: Api, acme: Consumer, acme_api: Api, receiver: Receiver, pump: PumpRunner
) -> None:
    new_endpoint(acme, url=receiver.url, headers={"X-Api-KEY": "s3cret", "authorization": "Bearer x"})
    producer.post("events/", EVENT, headers={"traceparent": PARENT})
    pump.run()

    [received] = receiver.received
    assert names(received.headers) == [*OURS, "traceparent", "X-Api-KEY", "authorization", *CLIENT_S]
    assert received.headers["traceparent"] == PARENT
    [attempt] = Attempt.objects.all()
    assert [name for name, _ in attempt.request_headers] == [*OURS[1:], "traceparent", "X-Api-KEY", "authorization"]
    [shown] = acme_api.get(f"deliveries/{attempt.delivery.public_id}/").json()["attempts"]
    assert shown["request_headers"] == attempt.request_headers


def test_w16_tests_and_check_ups_have_the_same_names_and_a_test_its_mark(acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    test_event.run(endpoint)
    check_up.run(endpoint)
    assert len(receiver.received) == 5
    # A check-up looks like any delivery: a receiver must not treat it otherwise.
    usual = [*OURS, *CLIENT_S]
    assert [names(each.headers) for each in receiver.received] == [[*OURS, "webhook-test", *CLIENT_S], *[usual] * 4]


# The body


def test_w16_the_body_says_when_it_was_accepted_if_nobody_says_when_it_happened(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    new_endpoint(acme, url=receiver.url)
    answer = producer.post("events/", EVENT).json()
    pump.run()
    [received] = receiver.received
    assert list(body(received)) == ["id", "type", "created_at", "timestamp", "api_version", "data"]
    assert body(received)["timestamp"] == body(received)["created_at"] == answer["created_at"]
    assert answer["occurred_at"] is None


@pytest.mark.parametrize("extra", [{}, {"id": "inv-1"}, {"ordering_key": "inv"}])
@pytest.mark.parametrize("in_batch", [False, True])
def test_w16_the_body_says_when_it_happened_by_every_way_in(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner, extra: dict[str, str], in_batch: bool
) -> None:
    new_endpoint(acme, url=receiver.url)
    event = {**EVENT, **extra, "occurred_at": OCCURRED}
    for _ in range(2):  # the long way first, then what is remembered
        if in_batch:
            found = producer.post("events/batch/", {"events": [event, EVENT]})
        else:
            found = producer.post("events/", event)
        assert found.status_code in (200, 202), found.content
        if "id" in event:
            event["id"] += "-again"
    pump.run()

    given = [body(each) for each in receiver.received if body(each)["timestamp"] == SHOWN]
    assert len(given) == 2
    assert len(receiver.received) == (4 if in_batch else 2)
    more = ["ordering_key", "sequence"] if "ordering_key" in extra else []
    for each in given:
        assert list(each) == ["id", "type", "created_at", "timestamp", "api_version", "data", *more]
        assert each["created_at"] != SHOWN
        assert producer.get(f"events/{each['id']}/").json()["occurred_at"] == SHOWN


def test_w16_thin_bodies_tests_and_check_ups_have_it_too(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, payload_mode="thin")
    producer.post("events/", {**EVENT, "occurred_at": OCCURRED})
    pump.run()
    assert list(body(receiver.received[0])) == ["id", "type", "created_at", "timestamp", "api_version"]
    assert body(receiver.received[0])["timestamp"] == SHOWN
    test_event.run(endpoint)
    check_up.run(endpoint)
    for each in receiver.received[1:]:
        assert list(body(each)) == ["id", "type", "created_at", "timestamp", "api_version", "data"]
        assert body(each)["timestamp"] == body(each)["created_at"]


def test_an_event_of_before_the_body_had_a_timestamp_is_still_known_by_its_id(acme: Consumer) -> None:
    new = NewEvent(consumer="acme", type="a.b", data={"n": 1}, producer_id="inv-1")
    [first] = ingest.accept([new], now=datetime.now(UTC)).results
    assert isinstance(first, Accepted)
    old = orjson.loads(first.event.body)
    del old["timestamp"]
    Event.objects.update(body=orjson.dumps(old))

    [again] = ingest.accept([new], now=datetime.now(UTC)).results
    assert isinstance(again, Duplicate)
    [other] = ingest.accept([new._replace(occurred_at=datetime.now(UTC))], now=datetime.now(UTC)).results
    assert isinstance(other, ingest.RefusedEvent)


# What official libraries say


def test_w16_official_libraries_verify_what_went_out(acme: Consumer, receiver: Receiver, pump: PumpRunner) -> None:
    secrets = {
        scheme: endpoints.create(consumer=acme, url=f"{receiver.url}/{scheme}", signature_scheme=scheme)[1]
        for scheme in ("timestamped", "standard")
    }
    accept(acme)
    pump.run()

    by_path = {each.path.rpartition("/")[2]: each for each in receiver.received}
    sent = by_path["timestamped"]
    assert stripe.WebhookSignature.verify_header(
        sent.body.decode(), sent.headers["webhook-signature"], secrets["timestamped"], tolerance=300
    )
    # A plain dict: names in lower case are the only ones that are found, as with PHP's library.
    sent = by_path["standard"]
    found = Webhook(secrets["standard"]).verify(sent.body, dict(sent.headers.items()))
    assert found["timestamp"] == found["created_at"]
