"""The line of the secret page that turns to "verified"."""

import hashlib
import hmac

import pytest
from django.test import Client

from deliveries.endpoint_tests import check_up
from deliveries.endpoint_tests.models import CheckUp
from subscriptions import consumers, endpoints
from subscriptions.models import Consumer, Endpoint
from tests.portal import inside
from tests.receiver import Received, Receiver, Reply
from tests.walk import new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)


def rotated(visitor: Client, endpoint: Endpoint) -> str:
    """The new secret, from the page that shows it."""
    answer = visitor.post(f"/portal/endpoints/{endpoint.public_id}/rotate-secret/", {"force": "yes"}, follow=True)
    assert b"not verified yet" in answer.content
    secret: str = answer.context["shown"]["secret"]
    return secret


def verifies_with(secret: str) -> object:
    def answer(received: Received) -> Reply:
        parts = [part.split("=", 1) for part in received.headers["webhook-signature"].split(",")]
        signed = parts[0][1].encode() + b"." + received.body
        good = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return Reply(200 if good in [value for name, value in parts if name == "v1"] else 401)

    return answer


def line(visitor: Client, endpoint: Endpoint) -> str:
    return " ".join(visitor.get(f"/portal/endpoints/{endpoint.public_id}/verified/").content.decode().split())


def test_it_says_verified_once_a_genuine_request_was_taken_and_a_forged_one_refused(
    acme: Consumer, receiver: Receiver
) -> None:
    endpoint, visitor = new_endpoint(acme, url=receiver.url), inside(acme)
    receiver.answer = verifies_with(rotated(visitor, endpoint))  # type: ignore[assignment]
    before = line(visitor, endpoint)

    visitor.post(f"/portal/endpoints/{endpoint.public_id}/check-up/")

    after = line(visitor, endpoint)
    assert 'data-state=""' in before
    assert "data-every" in before
    assert 'data-state="verified"' in after
    assert "data-every" not in after, "nothing asks any more"
    assert "<form" not in after
    assert "<html" not in after


def test_a_receiver_that_takes_everything_is_told_what_is_wrong(acme: Consumer, receiver: Receiver) -> None:
    endpoint, visitor = new_endpoint(acme, url=receiver.url), inside(acme)

    visitor.post(f"/portal/endpoints/{endpoint.public_id}/check-up/")

    assert 'data-state="rejects_tampering"' in line(visitor, endpoint)


def test_a_check_up_from_before_the_current_secret_counts_for_nothing(acme: Consumer, receiver: Receiver) -> None:
    endpoint, secret = endpoints.create(consumer=acme, url=receiver.url)
    receiver.answer = verifies_with(secret)  # type: ignore[assignment]
    visitor = inside(acme)
    check_up.run(endpoint)
    assert 'data-state="verified"' in line(visitor, endpoint)

    rotated(visitor, endpoint)

    assert 'data-state=""' in line(visitor, endpoint)


def test_the_line_of_somebody_elses_endpoint_is_not_there(acme: Consumer) -> None:
    theirs = new_endpoint(consumers.create(uid="globex"))
    answer = inside(acme).get(f"/portal/endpoints/{theirs.public_id}/verified/")
    assert (answer.status_code, CheckUp.objects.count()) == (404, 0)
