"""webhooks_platform/web/request_log.py: ids in and out, and one line for each request."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, cast
from wsgiref.types import StartResponse, WSGIApplication

import orjson
import pytest

from deliveries.api.emit import OWN_LINE
from subscriptions.process import request_id
from webhooks_platform.logs import JsonFormatter, TextFormatter
from webhooks_platform.web.request_log import RequestLog


class Inner:
    """Answers 200, and remembers what it saw."""

    def __init__(self, *, logs_itself: bool = False, starts: bool = True) -> None:
        self.seen: str | None = None
        self._logs_itself = logs_itself
        self._starts = starts

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        self.seen = request_id.current()
        if self._logs_itself:
            environ[OWN_LINE] = True
        if self._starts:
            start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"body"]


def ask(inner: Inner, *, path: str = "/api/v1/events/", given: str | None = None) -> dict[str, str]:
    """The headers of the answer."""
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path}
    if given is not None:
        environ["HTTP_X_REQUEST_ID"] = given
    answered: dict[str, str] = {}

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        answered.update(headers)

    application = RequestLog(cast(WSGIApplication, inner))
    assert b"".join(application(environ, start_response)) == b"body"
    return answered


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[dict[str, Any]]]:
    """Filled as they are written, under the id of their moment."""
    caplog.set_level("INFO")
    written: list[dict[str, Any]] = []

    class Writing(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            written.append(orjson.loads(JsonFormatter().format(record)))
            return True

    # The handler is the whole run's, so the filter has to go again.
    writing = Writing()
    caplog.handler.addFilter(writing)
    yield written
    caplog.handler.removeFilter(writing)


def test_the_given_id_is_in_the_answer_and_in_the_line(lines: list[dict[str, Any]]) -> None:
    inner = Inner()
    headers = ask(inner, given="req-1")

    assert headers == {"Content-Type": "text/plain", "X-Request-Id": "req-1"}
    assert inner.seen == "req-1"
    [line] = lines
    shown = {name: line[name] for name in ("message", "request_id", "method", "path", "status")}
    assert shown == {
        "message": "request.answered", "request_id": "req-1", "method": "GET", "path": "/api/v1/events/", "status": 200,
    }  # fmt: skip
    assert line["duration_ms"] >= 0


def test_without_a_usable_id_one_is_made(lines: list[dict[str, Any]]) -> None:
    inner = Inner()
    headers = ask(inner, given="no good")

    assert headers["X-Request-Id"] == inner.seen == lines[0]["request_id"] != "no good"


def test_the_id_ends_with_the_request() -> None:
    ask(Inner(), given="req-1")

    assert request_id.current() is None


def test_an_accepted_emit_has_a_line_of_its_own_and_no_other(lines: list[dict[str, Any]]) -> None:
    ask(Inner(logs_itself=True))

    assert lines == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/static/console/console.css"])
def test_what_is_asked_all_the_time_is_worth_no_line(path: str, lines: list[dict[str, Any]]) -> None:
    assert ask(Inner(), path=path)["X-Request-Id"]
    assert lines == []


def test_a_request_that_another_thread_answered_was_too_late(lines: list[dict[str, Any]]) -> None:
    ask(Inner(starts=False))

    assert lines[0]["status"] == 408


def test_a_token_in_the_path_is_cut_out(lines: list[dict[str, Any]]) -> None:
    ask(Inner(), path="/portal/enter/" + "s" * 40)

    assert lines[0]["path"] == "/portal/enter/…"


def test_a_line_about_another_request_keeps_its_own_id() -> None:
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, "event.accepted", (), None)
    record.fields = [{"request_id": "theirs"}, {}]
    _, token = request_id.begin("mine")

    json = [orjson.loads(line)["request_id"] for line in JsonFormatter().format(record).split("\n")]
    text = [line.rpartition(" ")[2] for line in TextFormatter().format(record).split("\n")]

    request_id.end(token)
    assert json == ["theirs", "mine"]
    assert text == ["request_id=theirs", "request_id=mine"]
