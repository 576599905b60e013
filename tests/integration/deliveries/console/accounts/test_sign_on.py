"""Single sign-on against a provider on a real socket: who gets in, as what, and what a forged answer achieves."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from subscriptions.models import AuditEntry
from tests.console import role
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    role("Operators"), role("Read-only")
    with running_provider() as running:
        settings.OIDC_ISSUER = running.issuer
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
        settings.OIDC_OPERATOR_GROUPS, settings.OIDC_READ_ONLY_GROUPS = ["webhooks-ops"], ["engineers"]
        running.person = {"sub": "u-1", "email": "olga@example.test", "groups": ["webhooks-ops"]}
        yield running


def sign_on(client: Client, provider: Provider, path: str = "/admin/sign-on/") -> Any:
    begun = client.get(path)
    assert begun.status_code == 302, begun.content
    return client.get(provider.authorize(begun["Location"]).removeprefix("http://testserver"))


def test_somebody_of_an_operators_group_comes_in_as_an_operator(provider: Provider) -> None:
    client = Client()
    answer = sign_on(client, provider)
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    assert client.get("/admin/").status_code == 200
    user = User.objects.get()
    assert (user.username, user.is_staff, user.is_superuser, user.has_usable_password()) == (
        "olga@example.test", True, False, False,
    )  # fmt: skip
    assert [group.name for group in user.groups.all()] == ["Operators"]


def test_it_goes_on_to_the_page_that_was_asked_for_and_to_no_foreign_one(provider: Provider) -> None:
    assert sign_on(Client(), provider, "/admin/sign-on/?next=/admin/endpoints/")["Location"] == "/admin/endpoints/"
    assert sign_on(Client(), provider, "/admin/sign-on/?next=https://evil.test/")["Location"] == "/admin/"


def test_the_groups_of_each_login_count(provider: Provider) -> None:
    sign_on(Client(), provider)
    provider.person["groups"] = ["engineers"]
    sign_on(Client(), provider)
    assert [group.name for group in User.objects.get().groups.all()] == ["Read-only"]
    provider.person["groups"] = []
    client = Client()
    assert sign_on(client, provider).status_code == 403
    assert client.get("/admin/").status_code == 302
    assert User.objects.get().is_staff is False


def test_groups_may_lie_deeper_in_the_claims(provider: Provider, settings: Any) -> None:
    settings.OIDC_GROUPS_CLAIM = "realm_access.roles"
    provider.person = {"sub": "u-2", "preferred_username": "otto", "realm_access": {"roles": ["engineers"]}}
    assert sign_on(Client(), provider).status_code == 302
    assert User.objects.get().username == "otto"


def test_nobody_becomes_a_local_user_of_the_same_name(provider: Provider) -> None:
    User.objects.create_superuser("olga@example.test", password="a local password")
    sign_on(Client(), provider)
    [local, other] = User.objects.order_by("id")
    assert local.is_superuser
    assert other.username.startswith("olga@example.test-")
    assert not other.is_superuser


def test_somebody_who_was_deactivated_stays_outside(provider: Provider) -> None:
    sign_on(Client(), provider)
    User.objects.update(is_active=False)
    assert sign_on(Client(), provider).status_code == 403


@pytest.mark.parametrize(
    "forged", [{"aud": "another-client"}, {"iss": "https://evil.test"}, {"nonce": "of another login"}, {"exp": 1}]
)
def test_a_token_that_does_not_hold_lets_nobody_in(provider: Provider, forged: dict[str, Any]) -> None:
    provider.changes = forged
    client = Client()
    assert sign_on(client, provider).status_code == 400
    assert client.get("/admin/").status_code == 302
    assert not User.objects.exists()


def test_an_answer_for_another_browser_lets_nobody_in(provider: Provider) -> None:
    begun = Client().get("/admin/sign-on/")
    victim = Client()
    answer = victim.get(provider.authorize(begun["Location"]).removeprefix("http://testserver"))
    assert answer.status_code == 400
    assert not User.objects.exists()


@pytest.mark.parametrize("query", ["", "?code=x", "?state=x", "?error=access_denied"])
def test_a_made_up_answer_is_a_page_and_no_error(provider: Provider, query: str) -> None:
    assert Client().get(f"/admin/sign-on/callback/{query}").status_code == 400


def test_a_provider_that_is_away_is_said_in_words(settings: Any) -> None:
    settings.OIDC_ISSUER = "http://127.0.0.1:1"
    answer = Client().get("/admin/sign-on/")
    assert answer.status_code == 502
    assert b"Signing on did not work" in answer.content


def test_without_an_issuer_there_is_no_sign_on(settings: Any) -> None:
    settings.OIDC_ISSUER = ""
    assert Client().get("/admin/sign-on/").status_code == 404
    assert Client().get("/admin/sign-on/callback/").status_code == 404
    assert b"Continue with" not in Client().get("/admin/login/").content


def test_passwords_can_be_turned_off(provider: Provider, settings: Any) -> None:
    settings.CONSOLE_PASSWORD_LOGIN = False
    User.objects.create_superuser("root", password="a local password")
    page = Client().get("/admin/login/").content.decode()
    assert "Continue with" in page
    assert 'name="password"' not in page
    client = Client()
    assert client.post("/admin/login/", {"username": "root", "password": "a local password"}).status_code == 403
    assert client.get("/admin/").status_code == 302


def test_who_sign_on_lets_in_as_what_is_in_the_audit_log(provider: Provider) -> None:
    for groups in (["webhooks-ops"], ["webhooks-ops"], ["engineers"], [], []):
        provider.person["groups"] = groups
        sign_on(Client(), provider)
    told = AuditEntry.objects.order_by("id").values_list("action", "target", "detail")
    assert list(told) == [
        ("user.created", "olga@example.test", "Operators"),
        ("user.changed", "olga@example.test", "Read-only"),
        ("user.changed", "olga@example.test", "no group that may enter"),
    ]


@pytest.mark.parametrize("person", [{"sub": "x" * 256}, {"sub": ""}, {"sub": "u", "email": "a\0b"}])
def test_claims_that_cannot_be_stored_let_nobody_in(provider: Provider, person: dict[str, Any]) -> None:
    provider.person = {"groups": ["engineers"], **person}
    assert sign_on(Client(), provider).status_code == 400
    assert not User.objects.exists()


def test_one_network_begins_only_so_many_sign_ons(provider: Provider) -> None:
    begun = [
        Client().get("/admin/sign-on/", REMOTE_ADDR=f"2001:db8::{number:x}").status_code for number in range(1, 62)
    ]
    assert begun == [302] * 60 + [429]


def test_the_page_that_was_asked_for_survives_the_button(provider: Provider) -> None:
    page = Client().get("/admin/login/", {"next": "/admin/dead-letters/?a=1&b=2"}).content.decode()
    assert "/admin/sign-on/?next=%2Fadmin%2Fdead-letters%2F%3Fa%3D1%26b%3D2" in page
