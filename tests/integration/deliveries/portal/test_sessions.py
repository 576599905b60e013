"""S12: a link works once and for minutes, looking does not use it up, and a session is of exactly one consumer."""

import pytest
from django.test import Client

from subscriptions import consumers
from subscriptions.access import portal_visits
from subscriptions.models import AuditEntry, Consumer, PortalVisit
from tests.conftest import Api
from tests.console import logged_in
from tests.ledger import ledger
from tests.portal import inside, link
from tests.walk import new_endpoint, pass_time

pytestmark = pytest.mark.django_db


def is_inside(client: Client) -> bool:
    status = client.get("/portal/").status_code
    assert status in (200, 403)
    return status == 200


def test_s12_a_producer_asks_for_a_link_that_lets_one_in_once(producer: Api, acme: Consumer) -> None:
    made = producer.post("consumers/acme/portal-link/")
    first, second = Client(), Client()
    path = made.json()["url"].removeprefix("http://testserver")

    assert (made.status_code, set(made.json())) == (201, {"url", "expires_at"})
    assert first.post(path).headers["Location"] == "/portal/"
    late = second.post(path)

    assert (is_inside(first), is_inside(second)) == (True, False)
    assert (late.status_code, b"can no longer be opened" in late.content) == (404, True)


def test_s12_looking_at_a_link_does_not_use_it_up(acme: Consumer) -> None:
    path, client = link(acme), Client()
    before = ledger()
    assert [Client().get(path).status_code, Client().head(path).status_code] == [200, 200]
    assert ledger() == before
    client.post(path)
    assert is_inside(client)


def test_s12_a_link_ends_with_its_time_its_use_and_its_consumer(acme: Consumer) -> None:
    used, late, orphaned = link(acme), link(acme), link(consumers.create(uid="globex"))
    Client().post(used)
    globex = consumers.find("globex")
    assert globex is not None
    consumers.delete(globex)
    pass_time(minutes=15)
    for path in (used, late, orphaned, "/portal/enter/nonsense/"):
        for answer in (Client().get(path), Client().post(path)):
            assert answer.status_code == 404
            assert "portal_session" not in answer.cookies


def test_s12_a_session_ends_by_time(acme: Consumer) -> None:
    client = inside(acme)
    pass_time(minutes=60)
    assert is_inside(client)
    pass_time(minutes=60)
    assert not is_inside(client)


def test_s12_a_session_ends_by_hand_and_its_cookie_is_worth_nothing_afterwards(acme: Consumer) -> None:
    client, copy = inside(acme), Client()
    copy.cookies["portal_session"] = client.cookies["portal_session"].value
    assert is_inside(copy)
    assert client.post("/portal/leave/").headers["Location"] == "/portal/left/"
    assert b"Session ended" in client.get("/portal/left/").content
    assert (is_inside(client), is_inside(copy)) == (False, False)


def test_s12_a_session_ends_with_its_consumer(acme: Consumer) -> None:
    client = inside(acme)
    consumers.delete(acme)
    assert not is_inside(client)


def test_s12_a_second_link_ends_the_session_before_in_that_browser(acme: Consumer) -> None:
    globex = consumers.create(uid="globex")
    new_endpoint(globex, url="https://globex.test/hook")
    client = inside(acme)
    old = client.cookies["portal_session"].value
    client.post(link(globex))
    assert b"https://globex.test/hook" in client.get("/portal/").content
    assert portal_visits.visitor(old) is None


def test_s12_the_cookie_is_kept_from_scripts_and_to_the_portal(acme: Consumer) -> None:
    cookie = inside(acme).cookies["portal_session"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/portal/")


def test_only_hashes_are_stored_and_old_visits_are_forgotten(acme: Consumer) -> None:
    token, _ = portal_visits.new_link(acme, requested_by="test", minutes=15)
    session, _ = portal_visits.open_link(token, minutes=5) or ("", None)
    row = PortalVisit.objects.values().get()
    assert session
    assert token not in str(row)
    assert session not in str(row)
    assert portal_visits.forget_old(days=90) == 0
    pass_time(days=91)
    assert portal_visits.forget_old(days=90) == 1


def test_an_operator_makes_a_link_in_the_console_and_it_is_audited(acme: Consumer) -> None:
    operator = logged_in("olga", group="Operators")
    made = operator.post(f"/admin/consumers/{acme.public_id}/portal-link/", {"why": "their request"})
    answer = operator.get(made.headers["Location"])
    url = answer.context["shown"]["url"]
    path = url.removeprefix("http://testserver")
    assert url in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    assert path not in operator.get(made.headers["Location"]).content.decode()
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target) == ("user olga", "portal.link_created", acme.public_id)
    assert entry.why == "their request"
    assert Client().get(path).status_code == 200
