"""docs/receiver.py, the receiver that people copy: run as it is, on a real socket."""

import hashlib
import hmac
import http.client
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.local import free_port, wait_until
from webhooks_platform.local import reach
from webhooks_platform.local.environment import BASE_DIR

SECRET, OLD_SECRET = "whsec_bmV3", "whsec_b2xk"
BODY = b'{"id": "evt_1", "type": "invoice.paid", "data": {"a": 1.0}}'


class Running:
    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.inbox = home / "inbox.sqlite3"
        self._log = home / "receiver.log"
        self.start()

    def start(self) -> None:
        env = {**os.environ, "WEBHOOK_SECRET": f"{SECRET},{OLD_SECRET}", "WEBHOOK_INBOX": str(self.inbox)}
        with self._log.open("a") as log:
            command = [sys.executable, "-W", "error", str(BASE_DIR / "docs" / "receiver.py"), str(self.port)]
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        wait_until(lambda: reach.listens(f"http://127.0.0.1:{self.port}"))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def lines(self) -> list[str]:
        """What it printed, without the times."""
        return [line.split("  ", 1)[1] for line in self._log.read_text().splitlines()]

    def post(self, body: bytes = BODY, *, connection: http.client.HTTPConnection | None = None, **headers: str) -> int:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as client:
            client.request("POST", "/webhooks", body, {"Webhook-Id": "evt_1", "Webhook-Attempt": "1", **names})
            response = client.getresponse()
            response.read()
            return response.status


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    yield running
    running.kill()


def signature(body: bytes = BODY, *, secret: str = SECRET, age_seconds: int = 0) -> str:
    timestamp = int(time.time()) - age_seconds
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def test_a_genuine_event_is_new_once_and_a_duplicate_afterwards_and_both_are_answered_200(receiver: Running) -> None:
    assert receiver.post(Webhook_Signature=signature()) == 200
    assert receiver.post(Webhook_Signature=signature(), Webhook_Attempt="2") == 200
    wait_until(lambda: len(receiver.lines()) == 2)
    assert receiver.lines() == ["invoice.paid  evt_1  attempt 1  new", "invoice.paid  evt_1  attempt 2  duplicate"]


def test_of_many_copies_at_the_same_moment_exactly_one_is_new(receiver: Running) -> None:
    header = signature()
    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(lambda _: receiver.post(Webhook_Signature=header), range(40)))
    assert statuses == [200] * 40
    wait_until(lambda: len(receiver.lines()) == 40)
    assert sum(line.endswith("new") for line in receiver.lines()) == 1


def test_during_a_rotation_either_secret_and_either_signature_will_do(receiver: Running) -> None:
    assert receiver.post(Webhook_Signature=signature(secret=OLD_SECRET)) == 200
    unknown = "v1=" + "0" * 64
    timestamp, known = signature().split(",")
    assert receiver.post(Webhook_Signature=f"{timestamp},{unknown},{known}") == 200


@pytest.mark.parametrize(
    "forge",
    [
        lambda: signature(BODY + b" "),
        lambda: signature(secret="whsec_other"),
        lambda: signature(age_seconds=310),
        lambda: signature(age_seconds=-310),
        lambda: signature().replace("v1=", "v0="),
        lambda: signature().replace("t=", "t=0"),
        lambda: f"t={int(time.time())},v1=\xe9",
        lambda: "t=" + "9" * 5000,
        lambda: "",
    ],
    ids=["body", "secret", "old", "future", "scheme", "time", "not ASCII", "huge", "none"],
)
def test_what_does_not_verify_is_refused_and_not_kept(receiver: Running, forge: Callable[[], str]) -> None:
    assert receiver.post(Webhook_Signature=forge()) == 401
    assert receiver.lines() == []
    with closing(sqlite3.connect(receiver.inbox)) as db:
        assert db.execute("SELECT count(*) FROM inbox").fetchone() == (0,)


@pytest.mark.parametrize("body", [b"no json", b"[]", b'"text"', b"{}", b'{"id": "evt_2", "type": "a"}', b""])
def test_a_signed_body_that_is_no_event_of_that_id_is_malformed(receiver: Running, body: bytes) -> None:
    assert receiver.post(body, Webhook_Signature=signature(body)) == 400


def test_a_body_that_is_too_long_or_of_unknown_length_is_not_read(receiver: Running) -> None:
    assert receiver.post(b"", Content_Length="1000001") == 413
    assert receiver.post(b"", Content_Length="9" * 5000) == 413
    assert receiver.post(b"", Content_Length="-1") == 400


def test_a_connection_is_kept_for_the_next_event(receiver: Running) -> None:
    client = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
    with closing(client):
        for _ in range(2):
            client.request("POST", "/", BODY, {"Webhook-Id": "evt_1", "Webhook-Signature": signature()})
            client.getresponse().read()
            assert client.sock is not None


def test_a_kill_between_answer_and_work_loses_nothing_and_forgets_no_id(receiver: Running) -> None:
    receiver.post(Webhook_Signature=signature())
    receiver.kill()
    with closing(sqlite3.connect(receiver.inbox, isolation_level=None)) as db:
        assert json.loads(db.execute("SELECT body FROM inbox").fetchone()[0])["id"] == "evt_1"
        db.execute("UPDATE inbox SET done = FALSE")
        receiver.start()
        wait_until(lambda: db.execute("SELECT done FROM inbox").fetchone() == (1,))
    assert receiver.post(Webhook_Signature=signature()) == 200
    wait_until(lambda: receiver.lines()[-1].endswith("duplicate"))
