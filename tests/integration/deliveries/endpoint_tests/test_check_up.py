"""Check-ups of real receivers on real sockets. How fast they answer is this machine's business and never asserted."""

import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import standardwebhooks
from pytest_django import Settings

from deliveries.actions import holds
from deliveries.endpoint_tests import check_up
from deliveries.endpoint_tests.models import CheckUp
from subscriptions import endpoints
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry, Consumer
from tests.conftest import Api
from tests.console import logged_in
from tests.ledger import ledger
from tests.local import free_port, wait_until
from tests.receiver import Received, Receiver, Reply
from tests.walk import answering, new_endpoint, pass_time
from webhooks_platform.local import reach
from webhooks_platform.local.environment import BASE_DIR

pytestmark = pytest.mark.django_db

Verify = Callable[[Received], bool]
# The report, who asked for it, and the place that the check-up had while it ran.
BESIDE = {"subscriptions_checkup", "subscriptions_auditentry", "deliveries_trialslot"}


def verifies(secret: str, *, tolerance: float = 300, reserialise: bool = False) -> Verify:
    """A receiver's check of the `timestamped` scheme, with the mistakes people make."""

    def verify(received: Received) -> bool:
        timestamp, given = received.headers["Webhook-Signature"].removeprefix("t=").split(",v1=", 1)
        body = json.dumps(json.loads(received.body), separators=(",", ":")).encode() if reserialise else received.body
        expected = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
        return expected == given and abs(time.time() - int(timestamp)) <= tolerance

    return verify


def checks_with(receiver: Receiver, verify: Verify) -> None:
    receiver.answer = lambda received: Reply(200 if verify(received) else 401)


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    """All but the speed."""
    return {found["name"]: found["verdict"] for found in report["findings"] if found["name"] != "answers_fast"}


SOUND = {
    "accepts_genuine": "pass",
    "rejects_tampering": "pass",
    "rejects_old_timestamps": "pass",
    "takes_duplicates": "pass",
}


def test_a_sound_receiver_passes_and_the_report_is_kept(acme: Consumer, acme_api: Api, receiver: Receiver) -> None:
    endpoint, secret = endpoints.create(consumer=acme, url=receiver.url, headers={"X-Token": "hush-hush"})
    checks_with(receiver, verifies(secret))
    path = f"endpoints/{endpoint.public_id}/check-up/"
    none_yet = acme_api.get(path)
    before = {table: rows for table, rows in ledger().items() if table not in BESIDE}

    answer = acme_api.post(path)

    assert (none_yet.status_code, none_yet.json()["code"]) == (404, "no_check_up_yet")
    assert answer.status_code == 200
    assert verdicts(answer.json()) == SOUND
    shape = {"name", "title", "verdict", "sent", "received", "meaning", "advice"}
    assert all(set(found) == shape for found in answer.json()["findings"])
    assert acme_api.get(path).json() == answer.json()
    assert (answer.json()["endpoint"], answer.json()["url"]) == (endpoint.public_id, receiver.url)
    assert secret not in answer.content.decode()
    assert "hush-hush" not in answer.content.decode()
    # Beside the report and who asked for it, nothing: no delivery, no attempt, no word to the endpoint's health.
    assert {table: rows for table, rows in ledger().items() if table not in BESIDE} == before


def test_what_is_sent_is_genuine_forged_old_and_doubled(acme: Consumer, receiver: Receiver) -> None:
    endpoint, secret = endpoints.create(consumer=acme, url=receiver.url)
    checks_with(receiver, verifies(secret))

    check_up.run(endpoint)

    genuine, forged, old, doubled = receiver.received
    assert verifies(secret)(genuine)
    assert not verifies(secret, tolerance=float("inf"))(forged)
    assert not verifies(secret)(old)
    assert verifies(secret, tolerance=3700)(old)
    assert (doubled.body, doubled.headers["Webhook-Id"]) == (genuine.body, genuine.headers["Webhook-Id"])
    assert [request.headers["Webhook-Attempt"] for request in receiver.received] == ["1", "1", "1", "2"]
    assert len({request.headers["Webhook-Id"] for request in receiver.received}) == 3
    assert all(orjson.loads(each.body)["id"] == each.headers["Webhook-Id"] for each in receiver.received)
    assert genuine.headers["Content-Type"] == "application/json"


def test_the_standard_scheme_is_checked_too(acme: Consumer, receiver: Receiver) -> None:
    endpoint, secret = endpoints.create(consumer=acme, url=receiver.url, signature_scheme="standard")

    def verify(received: Received) -> bool:
        try:
            standardwebhooks.Webhook(secret).verify(received.body, dict(received.headers.items()))
        except standardwebhooks.WebhookVerificationError:
            return False
        return True

    checks_with(receiver, verify)

    assert verdicts(check_up.run(endpoint)) == SOUND


@pytest.mark.parametrize(
    ("mistake", "expected", "words"),
    [
        (
            lambda secret: lambda received: True,
            {**SOUND, "rejects_tampering": "fail", "rejects_old_timestamps": "fail"},
            "does not verify",
        ),
        (
            lambda secret: verifies(secret, tolerance=float("inf")),
            {**SOUND, "rejects_old_timestamps": "fail"},
            "no tolerance check",
        ),
        (
            lambda secret: verifies(secret, reserialise=True),
            {**dict.fromkeys(SOUND, "unknown"), "accepts_genuine": "fail"},
            "parsed and written again",
        ),
        (
            lambda secret: verifies("whsec_other"),
            {**dict.fromkeys(SOUND, "unknown"), "accepts_genuine": "fail"},
            "another secret than this endpoint's",
        ),
    ],
    ids=["2xx to everything", "no tolerance", "body re-serialised", "wrong secret"],
)
def test_a_classic_mistake_is_named(
    acme: Consumer,
    receiver: Receiver,
    mistake: Callable[[str], Verify],
    expected: dict[str, str],
    words: str,
) -> None:
    endpoint, secret = endpoints.create(consumer=acme, url=receiver.url)
    checks_with(receiver, mistake(secret))

    report = check_up.run(endpoint)

    assert verdicts(report) == expected
    assert report["verdict"] == "fail"
    assert any(words in found["meaning"] + found["advice"] for found in report["findings"])


