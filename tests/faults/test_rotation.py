"""W06 under load: two workers send while a secret is rotated and the consumer switches halfway through the overlap.

ROTATION_COUNT says how many events each of the three phases has.
"""

import os
import threading

import pytest
import stripe
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from deliveries.models import Delivery
from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint
from tests.conftest import Api
from tests.local import wait_until
from tests.receiver import Received, Receiver, Reply
from tests.stack import StartStack

COUNT = int(os.environ.get("ROTATION_COUNT", "300"))

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


class Verifier:
    """A consumer that holds one secret and takes nothing that it cannot verify."""

    def __init__(self, scheme: str, secret: str) -> None:
        self._scheme = scheme
        self._lock = threading.Lock()
        self.secret = secret
        self.unverified: list[str] = []
        # Requests by the number of signatures they carried.
        self.verified = {1: 0, 2: 0}

    def switch(self, secret: str) -> None:
        with self._lock:
            self.secret = secret

    def answer(self, received: Received) -> Reply:
        signature = received.headers["Webhook-Signature"]
        with self._lock:
            if self._scheme == "standard":
                verified, count = self._standard(received), len(signature.split(" "))
            else:
                verified, count = self._timestamped(received), signature.count("v1=")
            if not verified:
                self.unverified.append(signature)
                return Reply(status=401)
            self.verified[count] += 1
            return Reply()

    def _standard(self, received: Received) -> bool:
        try:
            Webhook(self.secret).verify(
                received.body, {name.lower(): value for name, value in received.headers.items()}
            )
        except WebhookVerificationError:
            return False
        return True

    def _timestamped(self, received: Received) -> bool:
        header = received.headers["Webhook-Signature"]
        try:
            stripe.WebhookSignature.verify_header(received.body.decode(), header, self.secret)
        except stripe.SignatureVerificationError:
            return False
        return True


@pytest.mark.parametrize("scheme", ["timestamped", "standard"])
def test_w06_a_consumer_that_switches_during_the_overlap_never_sees_a_request_it_cannot_verify(
    producer: Api, acme_api: Api, acme: Consumer, receiver: Receiver, start_stack: StartStack, scheme: str
) -> None:
    endpoint, old = endpoints.create(consumer=acme, url=receiver.url, signature_scheme=scheme, max_in_flight=50)
    consumer = Verifier(scheme, old)
    receiver.answer = consumer.answer
    start_stack("deliveries1", "deliveries2", "background", "beat")

    emit(producer)
    receiver.wait_for(COUNT // 3, seconds=60)
    new = acme_api.post(f"endpoints/{endpoint.public_id}/rotate-secret/", {"overlap_seconds": 3600}).json()["secret"]
    under_way = in_flight(endpoint)
    emit(producer)
    wait_until(lambda: consumer.verified[2] > COUNT // 3, seconds=60)
    # An hour of overlap is long enough for whatever was signed before the rotation; so is this.
    wait_until(lambda: not under_way & in_flight(endpoint), seconds=60)
    consumer.switch(new)
    emit(producer)
    wait_until(lambda: not Delivery.objects.exclude(state="delivered").exists(), seconds=60)

    assert consumer.unverified == []
    assert sum(consumer.verified.values()) == len(receiver.received) == 3 * COUNT


def emit(producer: Api) -> None:
    events = [{"consumer": "acme", "type": "load.test", "data": {"number": number}} for number in range(COUNT)]
    assert producer.post("events/batch/", {"events": events}).status_code == 202


def in_flight(endpoint: Endpoint) -> set[tuple[object, int]]:
    return set(Delivery.objects.filter(endpoint=endpoint, state="in_flight").values_list("id", "attempt_count"))
