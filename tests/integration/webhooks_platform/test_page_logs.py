"""S09, S12: no line of any log holds a portal token, whatever refuses the request with it, and no Referer does."""

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from deliveries.portal.site import urlpatterns
from subscriptions import endpoints, mail_recipients
from subscriptions.access import portal_visits
from subscriptions.models import Consumer
from tests.console import logged_in
from tests.portal import inside, link
from tests.walk import new_endpoint
from webhooks_platform.logs import JsonFormatter, TextFormatter

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["json", "text"])
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What the process would have written, with each of its formatters."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter({"json": JsonFormatter, "text": TextFormatter}[request.param]())
    root, quiet = logging.getLogger(), logging.getLogger("django.request")
    before = quiet.level
    quiet.setLevel("DEBUG")
    root.addHandler(handler)
    yield written
    root.removeHandler(handler)
    quiet.setLevel(before)


def token_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def test_s12_no_token_is_logged_when_a_form_lacks_its_csrf_token(acme: Consumer, log: io.StringIO) -> None:
    path = link(acme)
    assert Client(enforce_csrf_checks=True).post(path).status_code == 403
    assert "CSRF token missing" in log.getvalue() or "CSRF cookie not set" in log.getvalue()
    assert token_of(path) not in log.getvalue()


@pytest.mark.parametrize("spelled", ["/portal/enter/{token}", "/portal/enter//{token}/", "/portal/enter/{token}/more/",
                                     "/Portal/Enter/{token}/", "//portal/enter/{token}/?a=b"])  # fmt: skip
def test_s12_no_token_is_logged_when_there_is_no_such_page(acme: Consumer, log: io.StringIO, spelled: str) -> None:
    token = token_of(link(acme))
    assert Client().get(spelled.format(token=token)).status_code == 404
    assert "Not Found" in log.getvalue()
    assert token not in log.getvalue()


@pytest.mark.parametrize("spelled", ["/portal/mail/{token}", "/portal/mail//{token}/", "/Portal/Mail/{token}/x/"])
def test_s12_no_token_of_a_mail_is_logged_either(acme: Consumer, log: io.StringIO, spelled: str) -> None:
    recipient = mail_recipients.add(acme, email="a@acme.test", kinds=["failing"])
    assert recipient is not None
    token = mail_recipients.token(recipient)
    assert Client().get(spelled.format(token=token)).status_code == 404
    assert "Not Found" in log.getvalue()
    assert not any(part in log.getvalue() for part in token.split(":"))


def test_s12_no_token_is_logged_with_a_traceback(acme: Consumer, log: io.StringIO, settings: Any) -> None:
    client, endpoint, keys = inside(acme), new_endpoint(acme), settings.ENCRYPTION_KEYS
    path = client.post(f"/portal/endpoints/{endpoint.public_id}/rotate-secret/").headers["Location"]
    settings.ENCRYPTION_KEYS = ["other:" + "A" * 43 + "="]
    client.raise_request_exception = False
    assert client.get(path).status_code == 500
    assert "VaultError" in log.getvalue()
    assert token_of(path) not in log.getvalue()
    # And the secret is still there when the keys are back.
    settings.ENCRYPTION_KEYS = keys
    assert b"whsec_" in client.get(path).content


def test_s12_no_token_is_logged_for_a_host_that_is_not_ours(acme: Consumer, log: io.StringIO) -> None:
    path = link(acme)
    assert Client().get(path, headers={"Host": "elsewhere.test"}).status_code == 400
    assert token_of(path) not in log.getvalue()


def test_s12_no_token_of_a_page_that_shows_something_once_is_logged(acme: Consumer, log: io.StringIO) -> None:
    endpoint, operator = new_endpoint(acme), logged_in("olga", group="Operators")
    for made in (
        inside(acme).post(f"/portal/endpoints/{endpoint.public_id}/rotate-secret/"),
        operator.post(f"/admin/endpoints/{endpoint.public_id}/rotate/", {"why": "x", "force": "yes"}),
        operator.post(f"/admin/consumers/{acme.public_id}/portal-link/", {"why": "x"}),
    ):
        path = made.headers["Location"]
        assert operator.post(f"{path}nowhere/").status_code == 404
        assert token_of(path) not in log.getvalue()
    assert log.getvalue().count("Not Found") == 3


def test_s09_secrets_and_keys_are_cut_out_of_what_anybody_logs(acme: Consumer, log: io.StringIO) -> None:
    _, secret = endpoints.create(consumer=acme, url="https://receiver.test/hook")
    fields = {"fields": {"at": secret}}
    logging.getLogger("somebody").error("refused %s for whk_c_0123456789abcdef", secret, extra=fields)
    assert secret not in log.getvalue()
    assert "whk_c_0123456789abcdef" not in log.getvalue()
    assert "refused whsec_… for whk_c_…" in log.getvalue()


def test_s12_all_loggers_write_through_the_formatters_that_cut(acme: Consumer) -> None:
    """Django's own handlers would write tokens to stderr with DEBUG on."""
    own = [name for name in ("", *logging.root.manager.loggerDict) if name.startswith("django")]
    handlers = [handler for name in own for handler in logging.getLogger(name).handlers]
    assert [handler for handler in handlers if type(handler).__module__.startswith(("logging", "django"))] == []


def test_s12_an_address_with_a_token_is_nobody_s_referrer(acme: Consumer) -> None:
    with_token = [str(each.pattern) for each in urlpatterns if "token" in str(each.pattern)]
    assert len(with_token) == 4
    token, _ = portal_visits.new_link(acme, requested_by="test", minutes=5)
    assert Client().get(f"/portal/enter/{token}/").headers["Referrer-Policy"] == "strict-origin"
    assert Client().get("/portal/mail/nobodys/").headers["Referrer-Policy"] == "strict-origin"
    operator = logged_in("olga", group="Operators")
    made = operator.post(f"/admin/consumers/{acme.public_id}/portal-link/", {"why": "x"})
    assert operator.get(made.headers["Location"]).headers["Referrer-Policy"] == "strict-origin"
    key = inside(acme).post("/portal/keys/", {"scopes": "events:read", "ends": ""}, follow=True)
    assert (key.redirect_chain[0][0].startswith("/portal/keys/shown/"), key.status_code) == (True, 200)
    assert key.headers["Referrer-Policy"] == "strict-origin"


def test_the_web_server_writes_no_access_log() -> None:
    root = Path(__file__).parents[3]
    for name in ("Dockerfile", "webhooks_platform/local/programs.py"):
        assert re.search("--no-access-log", (root / name).read_text()), name
