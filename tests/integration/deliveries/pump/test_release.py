"""deliveries/pump/release.py and redact.py: secrets that do not open, and secrets that come back."""

import asyncio
import base64
import logging
from functools import partial

import pytest
from django.utils import timezone
from pytest_django import Settings

from deliveries.endpoint_tests.models import CheckUp
from deliveries.health.breaker import Breaker
from deliveries.models import Attempt, Delivery
from deliveries.pump.attempt import attempt
from deliveries.pump.release import LOCKED, PAUSE_SECONDS, release
from subscriptions import endpoints
from subscriptions.models import AuditEntry, Consumer, Lane
from tests.conftest import Api, PumpRunner
from tests.receiver import Receiver, Reply
from tests.walk import (
    accept,
    answered,
    answering,
    claim_for,
    new_endpoint,
    pass_time,
    settle_all,
    states,
    with_connection,
)

pytestmark = pytest.mark.django_db(transaction=True)

OTHER_KEY = "other:" + base64.b64encode(b"o" * 32).decode()
TOKEN = "Bearer tok_0123456789abcdef"


def test_a_missing_encryption_key_uses_up_no_attempt_and_everything_goes_out_once_it_is_back(
    acme: Consumer, receiver: Receiver, pump: PumpRunner, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, retry_schedule=[0])
    for _ in range(3):
        accept(acme)
    keys = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [OTHER_KEY]
    for _ in range(3):
        with caplog.at_level(logging.ERROR):
            pump.run()
        pass_time(seconds=40)

    assert states(endpoint) == ["pending"] * 3
    assert set(Delivery.objects.values_list("attempt_count", "round_base")) == {(0, 0)}
    assert not Attempt.objects.exists()
    assert receiver.received == []
    lane = Lane.objects.get(endpoint=endpoint)
    assert (lane.failure_count, lane.breaker_open) == (0, False)
    assert "delivery.secrets_locked" in caplog.messages
    assert any("ENCRYPTION_KEYS" in str(getattr(record, "fields", "")) for record in caplog.records)

    settings.ENCRYPTION_KEYS = [OTHER_KEY, *keys]
    pump.run()

    assert states(endpoint) == ["delivered"] * 3
    assert set(Attempt.objects.values_list("number", "status_code")) == {(1, 200)}
    assert {request.headers["webhook-attempt"] for request in receiver.received} == {"1"}


def test_with_a_missing_key_the_backlog_waits_behind_a_closed_lane_and_others_go_on(
    acme: Consumer, receiver: Receiver, pump: PumpRunner, settings: Settings
) -> None:
    locked = new_endpoint(acme, url=receiver.url, max_in_flight=2)
    keys = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [OTHER_KEY]
    well = new_endpoint(acme, url=receiver.url)
    for _ in range(20):
        accept(acme)

    pump.run()

    assert states(well) == ["delivered"] * 20
    assert states(locked) == ["pending"] * 20
    assert Delivery.objects.filter(endpoint=locked, attempt_count__gt=0).count() == 0
    settings.ENCRYPTION_KEYS = keys


def test_a_release_that_comes_again_does_not_touch_a_newer_claim_of_the_same_number(
    acme: Consumer, settings: Settings
) -> None:
    """Regression: its answer lost, a release was repeated after another worker had claimed the delivery anew."""
    endpoint = new_endpoint(acme)
    accept(acme)
    keys = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [OTHER_KEY]
    [first] = claim_for(endpoint).deliveries
    unsent = asyncio.run(attempt(first, transport=answering(), schedule=[0], user_agent="test", is_well=lambda _: True))
    settings.ENCRYPTION_KEYS = keys
    with_connection(partial(release, outcomes=[unsent]))
    assert states(endpoint) == ["pending"]
    pass_time(seconds=PAUSE_SECONDS[LOCKED])
    [newer] = claim_for(endpoint).deliveries
    assert newer.number == first.number

    with_connection(partial(release, outcomes=[unsent]))

    assert states(endpoint) == ["in_flight"]
    settle_all(answered(newer))
    assert states(endpoint) == ["delivered"]
    assert list(Attempt.objects.values_list("number", "status_code")) == [(1, 200)]


def test_with_a_missing_key_and_an_open_breaker_the_lane_closes_after_the_first_delivery(
    acme: Consumer, receiver: Receiver, pump: PumpRunner, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    accept(acme)
    [failing] = claim_for(endpoint).deliveries
    settle_all(answered(failing, 500), breaker=Breaker(failures=1, first_cooldown=10, longest_cooldown=100))
    assert Lane.objects.get(endpoint=endpoint).breaker_open
    accept(acme, 20)
    pass_time(seconds=3600)
    settings.ENCRYPTION_KEYS = [OTHER_KEY]

    with caplog.at_level(logging.ERROR):
        pump.run()

    assert caplog.messages.count("delivery.secrets_locked") == 1
    lane = Lane.objects.get(endpoint=endpoint)
    assert lane.breaker_open
    assert lane.opens_at > timezone.now()


def test_a_test_and_a_check_up_of_an_endpoint_whose_key_is_missing_are_answered(
    acme: Consumer, acme_api: Api, receiver: Receiver, settings: Settings
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    settings.ENCRYPTION_KEYS = [OTHER_KEY]
    before = AuditEntry.objects.count()

    answers = [acme_api.post(f"endpoints/{endpoint.public_id}/{what}/") for what in ("test", "check-up")]

    assert [answer.status_code for answer in answers] == [503, 503]
    assert receiver.received == []
    assert AuditEntry.objects.count() == before
    assert not CheckUp.objects.exists()


def test_s08_a_header_value_that_the_receiver_echoes_is_neither_stored_nor_shown(
    acme: Consumer, acme_api: Api, receiver: Receiver, pump: PumpRunner
) -> None:
    endpoint, secret = endpoints.create(consumer=acme, url=receiver.url, headers={"Authorization": TOKEN})
    receiver.answer = lambda received: Reply(
        status=400,
        headers={"X-Echo": received.headers["authorization"]},
        body=f"who is {TOKEN} or {TOKEN.split()[1]}, and {secret}?".encode(),
    )
    accept(acme)
    pump.run()
    tested = acme_api.post(f"endpoints/{endpoint.public_id}/test/").content
    checked = acme_api.post(f"endpoints/{endpoint.public_id}/check-up/").content

    delivery = Delivery.objects.get()
    shown = acme_api.get(f"deliveries/{delivery.public_id}/").content
    attempt = Attempt.objects.get()
    stored = bytes(attempt.response_body or b"") + str(attempt.response_headers).encode()
    stored += str(CheckUp.objects.get().report).encode()
    for text in (tested, checked, shown, stored):
        assert b"[redacted]" in text
        assert b"tok_0123456789abcdef" not in text
        assert secret.encode() not in text
    assert bytes(attempt.response_body or b"") == b"who is [redacted] or [redacted], and [redacted]?"


def test_s08_a_signing_secret_in_a_header_of_the_answer_is_not_stored(
    acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(consumer=acme, url=receiver.url)
    receiver.answer = lambda _: Reply(status=400, headers={"X-Echo": f"key {secret}"}, body=b"no")
    accept(acme)
    pump.run()

    stored = str(Attempt.objects.get().response_headers)
    assert "key [redacted]" in stored
    assert secret not in stored
