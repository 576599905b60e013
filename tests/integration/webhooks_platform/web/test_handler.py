"""B: a Content-Type changes nothing about how the rest of a request is read, and breaks nothing."""

from io import BytesIO
from typing import Any

import pytest

from subscriptions import keys
from subscriptions.models import Role
from webhooks_platform.web.handler import Handler

pytestmark = pytest.mark.django_db

TYPES = [
    "application/json; charset=hex",
    "application/json; charset=undefined",
    "application/json; charset=idna",
    "application/json; charset=utf-16",
    "application/json; charset*=klingon''x",
    "application/x-www-form-urlencoded; charset=base64",
    "a" * 12_000 + "; a=b",
]


def answered(method: str, path: str, query: str, content_type: str, **more: str) -> tuple[int, dict[str, str]]:
    """As for the web server; Django's test client makes its requests another way."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query,
        "CONTENT_TYPE": content_type, "CONTENT_LENGTH": "2", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "HTTP_HOST": "localhost", "wsgi.url_scheme": "http", "wsgi.input": BytesIO(b"{}"), **more,
    }  # fmt: skip
    # Not by calling it, which would close the test's database connection.
    response = Handler().get_response(Handler.request_class(environ))
    return response.status_code, dict(response.items())


@pytest.mark.parametrize("content_type", TYPES, ids=lambda content_type: content_type[:40])
@pytest.mark.parametrize("query", ["", "a=%ff", "&" * 1500], ids=["nothing", "one parameter", "1,500 parameters"])
def test_b_a_content_type_of_any_kind_is_no_error_of_ours(content_type: str, query: str) -> None:
    key = keys.issue(role=Role.OPERATOR)[1]
    assert answered("GET", "/healthz", query, content_type)[0] == 200
    for method in ("GET", "POST"):
        stranger = answered(method, "/api/v1/events/", query, content_type)
        assert (stranger[0], stranger[1]["Content-Type"]) == (401, "application/problem+json")
        status, headers = answered(method, "/api/v1/events/", query, content_type, HTTP_AUTHORIZATION=f"Bearer {key}")
        # Parameters come before the body.
        assert (status, headers["Content-Type"]) == (400 if query else 415, "application/problem+json")
