"""Users and roles: administrators add people, give them roles, keep them out and help them back in."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from deliveries.console.accounts import second_factor
from deliveries.console.accounts.users import role_of
from subscriptions.idempotency import fingerprint
from subscriptions.models import IdempotencyRecord
from tests.audit import entries
from tests.console import logged_in, role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def root(db: None) -> Client:
    return logged_in("root", is_superuser=True)


def colleague(name: str = "ulla", **fields: Any) -> User:
    user = User.objects.create_user(name, password="the-old-one-1", is_staff=True, **fields)
    user.groups.add(role("Read-only"))
    return user


def test_a_new_user_logs_in_with_the_password_that_is_shown_once(root: Client) -> None:
    role("Operators")
    made = root.post("/admin/new-user/add/", {"name": "rita", "email": "rita@x.test", "role": "Operators"})
    page, again = root.get(made.headers["Location"]), root.get(made.headers["Location"])
    rita = Client()
    form = {"username": "rita", "password": page.context["shown"]["password"]}
    assert rita.post("/admin/login/", form).status_code == 302
    assert rita.get("/admin/dead-letters/").context["may_operate"]
    assert rita.get("/admin/users/").status_code == 403
    assert again.context["shown"] is None


@pytest.mark.parametrize(
    "form",
    [
        {"name": ""}, {"name": "a b"}, {"name": "a" * 151}, {"name": "root"}, {"email": "nowhere"}, {"role": "King"},
        {"role": ""},
    ],
)  # fmt: skip
def test_a_user_that_makes_no_sense_is_not_made(root: Client, form: dict[str, str]) -> None:
    answer = root.post("/admin/new-user/add/", {"name": "rita", "role": "Operators", **form})
    assert (answer.status_code, bool(answer.context["problem"])) == (400, True)
    assert [user.username for user in User.objects.all()] == ["root"]
    assert entries() == []


@pytest.mark.parametrize("wanted", ["Operators", "Administrators"])
def test_a_role_is_given_and_says_so_where_it_is_the_same(root: Client, wanted: str) -> None:
    path = f"/admin/users/{colleague().pk}/role/"
    root.post(path, {"role": wanted})
    assert role_of(User.objects.get(username="ulla")) == wanted
    assert b"has this role already" in root.post(path, {"role": wanted}, follow=True).content
    assert [entry.action for entry in entries()] == ["user.changed"]


def test_who_is_deactivated_is_out_at_once_and_comes_back(root: Client) -> None:
    user, client = colleague(), Client()
    client.force_login(user)
    path = f"/admin/users/{user.pk}"
    root.post(f"{path}/deactivate/", {"why": "left"})
    assert client.get("/admin/").status_code == 302
    assert b"is deactivated already" in root.post(f"{path}/deactivate/", follow=True).content
    root.post(f"{path}/activate/")
    assert client.get("/admin/").status_code == 200


def test_a_new_password_ends_the_old_one_and_its_sessions(root: Client) -> None:
    user, client = colleague(), Client()
    client.force_login(user)
    made = root.post(f"/admin/users/{user.pk}/reset-password/")
    password = root.get(made.headers["Location"]).context["shown"]["password"]
    user.refresh_from_db()
    assert (user.check_password("the-old-one-1"), user.check_password(password)) == (False, True)
    assert client.get("/admin/").status_code == 302


def test_a_second_factor_is_reset_once(root: Client) -> None:
    user = colleague()
    second_factor.begin(user)
    path = f"/admin/users/{user.pk}/reset-second-factor/"
    root.post(path, {"why": "lost phone"})
    assert b"has no second factor" in root.post(path, follow=True).content
    assert [(entry.action, entry.why) for entry in entries()] == [("user.second_factor_removed", "lost phone")]


def test_nobody_changes_themselves_here(root: Client) -> None:
    own = User.objects.get(username="root")
    for action, form in {"role": {"role": "Read-only"}, "deactivate": {}, "reset-password": {}}.items():
        answer = root.post(f"/admin/users/{own.pk}/{action}/", form, follow=True)
        assert b"This is you." in answer.content, action
    own.refresh_from_db()
    assert (own.is_superuser, own.is_active) == (True, True)
    assert entries() == []


def test_who_only_manages_users_makes_no_administrator_and_touches_none(db: None) -> None:
    """A permission of Django's that somebody was given by hand must not be a way to the top."""
    manager = logged_in("mona", group="Operators")
    User.objects.get(username="mona").user_permissions.add(Permission.objects.get(codename="change_user"))
    boss, other = colleague("boss", is_superuser=True), colleague()
    manager.post(f"/admin/users/{boss.pk}/reset-password/")
    manager.post(f"/admin/users/{other.pk}/role/", {"role": "Administrators"})
    manager.post("/admin/new-user/add/", {"name": "rita", "role": "Administrators"})
    boss.refresh_from_db()
    assert boss.check_password("the-old-one-1")
    assert [user.username for user in User.objects.filter(is_superuser=True)] == ["boss"]
    assert entries() == []


def test_an_unknown_user_or_action_is_a_page_that_says_so(root: Client) -> None:
    assert root.get("/admin/users/4711/").status_code == 404
    assert root.get(f"/admin/users/{'9' * 30}/").status_code == 404
    assert root.post(f"/admin/users/{colleague().pk}/promote/").status_code == 404


def test_what_is_kept_of_a_form_does_not_tell_what_was_typed(root: Client) -> None:
    """A form may hold a password: its fingerprint is keyed."""
    given = {"old_password": "not-used-here", "new_password1": "Sommer-2026!", "new_password2": "Sommer-2026!"}
    page = root.get("/admin/password_change/").content.decode()
    form_id = re.findall(r'name="form_id" value="([^"]+)"', page)[-1]
    assert root.post("/admin/password_change/", {**given, "form_id": form_id}).status_code == 302
    plain = fingerprint({name: [value] for name, value in given.items()})
    assert [bytes(row.fingerprint) == plain for row in IdempotencyRecord.objects.all()] == [False]
