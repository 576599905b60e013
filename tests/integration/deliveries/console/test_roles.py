"""Who may do what: a read-only user can change nothing, by page or by forged POST, and neither can anybody else."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import resolve

from deliveries.console.site import ACTION, OPERATE
from subscriptions import event_types, keys
from subscriptions.models import Consumer, Endpoint, Role
from tests.console import ROLES, dead_letters, logged_in, on_the_map, role
from tests.forms import form_to
from tests.ledger import ledger

pytestmark = pytest.mark.django_db(transaction=True)

FOR_ADMINISTRATORS = [
    ("new-user/add/", {"name": "mallory", "role": "Read-only"}),
    ("users/{user}/role/", {"role": "Operators"}),
    ("users/{user}/reset-password/", {}),
]
ACTIONS = [
    ("deliveries/{delivery}/replay/", {}),
    ("deliveries/{delivery}/retry-now/", {}),
    ("deliveries/{delivery}/give-up/", {}),
    ("events/{event}/resend/", {}),
    ("endpoints/{endpoint}/pause/", {}),
    ("endpoints/{endpoint}/resume/", {}),
    ("endpoints/{endpoint}/disable/", {"why": "x"}),
    ("endpoints/{endpoint}/probe/", {}),
    ("endpoints/{endpoint}/test/", {}),
    ("endpoints/{endpoint}/check-up/", {}),
    ("consumers/{consumer}/portal-link/", {}),
    ("endpoints/{endpoint}/rotate/", {"why": "x", "overlap_seconds": "0"}),
    ("switches/on/", {"scope": "everything", "why": "x"}),
    ("switches/off/", {"scope": "everything", "why": "x"}),
    ("dead-letters/replay/start/", {"all": "yes", "rate": "5", "why": "x"}),
    ("replays/{replay}/cancel/", {}),
    ("endpoints/{endpoint}/limits/change/", {"max_in_flight": "1", "timeout_seconds": "1"}),
    ("consumers/{consumer}/edit/save/", {"uid": "stolen"}),
    ("new-key/make/", {"role": "operator", "scopes": "events:read"}),
    ("keys/{key}/revoke/", {}),
    ("new-event-type/declare/", {"name": "made.up"}),
    ("event-types/{type}/archive/", {}),
    ("new-signature/make/", {"name": "made-up", "signed": "{body}"}),
    ("signatures/own-way/delete/", {}),
    *FOR_ADMINISTRATORS,
]


@pytest.fixture
def given(acme: Consumer) -> dict[str, str]:
    from deliveries import replay
    from deliveries.replay import Filter

    endpoint, [delivery, *_] = dead_letters(acme, 2)
    job = replay.start(Filter(), consumer=None, rate_per_second=1, requested_by="somebody")
    return {
        "delivery": delivery.public_id, "event": str(delivery.event_id), "endpoint": endpoint.public_id,
        "replay": job.public_id,
        "consumer": acme.public_id, "key": keys.issue(role=Role.CONSUMER, consumer=acme)[0].public_id,
        "type": event_types.create(name="order.made").name, "user": str(User.objects.create_user("colleague").pk),
    }  # fmt: skip


def without_sessions() -> dict[str, Any]:
    return {table: rows for table, rows in ledger().items() if table not in ("django_session", "auth_user")}


@pytest.mark.parametrize(("path", "form"), ACTIONS)
def test_a_read_only_user_is_refused_and_nothing_changes(
    given: dict[str, str], path: str, form: dict[str, str]
) -> None:
    reader = logged_in("rita", group="Read-only")
    before = without_sessions()
    answer = reader.post(f"/admin/{path.format(**given)}", form)
    assert answer.status_code == 403
    assert without_sessions() == before


@pytest.mark.parametrize(("path", "form"), ACTIONS)
def test_a_stranger_is_sent_to_the_login(given: dict[str, str], path: str, form: dict[str, str]) -> None:
    before = without_sessions()
    answer = Client().post(f"/admin/{path.format(**given)}", form)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/admin/login/")
    assert without_sessions() == before


def test_a_deed_without_its_csrf_token_is_refused(given: dict[str, str]) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = logged_in("olga", group="Operators").cookies
    before = without_sessions()
    assert strict.post("/admin/switches/on/", {"scope": "everything", "why": "x"}).status_code == 403
    assert without_sessions() == before


def test_a_deed_is_not_done_by_get(given: dict[str, str]) -> None:
    operator = logged_in("olga", group="Operators")
    before = without_sessions()
    for path, _ in ACTIONS[: -len(FOR_ADMINISTRATORS)]:
        assert operator.get(f"/admin/{path.format(**given)}").status_code == 405, path
    assert without_sessions() == before


def test_every_action_on_the_map_is_among_those_tested_here(given: dict[str, str]) -> None:
    """A new action cannot be forgotten: some path in ACTIONS leads to it, or this fails."""
    tested = {resolve(f"/admin/{path.format(**given)}").url_name for path, _ in ACTIONS}
    assert on_the_map(ACTION) <= tested


def test_a_page_answers_no_post(given: dict[str, str]) -> None:
    operator = logged_in("olga", group="Operators")
    for page in ("", "dead-letters/", "dead-letters/replay/", "replays/", "deliveries/", "events/", "endpoints/",
                 "consumers/", "switches/", "audit/", "find/", "limits/", "keys/",
                 "event-types/", "new-key/"):  # fmt: skip
        assert operator.post(f"/admin/{page}").status_code == 405, page


def test_a_reader_sees_pages_without_buttons(given: dict[str, str]) -> None:
    reader = logged_in("rita", group="Read-only")
    for path in (
        "",
        "dead-letters/",
        f"deliveries/{given['delivery']}/",
        f"endpoints/{given['endpoint']}/",
        "switches/",
        f"consumers/{given['consumer']}/",
        f"keys/{given['key']}/",
        "keys/",
        f"event-types/{given['type']}/",
        "limits/",
    ):
        answer = reader.get(f"/admin/{path}")
        assert answer.status_code == 200
        assert b'method="post" action="/admin/' not in answer.content.replace(b'id="logout-form" ', b"").replace(
            b'method="post" action="/admin/logout/', b""
        ), path


def test_staff_without_a_role_sees_nothing(given: dict[str, str]) -> None:
    assert logged_in("nobody").get("/admin/dead-letters/").status_code == 403


def test_the_roles_hold_what_their_names_say(db: None) -> None:
    for name in ROLES:
        role(name)
    held = {
        group.name: {f"{each.content_type.app_label}.{each.codename}" for each in group.permissions.all()}
        for group in Group.objects.all()
    }
    assert all(".view_" in name for name in held["Read-only"])
    assert OPERATE in held["Operators"]
    assert not any(".delete_" in name or name.startswith("auth.") for name in held["Operators"])


def test_a_form_writes_only_what_was_changed(given: dict[str, str]) -> None:
    """The engine writes to the same row meanwhile: an edit of a limit must not bring an old status back."""
    operator = logged_in("olga", group="Operators")
    path = f"/admin/endpoints/{given['endpoint']}/limits/"
    form = form_to(operator.get(path), f"{path}change/")
    Endpoint.objects.update(status="disabled", disabled_reason="410")
    assert operator.post(f"{path}change/", {**form.values, "max_in_flight": "7"}).status_code == 302
    endpoint = Endpoint.objects.get()
    assert (endpoint.max_in_flight, endpoint.status, endpoint.disabled_reason) == (7, "disabled", "410")


@pytest.mark.parametrize(("path", "form"), FOR_ADMINISTRATORS)
def test_an_operator_manages_no_users(given: dict[str, str], path: str, form: dict[str, str]) -> None:
    operator = logged_in("olga", group="Operators")
    before = ledger(but=["django_session"])
    assert operator.post(f"/admin/{path.format(**given)}", form).status_code == 403
    assert operator.get("/admin/users/").status_code == 403
    assert b"Users and roles" not in operator.get("/admin/").content
    assert ledger(but=["django_session"]) == before
