"""Live deliveries of every ready-made profile, verified by the vendor's own code, with one secret and with two."""

import json
import time
from collections.abc import Callable, Mapping

import pytest
import stripe
from slack_sdk.signature import SignatureVerifier
from standardwebhooks import Webhook, WebhookVerificationError

from subscriptions import endpoints
from subscriptions.models import Consumer
from tests.conftest import PumpRunner
from tests.receiver import Receiver
from tests.vendors import node
from tests.walk import accept

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

Verifies = Callable[[Mapping[str, str], bytes, str], bool]


def by_stripe(name: str) -> Verifies:
    def verifies(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
        try:
            return bool(stripe.WebhookSignature.verify_header(body.decode(), headers[name], secret, tolerance=300))
        except stripe.SignatureVerificationError:
            return False

    return verifies


def by_standardwebhooks(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    try:
        Webhook(secret).verify(body, dict(headers))
    except WebhookVerificationError:
        return False
    return True


def by_slack(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    return SignatureVerifier(secret).is_valid_request(body, dict(headers))


def by_node(vendor: str) -> Verifies:
    return lambda headers, body, secret: node.verifies(vendor, secret=secret, headers=headers, body=body)


# How the vendor's code verifies, and the header that it looks at.
VENDORS: dict[str, tuple[Verifies, str]] = {
    "timestamped": (by_stripe("webhook-signature"), "webhook-signature"),
    "standard": (by_standardwebhooks, "webhook-signature"),
    "stripe": (by_stripe("stripe-signature"), "stripe-signature"),
    "slack": (by_slack, "x-slack-signature"),
    "github": (by_node("github"), "x-hub-signature-256"),
    "shopify": (by_node("shopify"), "x-shopify-hmac-sha256"),
}
# What Shopify's library wants to see besides; endpoints send such headers as their own.
OWN_HEADERS = {
    "shopify": {"x-shopify-shop-domain": "globex.myshopify.com", "x-shopify-api-version": "2025-07"},
}


@pytest.mark.parametrize("scheme", VENDORS)
def test_the_vendors_code_verifies_a_delivery_with_one_secret_and_with_two(
    scheme: str, acme: Consumer, pump: PumpRunner, receiver: Receiver
) -> None:
    verifies, header = VENDORS[scheme]
    endpoint, old = endpoints.create(
        consumer=acme, url=receiver.url, signature_scheme=scheme, headers=OWN_HEADERS.get(scheme)
    )

    def delivered() -> tuple[dict[str, str], bytes]:
        accept(acme)
        pump.run()
        received = receiver.received[-1]
        return {name.lower(): value for name, value in received.headers.items()}, received.body

    headers, body = delivered()
    other = "whsec_" + "b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI="
    assert [verifies(headers, body, secret) for secret in (old, other)] == [True, False]
    assert verifies(headers, body.replace(b'"number":0', b'"number":9'), old) is False
    assert headers["idempotency-key"] == json.loads(body)["id"]

    new = endpoints.rotate_secret(endpoint, overlap_seconds=3600).secret
    headers, body = delivered()
    assert verifies(headers, body, old) is True
    # Where a single signature is read, the new secret's is in a header beside it, until the overlap ends.
    following = {**headers, header: headers.get(f"{header}-next", headers[header])}
    assert verifies(following, body, new) is True

    endpoints.expire_previous_secret(endpoint)
    headers, body = delivered()
    assert [verifies(headers, body, secret) for secret in (new, old)] == [True, False]


def test_slack_refuses_the_same_request_six_minutes_later(acme: Consumer, pump: PumpRunner, receiver: Receiver) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url, signature_scheme="slack")
    accept(acme)
    pump.run()
    received = receiver.received[-1]
    headers = {name.lower(): value for name, value in received.headers.items()}

    class Later:
        def now(self) -> float:
            return time.time() + 360

    assert SignatureVerifier(secret, clock=Later()).is_valid_request(received.body, headers) is False  # type: ignore[arg-type]
