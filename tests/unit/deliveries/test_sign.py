"""deliveries/sign.py: what a receiver sees, checked by libraries we did not write and by the standard's own vector."""

import base64
import hashlib
import hmac
import time

import orjson
import pytest
import stripe
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from deliveries import sign

EVENT_ID = "evt_01jcx0000000000000000000001"
# As `endpoints.new_secret` makes them: 32 bytes.
SECRETS = st.binary(min_size=32, max_size=32).map(lambda raw: "whsec_" + base64.b64encode(raw).decode())
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
# standardwebhooks reads what it has verified as JSON, which is all we ever send.
BODIES = st.dictionaries(TEXTS, TEXTS | st.floats(allow_nan=False) | st.integers(0, 2**64 - 1)).map(orjson.dumps)

OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()


def signature(*, scheme: str, secrets: list[str], body: bytes = b"{}", timestamp: int = 1_700_000_000) -> str:
    return sign.signature(scheme=scheme, secrets=secrets, event_id=EVENT_ID, timestamp=timestamp, body=body)


def verifies_with_stripe(header: str, *, body: bytes, secret: str) -> bool:
    try:
        return bool(stripe.WebhookSignature.verify_header(body.decode(), header, secret, tolerance=60))
    except stripe.SignatureVerificationError:
        return False


def verifies_with_standardwebhooks(header: str, *, body: bytes, secret: str, timestamp: int) -> bool:
    headers = {"webhook-id": EVENT_ID, "webhook-timestamp": str(timestamp), "webhook-signature": header}
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def test_w14_the_vector_of_standard_webhooks_gives_its_published_signature() -> None:
    signed = sign.signature(
        scheme="standard",
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        event_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_timestamped_signature_is_the_hex_hmac_of_timestamp_dot_body_under_the_whole_secret() -> None:
    expected = hmac.new(OLD.encode(), b'1700000000.{"a":1}', hashlib.sha256).hexdigest()

    assert signature(scheme="timestamped", secrets=[OLD], body=b'{"a":1}') == f"t=1700000000,v1={expected}"


def test_two_secrets_give_a_timestamped_header_two_signatures_new_first() -> None:
    [new], [old] = (signature(scheme="timestamped", secrets=[secret]).split(",")[1:] for secret in (NEW, OLD))

    assert signature(scheme="timestamped", secrets=[NEW, OLD]) == f"t=1700000000,{new},{old}"


def test_two_secrets_give_a_standard_header_two_signatures_new_first() -> None:
    new, old = (signature(scheme="standard", secrets=[secret]) for secret in (NEW, OLD))

    assert signature(scheme="standard", secrets=[NEW, OLD]) == f"{new} {old}"


@settings(deadline=None)
@given(body=BODIES, new=SECRETS, old=SECRETS)
def test_w02_stripe_verifies_every_body_with_either_secret_of_a_rotation(body: bytes, new: str, old: str) -> None:
    header = signature(scheme="timestamped", secrets=[new, old], body=body, timestamp=int(time.time()))

    assert verifies_with_stripe(header, body=body, secret=new)
    assert verifies_with_stripe(header, body=body, secret=old)


@settings(deadline=None)
@given(body=BODIES, new=SECRETS, old=SECRETS)
def test_w02_standardwebhooks_verifies_every_body_with_either_secret_of_a_rotation(
    body: bytes, new: str, old: str
) -> None:
    now = int(time.time())
    header = signature(scheme="standard", secrets=[new, old], body=body, timestamp=now)

    assert verifies_with_standardwebhooks(header, body=body, secret=new, timestamp=now)
    assert verifies_with_standardwebhooks(header, body=body, secret=old, timestamp=now)


@settings(deadline=None)
@given(body=BODIES, secret=SECRETS, position=st.integers(min_value=0))
def test_a_body_with_one_space_more_verifies_with_neither_scheme(body: bytes, secret: str, position: int) -> None:
    now = int(time.time())
    text = body.decode()
    cut = position % (len(text) + 1)
    tampered = (text[:cut] + " " + text[cut:]).encode()

    timestamped = signature(scheme="timestamped", secrets=[secret], body=body, timestamp=now)
    standard = signature(scheme="standard", secrets=[secret], body=body, timestamp=now)

    assert not verifies_with_stripe(timestamped, body=tampered, secret=secret)
    assert not verifies_with_standardwebhooks(standard, body=tampered, secret=secret, timestamp=now)


@pytest.mark.parametrize("scheme", ["timestamped", "standard"])
def test_another_endpoints_secret_does_not_verify(scheme: str) -> None:
    now = int(time.time())
    header = signature(scheme=scheme, secrets=[NEW], timestamp=now)

    assert not verifies_with_stripe(header, body=b"{}", secret=OLD)
    assert not verifies_with_standardwebhooks(header, body=b"{}", secret=OLD, timestamp=now)


def test_an_attempt_carries_these_headers_and_custom_ones_after_them() -> None:
    headers = sign.headers(
        scheme="timestamped",
        secrets=[NEW],
        event_id=EVENT_ID,
        timestamp=1_700_000_000,
        attempt=3,
        body=b"{}",
        user_agent="webhooks-platform/1",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        custom=[("Authorization", "Bearer x")],
    )

    assert headers == [
        ("content-type", "application/json"),
        ("user-agent", "webhooks-platform/1"),
        ("webhook-id", EVENT_ID),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", signature(scheme="timestamped", secrets=[NEW])),
        ("webhook-attempt", "3"),
        ("idempotency-key", EVENT_ID),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("Authorization", "Bearer x"),
    ]


def test_without_a_traceparent_none_is_sent() -> None:
    headers = sign.headers(
        scheme="standard",
        secrets=[NEW],
        event_id=EVENT_ID,
        timestamp=1,
        attempt=1,
        body=b"{}",
        user_agent="x",
        traceparent=None,
        custom=[],
    )

    assert "traceparent" not in dict(headers)
