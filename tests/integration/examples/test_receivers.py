"""The receivers in examples/, run as they are: they verify, dedupe and answer, in whatever language."""

import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.local import free_port, wait_until
from webhooks_platform.local import reach
from webhooks_platform.local.environment import BASE_DIR

EXAMPLES = BASE_DIR / "examples"
SECRET, OLD_SECRET = "whsec_bmV3", "whsec_b2xk"
BODY = b'{"id": "evt_1", "type": "order.placed", "data": {"order": "n-1", "sum": 1.0}}'
LANGUAGES = ["node", "go", "ruby"]
MOST_LINES = 60


def command(language: str, built: Path) -> list[str]:
    """How the example is started; skips the test where its language is not installed."""
    if shutil.which(language) is None:
        pytest.skip(f"{language} is not installed")
    match language:
        case "node":
            return ["node", str(EXAMPLES / "node" / "receiver.mjs")]
        case "ruby":
            return ["ruby", str(EXAMPLES / "ruby" / "receiver.rb")]
        case _:
            program = built / "receiver"
            if not program.exists():
                source = str(EXAMPLES / "go" / "receiver.go")
                subprocess.run(["go", "build", "-o", str(program), source], check=True, cwd=built, timeout=110)
            return [str(program)]


class Running:
    def __init__(self, start: list[str], home: Path) -> None:
        self.port = free_port()
        self._start = [*start, str(self.port)]
        self._home = home
        self.log = home / "receiver.log"
        self.start()

    def start(self) -> None:
        env = {**os.environ, "WEBHOOK_SECRET": f"{SECRET},{OLD_SECRET}", "WEBHOOK_SEEN": str(self._home / "seen.log")}
        with self.log.open("a") as log:
            self._process = subprocess.Popen(self._start, env=env, stdout=log, stderr=log, cwd=self._home)
        wait_until(lambda: reach.listens(f"http://127.0.0.1:{self.port}"))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def worked(self) -> list[str]:
        return self.log.read_text().splitlines()

    def post(self, body: bytes = BODY, *, signature: str) -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as client:
            client.request("POST", "/", body, {"Webhook-Id": "evt_1", "Webhook-Signature": signature})
            return client.getresponse().status


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(params=LANGUAGES)
def running(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Iterator[Running]:
    made = Running(command(request.param, built), tmp_path)
    yield made
    made.kill()


def signature(body: bytes = BODY, *, secret: str = SECRET, age: int = 0) -> str:
    timestamp = int(time.time()) - age
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def test_it_works_once_and_answers_200_also_after_a_kill(running: Running) -> None:
    assert [running.post(signature=signature()) for _ in range(2)] == [200, 200]
    running.kill()
    running.start()
    assert running.post(signature=signature(secret=OLD_SECRET)) == 200
    assert running.worked() == ["order.placed evt_1"]


def test_of_twenty_at_the_same_moment_one_works(running: Running) -> None:
    header = signature()
    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(lambda _: running.post(signature=header), range(20))) == [200] * 20
    assert running.worked() == ["order.placed evt_1"]


def test_what_does_not_verify_is_refused(running: Running) -> None:
    forged = [
        signature(BODY + b" "),
        signature(secret="whsec_other"),
        signature(age=310),
        signature(age=-310),
        signature().replace("v1=", "v0="),
        "t=,v1=",
        f"t={int(time.time())},v1=zz",
        "",
    ]
    assert [running.post(signature=each) for each in forged] == [401] * len(forged)
    assert running.post(b"[]", signature=signature(b"[]")) == 400
    assert running.post(b"no json", signature=signature(b"no json")) == 400
    assert running.worked() == []


def test_each_is_short_enough_to_be_read_before_it_is_copied() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*/receiver.*")}
    assert sorted(lengths) == ["receiver.go", "receiver.mjs", "receiver.rb"]
    assert {name: length for name, length in lengths.items() if length >= MOST_LINES} == {}


@pytest.mark.parametrize("name", ["fastapi_receiver", "flask_receiver", "sqlalchemy_outbox"])
def test_the_python_examples_load(name: str, tmp_path: Path) -> None:
    pytest.importorskip({"fastapi_receiver": "fastapi", "flask_receiver": "flask"}.get(name, "sqlalchemy"))
    paths = os.pathsep.join(map(str, (EXAMPLES / "python", BASE_DIR / "clients" / "python" / "src")))
    env = {**os.environ, "PYTHONPATH": paths, "WEBHOOK_SECRET": SECRET}
    subprocess.run([sys.executable, "-W", "error", "-c", f"import {name}"], env=env, cwd=tmp_path, check=True)
