"""Any JSON a producer can send is refused whole, or stored exactly and received byte for byte as it was stored."""

import json
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from deliveries.models import Delivery, Event
from subscriptions import endpoints, keys
from subscriptions.models import Consumer, Role
from tests.conftest import Api, PumpRunner
from tests.json_strategies import ANY_JSON, GOOD_OBJECTS, exactly
from tests.ledger import ledger
from tests.receiver import Receiver


# The fixtures hold no state that one example could leave to the next, but for rows, which are told apart by id.
def bounded(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


TRICKY: dict[str, Any] = {
    "z": 1,
    "a": {"": {}, "[]": [], "[[]]": [[], [{}]]},
    "line separators": "\u2028\u2029",
    "emoji": "😀🏳️‍🌈 e\u0301",
    "markup": "</script>&\"'\\/",
    "controls": "\x01\x1f\x7f\ufeff",
    "integers": [2**53 + 1, 2**63, 2**64 - 1, -(2**63)],
    "floats": [0.1, 1e-7, 1e16, 1.7976931348623157e308, 5e-324, -0.0, 1.0],
    "__proto__": None,
}


class Producer:
    """Sends bytes as they are."""

    def __init__(self) -> None:
        self._client = Client(headers={"Authorization": f"Bearer {keys.issue(role=Role.PRODUCER)[1]}"})

    def emit(self, body: bytes) -> Any:
        return self._client.post("/api/v1/events/", body, content_type="application/json")


@pytest.fixture
def raw_producer(acme: Consumer) -> Producer:
    producer = Producer()
    assert producer.emit(b'{"consumer": "acme", "type": "any.json", "data": {}}').status_code == 202
    return producer


def stored(event_id: str) -> bytes:
    return bytes(Event.objects.get(producer_id=event_id).body or b"")


@pytest.mark.django_db
@bounded(100)
@given(ANY_JSON | GOOD_OBJECTS, st.booleans())
def test_any_data_is_refused_with_nothing_written_or_stored_exactly(
    raw_producer: Producer, data: Any, ascii_only: bool
) -> None:
    event_id = f"e-{Event.objects.count()}"
    event = {"id": event_id, "consumer": "acme", "type": "any.json", "data": data}
    before = ledger()

    answer = raw_producer.emit(json.dumps(event, ensure_ascii=ascii_only).encode(errors="surrogatepass"))

    if answer.status_code == 202:
        assert exactly(json.loads(stored(event_id))["data"]) == exactly(data)
        assert exactly(answer.json()["data"]) == exactly(data)
    else:
        assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
        assert answer.json()["code"] in {"invalid", "invalid_json"}
        assert ledger() == before


@pytest.mark.django_db
@bounded(60)
@given(st.dictionaries(st.sampled_from(["id", "consumer", "type", "data", "api_version", "ordering_key"]), ANY_JSON))
def test_any_object_in_place_of_an_event_is_refused_with_nothing_written(
    raw_producer: Producer, event: dict[str, Any]
) -> None:
    before = ledger()

    answer = raw_producer.emit(json.dumps(event).encode())

    # No such consumer is ever made up by chance.
    assert 400 <= answer.status_code < 500
    assert answer["Content-Type"] == "application/problem+json"
    assert ledger() == before


@pytest.mark.django_db
@bounded(60)
@given(GOOD_OBJECTS)
@example(TRICKY)
def test_good_data_is_taken_and_read_back_as_it_was_sent(raw_producer: Producer, data: dict[str, Any]) -> None:
    event_id = f"e-{Event.objects.count()}"

    answer = raw_producer.emit(
        json.dumps({"id": event_id, "consumer": "acme", "type": "any.json", "data": data}).encode()
    )

    assert answer.status_code == 202, answer.content
    assert exactly(json.loads(stored(event_id))["data"]) == exactly(data)


@pytest.mark.django_db(transaction=True)
@bounded(8)
@given(st.lists(GOOD_OBJECTS, min_size=1, max_size=12))
@example([TRICKY])
def test_w03_good_data_is_received_byte_for_byte_as_it_was_stored(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner, batch: list[dict[str, Any]]
) -> None:
    if not acme.endpoints.exists():
        endpoints.create(consumer=acme, url=receiver.url)
    receiver.received.clear()

    answer = producer.post(
        "events/batch/", {"events": [{"consumer": "acme", "type": "any.json", "data": data} for data in batch]}
    )
    delivered = pump.run()

    events = [result["event"]["id"] for result in answer.json()["results"]]
    received = {request.headers["Webhook-Id"]: request.body for request in receiver.received}
    assert (delivered, len(receiver.received)) == (len(batch), len(batch))
    assert received == {event.public_id: event.body for event in Event.objects.all() if event.public_id in events}
    sent = [json.loads(received[event_id])["data"] for event_id in events]
    assert [exactly(data) for data in sent] == [exactly(data) for data in batch]
    assert not Delivery.objects.exclude(state="delivered").exists()
