"""The command `webhooks`: what it sends, shows and returns."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from webhooks_client.cli import main
from webhooks_client.receive import sign

SECRET = "whsec_c2VjcmV0"
BODY = b'{"id":"evt_1","type":"invoice.paid","data":{}}'
Answerer = Callable[[str, str, Any], tuple[int, Any]]


class Served:
    """A platform on a real port: answers by a function, and keeps what was asked."""

    def __init__(self, answer: Answerer) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self._answer = answer
        self.url = ""

    @contextmanager
    def run(self) -> Iterator["Served"]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                outer.asked.append((self.command, self.path, body))
                status, document = outer._answer(self.command, self.path, body)
                shown = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(shown)))
                self.end_headers()
                self.wfile.write(shown)

            do_GET = do_POST = _serve

            def log_message(self, *args: object) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield self
            server.shutdown()
            thread.join()


def run(url: str, *arguments: str) -> int:
    return main([*arguments, "--url", url, "--key", "key"])


def test_emit_sends_an_event_and_says_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"id": "evt_9", "delivery_count": 2}
    with Served(lambda *_: (202, answer)).run() as platform:
        assert run(platform.url, "emit", "--consumer", "acme", "--type", "a.b", "--data", '{"x":1}', "--id", "n-1") == 0
    assert capsys.readouterr().out == "accepted  evt_9  2 deliveries\n"
    [(method, path, body)] = platform.asked
    assert (method, path) == ("POST", "/api/v1/events/")
    assert body == {"consumer": "acme", "type": "a.b", "data": {"x": 1}, "id": "n-1"}


def test_emit_of_a_file_says_what_was_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "events.jsonl"
    lines.write_text('{"consumer":"acme","type":"a","data":{}}\n\n{"consumer":"none","type":"a","data":{}}\n')
    results = [
        {"status": "accepted", "event": {"id": "evt_1"}},
        {"status": "refused", "problem": {"code": "consumer_not_found", "detail": "No."}},
    ]
    with Served(lambda *_: (202, {"results": results})).run() as platform:
        assert run(platform.url, "emit", "--file", str(lines)) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["refused  line 3  consumer_not_found: No.", "1 accepted  0 duplicate  1 refused"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--consumer", "acme", "--type", "a.b", "--data", "{bad"], "--data is no JSON: Expecting property name"),
        (["--file", "events.jsonl"], "Line 3 is no JSON: Expecting value"),
    ],
)
def test_what_is_no_json_is_named_and_nothing_is_sent(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.jsonl").write_text('{"consumer":"acme","type":"a","data":{}}\n\nnope\n')
    with Served(lambda *_: (202, {})).run() as platform:
        assert run(platform.url, "emit", *arguments) == 2
    assert words in capsys.readouterr().err
    assert platform.asked == []


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    event = {"id": "evt_1", "type": "a.b", "created_at": "T", "deliveries": []}
    endless = {"results": [event] * 1000, "next": "http://x/?cursor=c1"}
    with Served(lambda *_: (200, endless)).run() as platform:
        command = [sys.executable, "-m", "webhooks_client.cli", "feed", "acme", "--url", platform.url, "--key", "key"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as feed:
            assert feed.stdout is not None
            assert feed.stderr is not None
            assert feed.stdout.readline() == b"T  a.b  evt_1  -\n"
            feed.stdout.close()
            assert (feed.stderr.read(), feed.wait(30)) == (b"", 0)


def test_a_refusal_is_shown_with_its_places_and_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"code": "invalid", "detail": "Wrong.", "errors": [{"pointer": "/type", "detail": "A type."}]}
    with Served(lambda *_: (400, document)).run() as platform:
        assert run(platform.url, "emit", "--consumer", "a", "--type", "b") == 1
    assert capsys.readouterr().err == "webhooks: invalid: Wrong.\n  /type: A type.\n"


def test_without_an_address_it_says_what_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEBHOOKS_URL", raising=False)
    assert main(["emit", "--consumer", "a", "--type", "b"]) == 2
    assert "WEBHOOKS_URL" in capsys.readouterr().err


def test_feed_shows_events_and_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    event = {"id": "evt_1", "type": "a.b", "created_at": "T", "deliveries": [{"state": "dead"}]}
    pages = [
        {"results": [event], "next": "http://x/?cursor=c1"},
        {"results": [], "next": None},
    ]
    with Served(lambda *_: (200, pages.pop(0))).run() as platform:
        assert run(platform.url, "feed", "acme", "--undelivered") == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("T  a.b  evt_1  dead\n", "cursor: c1\n")
    assert [path for _, path, _ in platform.asked] == [
        "/api/v1/consumers/acme/feed/?limit=200&undelivered=true",
        "/api/v1/consumers/acme/feed/?cursor=c1&limit=200&undelivered=true",
    ]


def test_tail_shows_each_change_once_oldest_first(capsys: pytest.CaptureFixture[str]) -> None:
    def row(number: int, state: str, reason: str | None = None) -> dict[str, Any]:
        same = {"created_at": "T", "event": "evt_1", "attempt_count": 1, "dead_reason": reason}
        return {"id": f"dlv_{number}", "state": state, **same}

    with Served(lambda *_: (200, {"results": [row(2, "dead", "gone"), row(1, "delivered")], "next": None})).run() as it:
        assert run(it.url, "tail", "--state", "dead", "--looks", "1") == 0
    assert capsys.readouterr().out.splitlines() == [
        "T  delivered  dlv_1  evt_1  attempts 1",
        "T  dead       dlv_2  evt_1  attempts 1  gone",
    ]
    assert it.asked[0][1] == "/api/v1/deliveries/?state=dead&limit=50"


def test_replay_previews_then_starts_with_the_same_filter(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        if body.get("dry_run"):
            return 200, {"matched": 3, "by_endpoint": [{"endpoint": "ep_1", "matched": 3}]}
        return 202, {"id": "rpl_1", "status": "running", "matched": 3, "replayed": 0}

    with Served(answer).run() as platform:
        assert run(platform.url, "replay", "--endpoint", "ep_1", "--dry-run") == 0
        assert run(platform.url, "replay", "--endpoint", "ep_1", "--yes", "--why", "fixed") == 0
    assert "3 would be sent again" in capsys.readouterr().out
    assert [body for *_, body in platform.asked] == [
        {"endpoint": "ep_1", "dry_run": True},
        {"endpoint": "ep_1", "dry_run": True},
        {"endpoint": "ep_1", "why": "fixed"},
    ]


def test_check_up_shows_findings_and_fails_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    finding = {"verdict": "fail", "title": "Rejects tampering", "meaning": "It does not.", "advice": "Verify."}
    with Served(lambda *_: (200, {"findings": [finding]})).run() as platform:
        assert run(platform.url, "check-up", "ep_1") == 1
    assert capsys.readouterr().out.splitlines() == [
        "VERDICT  TITLE              MEANING",
        "fail     Rejects tampering  It does not.",
        "Rejects tampering: Verify.",
    ]


def test_control_characters_of_a_stranger_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    finding = {"verdict": "warn", "title": "\x1b]0;evil\x07", "meaning": "a\nb", "advice": ""}
    with Served(lambda *_: (200, {"findings": [finding]})).run() as platform:
        run(platform.url, "check-up", "ep_1")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2


# ── verify ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def headers_text(**change: str) -> str:
    headers = sign(BODY, secret=SECRET, event_id="evt_1", timestamp=int(time.time())) | change
    return "".join(f"{name}: {value}\n" for name, value in headers.items())


def test_verify_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "head").write_text(headers_text())
    (tmp_path / "body").write_bytes(BODY)
    arguments = ["verify", "--headers", str(tmp_path / "head"), "--body", str(tmp_path / "body"), "--secret"]
    assert main([*arguments, SECRET]) == 0
    assert main([*arguments, f"whsec_b3RoZXI=,{SECRET}"]) == 0
    assert main([*arguments, SECRET.removeprefix("whsec_")]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == ["verified: invoice.paid evt_1"] * 2
    assert "the secret lacks its whsec_ at the front" in shown[2]


def test_verify_of_a_whole_request_on_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    request = headers_text().encode() + b"\n" + BODY
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(request)))
    assert main(["verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"verified": True, "id": "evt_1", "type": "invoice.paid"}


def test_verify_of_a_saved_request_can_ignore_its_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = sign(BODY, secret=SECRET, event_id="evt_1", timestamp=1_600_000_000)
    (tmp_path / "head").write_text("".join(f"{name}: {value}\n" for name, value in old.items()))
    (tmp_path / "body").write_bytes(BODY)
    arguments = ["verify", "--headers", str(tmp_path / "head"), "--body", str(tmp_path / "body"), "--secret", SECRET]
    assert main(arguments) == 1
    assert "s old" in capsys.readouterr().out
    assert main([*arguments, "--any-age"]) == 0


def test_verify_without_a_secret_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WEBHOOK_SECRET", raising=False)
    monkeypatch.setattr("sys.stdin", StringIO())
    assert main(["verify"]) == 2
    assert "WEBHOOK_SECRET" in capsys.readouterr().err