def test_the_receiver_that_people_copy_passes(acme: Consumer, tmp_path: Path) -> None:
    port = free_port()
    endpoint, secret = endpoints.create(consumer=acme, url=f"http://127.0.0.1:{port}/webhooks")

    with copied_receiver(port, secret, tmp_path):
        assert verdicts(check_up.run(endpoint)) == SOUND


def test_during_a_rotation_either_secret_passes(acme: Consumer, receiver: Receiver) -> None:
    endpoint, old = endpoints.create(consumer=acme, url=receiver.url)
    endpoints.rotate_secret(endpoint, overlap_seconds=600)
    endpoint.refresh_from_db()
    receiver.answer = lambda received: Reply(200 if _has_signature(received, old) else 401)

    assert verdicts(check_up.run(endpoint)) == SOUND


def test_nothing_more_is_sent_to_a_receiver_that_does_not_answer(acme: Consumer) -> None:
    report = check_up.run(new_endpoint(acme, url=f"http://127.0.0.1:{free_port()}/"))

    assert verdicts(report) == {**dict.fromkeys(SOUND, "unknown"), "accepts_genuine": "fail"}


def test_a_second_check_up_has_to_wait(acme: Consumer, acme_api: Api, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    path = f"endpoints/{endpoint.public_id}/check-up/"
    first = acme_api.post(path)
    sent = len(receiver.received)
    refused = acme_api.post(path)

    assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (429, "check_up_too_soon", "10")
    assert (len(receiver.received), acme_api.get(path).json()) == (sent, first.json())
    pass_time(seconds=10)
    assert acme_api.post(path).status_code == 200


def test_s06_a_private_address_is_refused_at_the_dial(acme: Consumer, receiver: Receiver, settings: Settings) -> None:
    endpoint = new_endpoint(acme, url=receiver.url.replace("http:", "https:"))
    settings.DELIVERY_ALLOWED_NETWORKS = []
    settings.DELIVERY_ALLOWED_PORTS = list(range(1, 65_536))

    [genuine, *_] = check_up.run(endpoint)["findings"]

    assert (genuine["verdict"], "We do not deliver to this URL." in genuine["received"]) == ("fail", True)
    assert "127.0.0.1" not in json.dumps(genuine)
    assert receiver.received == []


def test_a_paused_endpoint_may_be_checked_and_a_kill_switch_stops_tests_and_check_ups(
    acme: Consumer, acme_api: Api, receiver: Receiver
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    endpoints.pause(endpoint)
    assert acme_api.post(f"endpoints/{endpoint.public_id}/check-up/").status_code == 200
    pass_time(seconds=10)
    sent = len(receiver.received)
    for whom in (acme, None):
        holds.put_on(whom, actor=Actor.of_user("olga"), why="their request")
        answers = [acme_api.post(f"endpoints/{endpoint.public_id}/{action}/") for action in ("test", "check-up")]
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(409, "held")] * 2
        holds.take_off(whom, actor=Actor.of_user("olga"), why="")
    assert len(receiver.received) == sent


def test_the_console_checks_shows_and_audits(acme: Consumer, receiver: Receiver) -> None:
    receiver.answer = lambda received: Reply(200, b"<b>thanks</b>")
    endpoint = new_endpoint(acme, url=receiver.url)
    operator = logged_in("olga", group="Operators")

    page = operator.post(f"/admin/endpoints/{endpoint.public_id}/check-up/", follow=True).content.decode()
    again = operator.post(f"/admin/endpoints/{endpoint.public_id}/check-up/", follow=True).content.decode()

    assert "It does not verify" in page
    assert "&lt;b&gt;thanks&lt;/b&gt;" in page
    assert "<b>thanks</b>" not in page
    assert "Try again in a moment." in again
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target) == ("user olga", "endpoint.checked_up", endpoint.public_id)


def test_a_report_goes_with_its_endpoint_and_stays_when_the_next_one_cannot_run(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    check_up.run(endpoint, transport=answering(500))
    with pytest.raises(check_up.TooSoon):
        check_up.run(endpoint, transport=answering(200))
    [report] = CheckUp.objects.values_list("report__findings__0__meaning", flat=True)
    assert report == "The receiver broke."


def _has_signature(received: Received, secret: str) -> bool:
    timestamp, *given = received.headers["Webhook-Signature"].split(",")
    signed = timestamp.removeprefix("t=").encode() + b"." + received.body
    fresh = abs(time.time() - int(timestamp.removeprefix("t="))) <= 300
    return fresh and "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() in given


@contextmanager
def copied_receiver(port: int, secret: str, home: Path) -> Iterator[None]:
    env = {**os.environ, "WEBHOOK_SECRET": secret, "WEBHOOK_INBOX": str(home / "inbox.sqlite3")}
    command = [sys.executable, str(BASE_DIR / "docs" / "receiver.py"), str(port)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: reach.listens(f"http://127.0.0.1:{port}"))
        yield
    finally:
        process.kill()
        process.wait(10)
