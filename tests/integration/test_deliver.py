"""deliveries/deliver.py with everything real: accepted over the API, claimed, signed, sent, settled."""

import pytest
import stripe
from standardwebhooks import Webhook

from deliveries.models import Attempt, Delivery
from subscriptions import endpoints
from subscriptions.models import Consumer
from tests.conftest import Api, PumpRunner
from tests.receiver import Receiver, Reply

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999, "note": "Grüße 🎉\u2028"}}


def test_w02_a_delivery_verifies_with_stripe_and_its_attempt_is_recorded(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url)
    event = producer.post("events/", EVENT).json()

    assert pump.run() == 1

    [received] = receiver.received
    assert stripe.WebhookSignature.verify_header(
        received.body.decode(), received.headers["Webhook-Signature"], secret, tolerance=5
    )
    assert received.headers["Webhook-Id"] == event["id"]
    assert received.headers["Webhook-Attempt"] == "1"
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count) == ("delivered", 1)
    attempt = Attempt.objects.get()
    assert (attempt.number, attempt.status_code, attempt.error_kind) == (1, 200, None)
    shown = producer.get(f"deliveries/{delivery.public_id}/").json()
    assert shown["attempts"][0]["response_body"] == "ok"


def test_w02_a_standard_endpoint_verifies_with_standardwebhooks(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url, signature_scheme="standard")
    producer.post("events/", EVENT)

    pump.run()

    [received] = receiver.received
    headers = {name.lower(): value for name, value in received.headers.items()}
    assert Webhook(secret).verify(received.body, headers)["data"] == EVENT["data"]


def test_a_failed_attempt_is_due_again_after_the_schedules_wait(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    receiver.answer = lambda received: Reply(status=500)
    endpoints.create(consumer=acme, url=receiver.url)
    producer.post("events/", EVENT)

    assert pump.run() == 0

    delivery = Delivery.objects.get()
    attempt = Attempt.objects.get()
    assert (delivery.state, delivery.attempt_count, attempt.error_kind) == ("pending", 1, "http_500")
    wait = (delivery.due_at - attempt.started_at).total_seconds()
    assert 60 * 0.8 <= wait <= 60 * 1.2 + 1


def test_w13_the_last_attempt_fails_and_the_delivery_is_dead(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    receiver.answer = lambda received: Reply(status=503)
    endpoints.create(consumer=acme, url=receiver.url, retry_schedule=[0, 0, 0])
    producer.post("events/", EVENT)

    pump.run()

    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count, delivery.dead_reason) == ("dead", 3, "attempts_exhausted")
    assert len(receiver.received) == 3
    assert [received.headers["Webhook-Attempt"] for received in receiver.received] == ["1", "2", "3"]
