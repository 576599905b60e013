"""Whose portal it is: by the settings, by the link, and in whose frames."""

from typing import Any

import pytest
from django.test import Client

from subscriptions.models import Consumer, PortalVisit
from tests.conftest import Api
from tests.portal import inside, link
from tests.walk import new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

BRANDING = {
    "name": "Globex Payments", "logo_url": "https://cdn.globex.test/logo.svg", "accent": "#0A7D4F",
    "support_url": "mailto:help@globex.test", "legal": "Globex Ltd.",
}  # fmt: skip


def test_a_link_brings_its_own_name_logo_accent_and_footer(producer: Api, acme: Consumer) -> None:
    answer = producer.post("consumers/acme/portal-link/", {"branding": BRANDING})
    path = answer.json()["url"].removeprefix("http://testserver")
    client = Client()

    before = client.get(path)
    client.post(path)
    page = client.get("/portal/")

    for each in (before, page):
        text = each.content.decode()
        assert "Globex Payments" in text
        assert 'href="/portal/brand/0a7d4f.css"' in text
        assert ("mailto:help@globex.test" in text, "Globex Ltd." in text) == (True, True)
        assert "img-src 'self' https://cdn.globex.test;" in each.headers["Content-Security-Policy"]


def test_without_branding_the_settings_speak(acme: Consumer, settings: Any) -> None:
    settings.PORTAL_NAME, settings.PORTAL_SUPPORT_URL = "Initech", "https://initech.test/help"
    page = inside(acme).get("/portal/").content.decode()
    assert ("Initech" in page, "https://initech.test/help" in page) == (True, True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logo_url", "http://cdn.test/a.png"),
        ("logo_url", "https://cdn.test; script-src *"),
        ("support_url", "javascript:alert(1)"),
        ("accent", "red"),
        ("accent", "#12345"),
        ("name", "x" * 81),
        ("colour", "#123456"),
    ],
)
def test_branding_that_makes_no_sense_is_refused(producer: Api, acme: Consumer, field: str, value: str) -> None:
    answer = producer.post("consumers/acme/portal-link/", {"branding": {field: value}})
    assert answer.status_code == 400
    assert PortalVisit.objects.count() == 0


def test_in_nobodys_frame_unless_the_settings_name_it(acme: Consumer, settings: Any) -> None:
    answer = inside(acme).get("/portal/")
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Frame-Options"] == "DENY"

    settings.PORTAL_FRAME_ORIGINS = ["https://app.globex.test"]
    client, path = Client(), link(acme)
    client.get(path)
    opened = client.post(path, {"csrfmiddlewaretoken": client.cookies["portal_csrf"].value})
    answer = client.get("/portal/")
    assert "frame-ancestors https://app.globex.test" in answer.headers["Content-Security-Policy"]
    assert "X-Frame-Options" not in answer.headers
    cookies = [morsel.OutputString() for morsel in opened.cookies.values()]
    assert cookies
    assert all(each.endswith("; Partitioned") and "SameSite=None" in each and "Secure" in each for each in cookies)


def test_forms_in_a_frame_carry_their_token(acme: Consumer, settings: Any) -> None:
    settings.PORTAL_FRAME_ORIGINS = ["https://app.globex.test"]
    endpoint = new_endpoint(acme)
    client, path = Client(enforce_csrf_checks=True), link(acme)
    client.get(path)
    token = client.cookies["portal_csrf"].value
    assert client.post(path).status_code == 403
    assert client.post(path, {"csrfmiddlewaretoken": token}).status_code == 302
    token = client.cookies["portal_csrf"].value
    pause = f"/portal/endpoints/{endpoint.public_id}/pause/"
    assert client.post(pause).status_code == 403
    assert client.post(pause, {"csrfmiddlewaretoken": token}).status_code == 302
    endpoint.refresh_from_db()
    assert endpoint.status == "paused"
