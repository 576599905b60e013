"""Deliveries in each form of CloudEvents: read by its SDK, signed as any other, the same for every attempt."""

from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

from deliveries.endpoint_tests import check_up, test_event
from deliveries.models import Attempt
from deliveries.pages import story
from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint
from subscriptions.signing.schemes import HeaderTaken
from tests.conftest import Api, PumpRunner
from tests.receiver import Received, Receiver, Reply
from tests.walk import accept, new_endpoint, pass_time

pytestmark = pytest.mark.django_db(transaction=True)

MODES = ["cloudevents", "cloudevents_binary"]


def read(received: Received) -> Any:
    return from_http_event(HTTPMessage(headers=dict(received.headers.items()), body=received.body))


@pytest.mark.parametrize("mode", MODES)
def test_a_delivery_is_a_cloud_event_with_a_signature_that_verifies(
    mode: str, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(
        consumer=acme, url=receiver.url, payload_mode=mode, signature_scheme="standard", headers={"X-Own": "1"}
    )
    [event] = accept(acme, ordering_key="account 5%")
    pump.run()
    [received] = receiver.received
    found = read(received)

    assert (found.get_id(), found.get_type()) == (event.public_id, "invoice.paid")
    assert found.get_source() == f"/webhooks/consumers/{acme.public_id}"
    assert (found.get_data(), found.get_extension("partitionkey")) == ({"number": 0}, "account 5%")
    assert found.get_extension("sequence") == "1"
    assert received.headers["x-own"] == "1"
    Webhook(secret).verify(received.body, {name.lower(): value for name, value in received.headers.items()})


@pytest.mark.parametrize("mode", [*MODES, "thin"])
def test_each_attempt_carries_the_same_bytes_and_pages_show_them(
    mode: str, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, payload_mode=mode, retry_schedule=[0, 60])
    receiver.answer = lambda _: Reply(500 if len(receiver.received) == 1 else 200)
    [event] = accept(acme)
    pump.run()
    pass_time(minutes=2)
    pump.run()

    first, second = receiver.received
    assert first.body == second.body == story.sent_body(event.body, Endpoint.objects.get(id=endpoint.id))
    assert Attempt.objects.count() == 2


@pytest.mark.parametrize("mode", MODES)
def test_tests_and_check_ups_come_in_the_endpoints_form(mode: str, acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, payload_mode=mode)
    test_event.run(endpoint)
    check_up.run(endpoint)

    assert [read(each).get_type() for each in receiver.received] == ["webhook.test"] + ["webhook.check_up"] * 4
    amounts = [read(each).get_data().get("amount") for each in receiver.received]
    assert amounts == [None, 10.0, 9999.5, 10.0, 10.0]


def test_custom_headers_are_no_attributes_of_a_binary_cloud_event(operator: Api, acme: Consumer) -> None:
    fields: dict[str, Any] = {"url": "https://receiver.test/", "headers": {"CE_Id": "mine"}}
    with pytest.raises(HeaderTaken):
        endpoints.create(consumer=acme, payload_mode="cloudevents_binary", **fields)
    endpoint, _ = endpoints.create(consumer=acme, payload_mode="cloudevents", **fields)

    refused = operator.patch(f"endpoints/{endpoint.public_id}", {"payload_mode": "cloudevents_binary"})

    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/headers")
    assert Endpoint.objects.get().payload_mode == "cloudevents"
