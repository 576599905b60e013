"""clients/python and the platform: deliveries verify, and the feed reaches its readers, however they are killed."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from webhooks_client import Client
from webhooks_client.receive import verify

from subscriptions import keys
from subscriptions.models import Consumer, Role
from tests.local import wait_until
from tests.receiver import Received, Receiver
from tests.stack import Stack, StartStack
from webhooks_platform.local.environment import BASE_DIR

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

SECRET = "whsec_c2VjcmV0"


def client(stack: Stack) -> Client:
    return Client(stack.url, keys.issue(role=Role.OPERATOR)[1])


def ids(received: list[Received], secret: str) -> list[str]:
    return [verify(each.body, dict(each.headers), secret).id for each in received]


@pytest.mark.parametrize("scheme", ["timestamped", "standard"])
def test_deliveries_verify_with_either_secret_during_a_rotation(
    scheme: str, acme: Consumer, receiver: Receiver, start_stack: StartStack
) -> None:
    stack = start_stack("web", "deliveries1", "background", "beat")
    with client(stack) as api:
        endpoint = api.create_endpoint("acme", url=receiver.url, signature_scheme=scheme)
        api.emit(consumer="acme", type="a.b", data={"name": "Zoë", "sum": 10.0}, id="before")
        assert ids(receiver.wait_for(1, seconds=60), endpoint["secret"]) == ["before"]
        rotated = api.rotate_secret(endpoint["id"])
        results = list(api.emit_many([{"consumer": "acme", "type": "a.b", "data": {}, "id": "after"}]))
        assert [result.status for result in results] == ["accepted"]
        after = receiver.wait_for(2, seconds=60)[1:]
        assert ids(after, rotated["secret"]) == ids(after, endpoint["secret"]) == ["after"]


def test_listen_brings_each_event_once_over_restarts_of_the_platform_and_of_itself(
    acme: Consumer, receiver: Receiver, start_stack: StartStack, tmp_path: Path
) -> None:
    stack = start_stack("web")
    consumer_key = keys.issue(role=Role.CONSUMER, consumer=acme)[1]
    env = {**os.environ, "PYTHONPATH": str(BASE_DIR / "clients" / "python" / "src")}
    env |= {"WEBHOOKS_URL": stack.url, "WEBHOOKS_KEY": consumer_key}
    command = [sys.executable, "-m", "webhooks_client.cli", "listen", "--consumer", "acme", "--secret", SECRET]
    command += ["--forward-to", receiver.url, "--state", str(tmp_path / "state.json"), "--from-start"]

    def listen() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def cursor() -> object:
        return json.loads((tmp_path / "state.json").read_text())["cursor"]

    with client(stack) as api:
        listener = listen()
        try:
            api.emit(consumer="acme", type="a.b", data={}, id="first")
            receiver.wait_for(1, seconds=60)
            wait_until(lambda: cursor() is not None, seconds=60)
            begun = cursor()
            stack.restart("web")
            stack.wait_ready()
            api.emit(consumer="acme", type="a.b", data={}, id="second")
            receiver.wait_for(2, seconds=60)
            # Killed before it has written that down, it would bring the second one again, as attempt 2.
            wait_until(lambda: cursor() not in (None, begun), seconds=60)
            listener.kill()
            listener.wait(10)
            api.emit(consumer="acme", type="a.b", data={}, id="third")
            listener = listen()
            receiver.wait_for(3, seconds=60)
        finally:
            listener.kill()
            listener.wait(10)
    assert ids(receiver.received, SECRET) == ["first", "second", "third"]


def test_listen_that_is_killed_in_the_middle_of_an_event_repeats_it_as_attempt_2_and_says_so(
    acme: Consumer, start_stack: StartStack, tmp_path: Path
) -> None:
    stack = start_stack("web")
    env = {**os.environ, "PYTHONPATH": str(BASE_DIR / "clients" / "python" / "src"), "WEBHOOKS_URL": stack.url}
    env["WEBHOOKS_KEY"] = keys.issue(role=Role.CONSUMER, consumer=acme)[1]
    command = [sys.executable, "-m", "webhooks_client.cli", "listen", "--consumer", "acme", "--secret", SECRET]
    command += ["--state", str(tmp_path / "state.json"), "--from-start", "--forward-to"]
    seen: list[tuple[str, str]] = []
    answers = threading.Event()

    class Local(BaseHTTPRequestHandler):
        """Takes the event in, and answers only when the test says so."""

        def do_POST(self) -> None:
            verify(self.rfile.read(int(self.headers["Content-Length"])), dict(self.headers), SECRET)
            seen.append((self.headers["webhook-id"], self.headers["webhook-attempt"]))
            answers.wait(60)
            with suppress(OSError):
                self.send_response(200)
                self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with client(stack) as api, ThreadingHTTPServer(("127.0.0.1", 0), Local) as local:
        threading.Thread(target=local.serve_forever, daemon=True).start()
        command.append(f"http://127.0.0.1:{local.server_address[1]}/")
        api.emit(consumer="acme", type="a.b", data={}, id="first")
        api.emit(consumer="acme", type="a.b", data={}, id="second")
        listener = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: len(seen) == 1, seconds=60)
            listener.kill()
            listener.wait(10)
            answers.set()
            with (tmp_path / "screen").open("w") as screen:
                listener = subprocess.Popen(command, env=env, stdout=screen, stderr=screen)
            wait_until(lambda: len(seen) == 3, seconds=60)
        finally:
            listener.kill()
            listener.wait(10)
            local.shutdown()
    assert seen == [("first", "1"), ("first", "2"), ("second", "1")]
    assert "first was under way when this was stopped: again, as attempt 2" in (tmp_path / "screen").read_text()


def test_a_reader_of_the_feed_that_is_killed_ships_every_event_once_and_in_order(
    acme: Consumer, start_stack: StartStack, tmp_path: Path
) -> None:
    stack = start_stack("web")
    path = tmp_path / "shipments.sqlite3"
    env = {**os.environ, "PYTHONPATH": str(BASE_DIR / "clients" / "python" / "src"), "WEBHOOKS_URL": stack.url}
    env["WEBHOOKS_KEY"] = keys.issue(role=Role.CONSUMER, consumer=acme)[1]
    command = [sys.executable, str(BASE_DIR / "examples" / "python" / "feed_listener.py"), "acme", str(path)]

    def shipped() -> list[str]:
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            return [row[0] for row in connection.execute("SELECT event FROM shipments ORDER BY rowid")]

    emitted: list[str] = []
    with client(stack) as api:
        for turn in range(4):
            listener = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                for number in range(10):
                    emitted.append(f"event-{turn}-{number}")
                    api.emit(consumer="acme", type="a.b", data={}, id=emitted[-1])
                if turn == 1:
                    stack.restart("web")
                    stack.wait_ready()
                # Some of this turn's events have come, perhaps not all, when it is killed.
                wait_until(lambda: path.exists() and len(shipped()) > len(emitted) - 10, seconds=60)
                if turn == 3:
                    wait_until(lambda: len(shipped()) >= len(emitted), seconds=60)
            finally:
                listener.kill()
                listener.wait(10)
    assert shipped() == emitted
