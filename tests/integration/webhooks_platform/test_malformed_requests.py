"""Requests that no well-meaning client sends: each is answered, none with a 5xx, and none writes more than one line to
the log, whatever is in it."""

import io
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler

from webhooks_platform.logs import JsonFormatter, TextFormatter

pytestmark = pytest.mark.django_db(transaction=True)

MULTIPART = "multipart/form-data; boundary="
FORM = "application/x-www-form-urlencoded"
COOKIE = {"HTTP_COOKIE": f"csrftoken={'a' * 32}"}

REFUSED: dict[str, dict[str, Any]] = {
    "a host that is not ours": {"HTTP_HOST": "evil.example"},
    "a host with a line break": {"HTTP_HOST": "a\r\nb"},
    "a host with blanks and brackets": {"HTTP_HOST": "[::1 x]:80:80"},
    "an empty host": {"HTTP_HOST": ""},
    "a port that is none": {"HTTP_HOST": "127.0.0.1:99999x"},
}
ANSWERED: dict[str, dict[str, Any]] = {
    "a forwarded protocol that is none": {"HTTP_X_FORWARDED_PROTO": "\x00gopher,https"},
    "a forwarded host that is not ours": {"HTTP_X_FORWARDED_HOST": "evil.example"},
    "a forwarded address that is none": {"HTTP_X_FORWARDED_FOR": "999.1.1.1, \x00, [::"},
    "a method nobody knows": {"REQUEST_METHOD": "FROBNICATE"},
    "a method in lower case": {"REQUEST_METHOD": "get"},
    "a path that is not UTF-8": {"PATH_INFO": "/admin/\xff\xfe/"},
    "a path with NUL": {"PATH_INFO": "/admin/\x00/"},
    "a path of dots": {"PATH_INFO": "/static/../../../etc/passwd"},
    "a static path with NUL": {"PATH_INFO": "/static/\x00.css"},
    "a static path that is too long": {"PATH_INFO": "/static/" + "a" * 5000},
    "broken percent-encoding in the query": {"QUERY_STRING": "a=%zz&b=%&c=%ff%fe&%00=%00"},
    "too many parameters": {"QUERY_STRING": "&".join(f"f{number}=1" for number in range(2000))},
    "malformed cookies": {"HTTP_COOKIE": 'sessionid="; a=\x01; =; ;;; csrftoken=\xff; messages=%%%'},
    "a session nobody has": {"HTTP_COOKIE": "sessionid=" + "x" * 4000},
    "a session with NUL": {"HTTP_COOKIE": "sessionid=\x00; portal=\x00"},
    "a language nobody speaks": {"HTTP_ACCEPT_LANGUAGE": "q=,;;" * 500},
    "an unknown charset": {"REQUEST_METHOD": "POST", "CONTENT_TYPE": f"{FORM}; charset=zzz", "body": b"a=b", **COOKIE},
    "a form that is not UTF-8": {"REQUEST_METHOD": "POST", "CONTENT_TYPE": FORM, "body": b"a=\xff%ff&%zz", **COOKIE},
    "a form with too many fields": {
        "REQUEST_METHOD": "POST", "CONTENT_TYPE": FORM, "body": b"&".join([b"a=1"] * 2000), **COOKIE,
    },
    "a multipart form without a boundary": {
        "REQUEST_METHOD": "POST", "CONTENT_TYPE": "multipart/form-data", "body": b"x", **COOKIE,
    },
    "a multipart form with a broken boundary": {
        "REQUEST_METHOD": "POST", "CONTENT_TYPE": f"{MULTIPART}\xff", "body": b"--\xff\r\n\r\n", **COOKIE,
    },
    "a multipart form of broken base64": {
        "REQUEST_METHOD": "POST", "CONTENT_TYPE": f"{MULTIPART}b", **COOKIE,
        "body": b'--b\r\nContent-Disposition: form-data; name="a"\r\n'
        b"Content-Transfer-Encoding: base64\r\n\r\n!!!\r\n--b--",
    },
    "a multipart form with too many files": {
        "REQUEST_METHOD": "POST", "CONTENT_TYPE": f"{MULTIPART}b", **COOKIE,
        "body": b'--b\r\nContent-Disposition: form-data; name="a"; filename="x"\r\n\r\nx\r\n' * 200 + b"--b--",
    },
    "a length that is none": {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "-5", **COOKIE},
    "a referer that is none": {
        "REQUEST_METHOD": "POST", "HTTP_REFERER": "http://[", "HTTP_ORIGIN": "null://[", "wsgi.url_scheme": "https",
        **COOKIE,
    },
    "a date that is none": {"PATH_INFO": "/static/unfold/css/styles.css", "HTTP_IF_MODIFIED_SINCE": "\x00 yesterday"},
    "a range that is none": {"PATH_INFO": "/static/unfold/css/styles.css", "HTTP_RANGE": "bytes=9-1,--,\x00"},
}  # fmt: skip


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What goes to the log, as it would be written."""
    [handler] = [one for one in logging.root.handlers if isinstance(one.formatter, JsonFormatter | TextFormatter)]
    assert isinstance(handler, logging.StreamHandler)
    stream = io.StringIO()
    before = handler.setStream(stream)
    yield stream
    handler.setStream(before)


def ask(given: dict[str, Any], *, path: str) -> tuple[int, bytes]:
    body: bytes = given.get("body", b"")
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": "", "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "127.0.0.1", "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(),
        "CONTENT_LENGTH": str(len(body)),
        **{name: value for name, value in given.items() if name != "body"},
    }  # fmt: skip
    statuses: list[str] = []

    def start_response(status: str, headers: list[tuple[str, str]], error: Any = None) -> Any:
        statuses.append(status)

    with closing(WSGIHandler()(environ, start_response)) as answer:
        return int(statuses[0][:3]), b"".join(answer)


@pytest.mark.parametrize("path", ["/api/v1/events/", "/admin/login/", "/portal/enter/x/", "/healthz"])
@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED.keys())
def test_a_host_that_is_not_ours_is_refused_with_one_line_in_the_log(
    given: dict[str, Any], path: str, written: io.StringIO
) -> None:
    status, body = ask(given, path=path)
    said = b'"code":"bad_request"' if path.startswith("/api/") or path == "/healthz" else b"makes no sense"
    assert (status, said in body) == (400, True)
    [line] = written.getvalue().splitlines()
    assert "Traceback" not in line


@pytest.mark.parametrize("path", ["/api/v1/events/", "/admin/login/", "/portal/enter/x/", "/healthz"])
@pytest.mark.parametrize("given", ANSWERED.values(), ids=ANSWERED.keys())
def test_a_malformed_request_is_answered_without_a_traceback(
    given: dict[str, Any], path: str, written: io.StringIO
) -> None:
    status, _ = ask(given, path=path)
    assert status < 500
    assert len(written.getvalue().splitlines()) <= 1
    assert "Traceback" not in written.getvalue()
