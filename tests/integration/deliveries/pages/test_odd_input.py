"""Hostile characters and small slips on pages: an answer, never a 500."""

import base64
import hmac

import pytest
from django.contrib.auth.models import User
from django.test import Client

from subscriptions import endpoints
from subscriptions.models import Consumer
from tests.console import logged_in
from tests.ledger import ledger
from tests.portal import inside

pytestmark = pytest.mark.django_db(transaction=True)

CONSOLE = ["", "find/", "dead-letters/", "dead-letters/replay/", "replays/", "deliveries/", "events/", "endpoints/",
           "consumers/", "audit/", "switches/", "login/", "keys/", "event-types/", "users/",
           "limits/", "new-key/"]  # fmt: skip
NAMES = ["q", "consumer", "endpoint", "event_type", "type", "reason", "error", "actor", "target", "before", "after",
         "state", "status", "tested", "range", "next"]  # fmt: skip


@pytest.mark.parametrize("page", CONSOLE)
def test_b_a_nul_in_a_query_string_of_the_console_is_refused(page: str, db: None) -> None:
    operator = logged_in("olga", group="Operators", is_superuser=True)
    for name in NAMES:
        for value in ("%00", "a%00b"):
            assert operator.get(f"/admin/{page}?{name}={value}").status_code == 400, name
    assert operator.get(f"/admin/{page}?%00=a").status_code == 400


def test_b_a_nul_in_an_address_a_form_or_a_cookie_is_refused_and_nothing_is_done(acme: Consumer) -> None:
    operator, visitor = logged_in("olga", group="Operators"), inside(acme)
    before = ledger()
    assert operator.get("/admin/endpoints/ep_%00/").status_code == 400
    assert operator.post("/admin/switches/on/", {"scope": "everything", "why": "a\0b"}).status_code == 400
    assert operator.post("/admin/switches/on/", {"consumer": "acme\0", "why": "a"}).status_code == 400
    assert visitor.get("/portal/endpoints/%00/").status_code == 400
    assert visitor.post("/portal/endpoints/new/", {"url": "https://a.test/\0"}).status_code == 400
    assert visitor.post("/portal/signatures/", {"headers": "\0", "body": "a"}).status_code == 400
    for cookie in ("sessionid", "portal_session"):
        client = Client(headers={"Cookie": f'{cookie}="\\000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"'})
        for path in ("/admin/", "/portal/"):
            assert client.get(path).status_code == 400, cookie
    assert ledger() == before


@pytest.mark.parametrize("timestamp", ["²", "١٧٠٠٠٠٠٠٠٠", "9" * 400, "9" * 5000, "-1", "1e9", "①", ""])
@pytest.mark.parametrize("scheme", ["timestamped", "standard"])
def test_b_the_signature_debugger_explains_a_timestamp_that_is_none(
    acme: Consumer, timestamp: str, scheme: str
) -> None:
    visitor, (_, secret) = inside(acme), endpoints.create(consumer=acme, url="https://receiver.test/hook")
    key = secret.encode() if scheme == "timestamped" else base64.b64decode(secret.removeprefix("whsec_"))
    header = _signed(scheme, key, timestamp)
    form = {"headers": f"webhook-id: evt_1\nwebhook-timestamp: {timestamp}\n{header}", "body": "{}", "secret": secret}
    answer = visitor.post("/portal/signatures/", form)
    assert (answer.status_code, answer.context["explanation"].sound) == (200, False)


def _signed(scheme: str, key: bytes, timestamp: str) -> str:
    """A signature that fits, so that only the timestamp is wrong."""
    if scheme == "timestamped":
        return f"webhook-signature: t={timestamp},v1={hmac.digest(key, f'{timestamp}.{{}}'.encode(), 'sha256').hex()}"
    digest = hmac.digest(key, f"evt_1.{timestamp}.{{}}".encode(), "sha256")
    return f"webhook-signature: v1,{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize("wanted", ["//evil.test/", "https://evil.test/", "javascript:alert(1)", "", "/\\evil.test"])
def test_a_refused_next_leads_to_the_console(db: None, wanted: str) -> None:
    User.objects.create_user("olga", password="a-long-password-4711", is_staff=True, is_superuser=True)
    client = Client()
    form = {"username": "olga", "password": "a-long-password-4711", "next": wanted}
    answer = client.post("/admin/login/", form, query_params={"next": wanted})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")
    assert client.get(answer.headers["Location"]).status_code == 200
    ended = client.post("/admin/logout/", {"next": wanted})
    assert (ended.status_code, ended.headers["Location"]) == (302, "/admin/login/")


def test_what_is_not_there_is_a_page_for_people(acme: Consumer) -> None:
    for answer in (inside(acme).get("/portal/nowhere/"), logged_in("olga", group="Operators").get("/admin/nowhere/")):
        assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
