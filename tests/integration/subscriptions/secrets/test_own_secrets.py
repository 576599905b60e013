"""An endpoint with a secret that its receiver holds already: it signs, it fits its scheme, and nothing shows it."""

import base64

import pytest
import stripe
from standardwebhooks import Webhook

from deliveries.models import Attempt
from subscriptions.models import AuditEntry, Consumer, Endpoint, IdempotencyRecord
from tests.conftest import Api, PumpRunner
from tests.forms import form_to
from tests.ledger import ledger
from tests.portal import inside
from tests.receiver import Receiver, Reply
from tests.walk import accept

pytestmark = pytest.mark.django_db(transaction=True)

OWN = "legacy secret/of-1999 ~ 'quoted'"
STANDARD = "whsec_" + base64.b64encode(bytes(range(24))).decode()


def create(api: Api, receiver: Receiver, **fields: object) -> Endpoint:
    answer = api.post("consumers/acme/endpoints/", {"url": receiver.url, **fields})
    assert answer.status_code == 201, answer.content
    assert answer.json()["secret"] is None
    return Endpoint.objects.get()


def test_a_delivery_verifies_with_the_secret_that_was_brought(
    acme: Consumer, acme_api: Api, receiver: Receiver, pump: PumpRunner
) -> None:
    create(acme_api, receiver, secret=OWN)
    accept(acme)
    pump.run()
    [received] = receiver.received
    stripe.WebhookSignature.verify_header(received.body.decode(), received.headers["webhook-signature"], OWN, 300)


def test_a_standard_secret_that_was_brought_verifies_with_the_official_library(
    acme: Consumer, acme_api: Api, receiver: Receiver, pump: PumpRunner
) -> None:
    create(acme_api, receiver, secret=STANDARD, signature_scheme="standard")
    accept(acme)
    pump.run()
    [received] = receiver.received
    Webhook(STANDARD).verify(received.body.decode(), dict(received.headers))


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [
        ("timestamped", "x" * 15),
        ("timestamped", "x" * 257),
        ("timestamped", ""),
        ("timestamped", "sixteen or more\n"),
        ("timestamped", "geheime Schlüssel"),
        ("timestamped", None),
        ("timestamped", 1234567890123456),
        ("standard", OWN),
        ("standard", STANDARD.removeprefix("whsec_")),
        ("standard", "whsec_" + base64.b64encode(bytes(23)).decode()),
        ("standard", "whsec_" + base64.b64encode(bytes(65)).decode()),
        ("standard", "whsec_not base64, at all"),
    ],
)
def test_a_secret_that_cannot_sign_is_refused_and_nothing_is_written(
    acme: Consumer, acme_api: Api, receiver: Receiver, scheme: str, secret: object
) -> None:
    before = ledger()
    body = {"url": receiver.url, "signature_scheme": scheme, "secret": secret}
    answer = acme_api.post("consumers/acme/endpoints/", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/secret"]
    if isinstance(secret, str) and secret:
        assert secret not in answer.json()["errors"][0]["detail"]
    assert (ledger(), Endpoint.objects.count()) == (before, 0)


def test_a_secret_is_no_field_of_a_change(acme: Consumer, acme_api: Api, receiver: Receiver) -> None:
    endpoint = create(acme_api, receiver, secret=OWN)
    answer = acme_api.patch(f"endpoints/{endpoint.public_id}/", {"secret": OWN})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")


def test_the_scheme_stays_where_the_secret_would_not_fit_the_new_one(
    acme: Consumer, acme_api: Api, receiver: Receiver
) -> None:
    endpoint = create(acme_api, receiver, secret=OWN)
    answer = acme_api.patch(f"endpoints/{endpoint.public_id}/", {"signature_scheme": "standard"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/signature_scheme")
    visitor, path = inside(acme), f"/portal/endpoints/{endpoint.public_id}/edit/"
    filled = form_to(visitor.get(path), "").values
    page = visitor.post(path, {**filled, "signature_scheme": "standard"})
    assert page.status_code == 400
    assert "needs a secret of its own form" in page.content.decode()
    endpoint.refresh_from_db()
    assert endpoint.signature_scheme == "timestamped"


def test_a_rotation_to_ones_own_secret_signs_with_both(
    acme: Consumer, acme_api: Api, receiver: Receiver, pump: PumpRunner
) -> None:
    old = acme_api.post("consumers/acme/endpoints/", {"url": receiver.url}).json()["secret"]
    endpoint = Endpoint.objects.get()
    answer = acme_api.post(f"endpoints/{endpoint.public_id}/rotate-secret/", {"secret": OWN})
    assert (answer.status_code, answer.json()["secret"]) == (200, None)
    accept(acme)
    pump.run()
    [received] = receiver.received
    for secret in (OWN, old):
        stripe.WebhookSignature.verify_header(
            received.body.decode(), received.headers["webhook-signature"], secret, 300
        )


def test_what_is_repeated_with_its_idempotency_key_shows_no_secret_either(
    acme: Consumer, acme_api: Api, receiver: Receiver
) -> None:
    body = {"url": receiver.url, "secret": OWN}
    answers = [
        acme_api.post("consumers/acme/endpoints/", body, headers={"Idempotency-Key": "move-1"}) for _ in range(2)
    ]
    assert [answer.json()["secret"] for answer in answers] == [None, None]
    assert (Endpoint.objects.count(), IdempotencyRecord.objects.count()) == (1, 1)
    assert all(OWN.encode() not in answer.content for answer in answers)
    assert OWN not in str(list(AuditEntry.objects.values()))


def test_s08_a_secret_that_was_brought_and_is_echoed_is_not_stored(
    acme: Consumer, acme_api: Api, receiver: Receiver, pump: PumpRunner
) -> None:
    create(acme_api, receiver, secret=OWN)
    receiver.answer = lambda _: Reply(status=400, headers={"X-Echo": f"key {OWN}"}, body=f"is it {OWN}?".encode())
    accept(acme)
    pump.run()
    attempt = Attempt.objects.get()
    assert bytes(attempt.response_body or b"") == b"is it [redacted]?"
    assert OWN not in str(attempt.response_headers)
