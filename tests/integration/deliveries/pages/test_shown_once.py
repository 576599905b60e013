"""A secret or a link is on one page, once: a reload, another session, a preview and five minutes later find nothing."""

import re

import pytest
from django.test import Client

from subscriptions.models import AuditEntry, Consumer, Endpoint, Handover, PortalVisit
from subscriptions.secrets import handover
from tests.console import logged_in
from tests.portal import inside
from tests.threads import at_the_same_moment
from tests.walk import new_endpoint, pass_time

pytestmark = pytest.mark.django_db(transaction=True)

FORM = {"url": "https://receiver.test/other", "event_types": "*", "signature_scheme": "timestamped",
        "max_in_flight": "5", "timeout_seconds": "5"}  # fmt: skip
# A whole one, not the `whsec_…` of a hint.
SECRET = re.compile(rb"whsec_[A-Za-z0-9+/=]{20}|/portal/enter/[\w-]{20}")


@pytest.fixture(params=["portal new", "portal rotate", "console rotate", "console link"])
def shown(request: pytest.FixtureRequest, acme: Consumer) -> tuple[Client, Client, str]:
    """Who made it, somebody else with the same rights, and the page that shows it."""
    endpoint = new_endpoint(acme)
    if request.param.startswith("portal"):
        client, other = inside(acme), inside(acme)
        path = {"portal new": "/portal/endpoints/new/"}.get(
            request.param, f"/portal/endpoints/{endpoint.public_id}/rotate-secret/"
        )
    else:
        client, other = logged_in("olga", group="Operators"), logged_in("otto", group="Operators")
        path = {"console rotate": f"/admin/endpoints/{endpoint.public_id}/rotate/"}.get(
            request.param, f"/admin/consumers/{acme.public_id}/portal-link/"
        )
    answer = client.post(path, {**FORM, "why": "planned"})
    assert answer.status_code == 302
    return client, other, answer.headers["Location"]


def test_it_is_shown_once_stored_by_no_browser_and_then_the_page_says_what_to_do(
    shown: tuple[Client, Client, str],
) -> None:
    client, _, page = shown
    first, again = client.get(page), client.get(page)
    assert len(SECRET.findall(first.content)) == 1
    assert "no-store" in first.headers["Cache-Control"]
    assert (again.status_code, SECRET.findall(again.content)) == (200, [])
    assert b"It was shown before" in again.content
    assert b"rotate" in again.content or b"make another one" in again.content
    assert Handover.objects.count() == 0


def test_nobody_else_sees_it_or_uses_it_up(shown: tuple[Client, Client, str]) -> None:
    client, other, page = shown
    assert SECRET.findall(other.get(page).content) == []
    assert SECRET.findall(Client().get(page).content) == []
    assert len(SECRET.findall(client.get(page).content)) == 1


@pytest.mark.parametrize("header", ["Sec-Purpose", "Purpose", "X-Moz"])
def test_a_preview_does_not_use_it_up(shown: tuple[Client, Client, str], header: str) -> None:
    client, _, page = shown
    early = client.get(page, headers={header: "prefetch;prerender"})
    assert (early.status_code, early.content) == (425, b"")
    assert (client.head(page).status_code, Handover.objects.count()) == (200, 1)
    assert len(SECRET.findall(client.get(page).content)) == 1


def test_five_minutes_later_nothing_is_shown_and_the_row_is_forgotten(shown: tuple[Client, Client, str]) -> None:
    client, _, page = shown
    pass_time(minutes=5)
    assert SECRET.findall(client.get(page).content) == []
    assert (handover.forget_old(), Handover.objects.count()) == (1, 0)


def test_of_two_tabs_at_the_same_moment_one_shows_it(shown: tuple[Client, Client, str]) -> None:
    client, _, page = shown
    pages = at_the_same_moment(4, lambda: client.get(page).content)
    assert sum(len(SECRET.findall(each)) for each in pages) == 1


def test_on_another_endpoint_s_page_it_is_not_found(acme: Consumer) -> None:
    one, other, client = new_endpoint(acme), new_endpoint(acme), inside(acme)
    page = client.post(f"/portal/endpoints/{one.public_id}/rotate-secret/").headers["Location"]
    assert SECRET.findall(client.get(page.replace(one.public_id, other.public_id)).content) == []
    assert len(SECRET.findall(client.get(page).content)) == 1


def test_it_is_nowhere_in_plain_text(shown: tuple[Client, Client, str]) -> None:
    client, _, page = shown
    row = Handover.objects.values().get()
    found = SECRET.findall(client.get(page).content)[0].decode()
    assert found.removeprefix("/portal/enter/").encode() not in bytes(row["content_encrypted"])
    assert page.rstrip("/").rpartition("/")[2] not in str(row)


def test_reload_of_the_page_with_a_new_secret_changes_nothing(acme: Consumer) -> None:
    """The fault: the page was the form's own answer, and sending it again rotated again."""
    endpoint, client = new_endpoint(acme), inside(acme)
    page = client.post(f"/portal/endpoints/{endpoint.public_id}/rotate-secret/").headers["Location"]
    sealed = Endpoint.objects.values_list("secret_encrypted", "previous_secret_encrypted").get()
    for _ in range(3):
        client.get(page)
    assert Endpoint.objects.values_list("secret_encrypted", "previous_secret_encrypted").get() == sealed
    assert AuditEntry.objects.filter(action="endpoint.secret_rotated").count() == 1
    assert PortalVisit.objects.count() == 1
