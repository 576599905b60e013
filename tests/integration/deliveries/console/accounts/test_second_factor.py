"""The second factor: set up with a code, asked for at each login, a code counts once, recovery codes once each."""

import base64
import hmac
import re
import struct
import time
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from deliveries.console.accounts import second_factor
from deliveries.console.accounts.models import SecondFactor
from subscriptions.models import AuditEntry

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def passwords_are_hashed_cheaply(settings: Any) -> None:
    """Failures are forgiven by the clock, and a slow machine must not have time for that."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


def log_in(client: Client, code: str = "") -> Any:
    return client.post("/admin/login/?next=/admin/", {"username": "olga", "password": PASSWORD, "code": code})


def code_of(user: User, *, steps: int = 0) -> str:
    """What an authenticator app shows, so many steps from now: by RFC 6238, without the product's own function."""
    secret = base64.b32decode(second_factor.secret_of(SecondFactor.objects.get(user=user)))
    step = int(time.time()) // second_factor.STEP_SECONDS + steps
    digest = hmac.digest(secret, struct.pack(">Q", step), "sha1")
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4]) & 0x7FFFFFFF) % 10**6:06d}"


def set_up(user: User) -> list[str]:
    """Through the pages, as a person does. The codes that were shown."""
    client = Client()
    client.force_login(user)
    client.post("/admin/account/second-factor/", {"step": "begin"})
    page = client.get("/admin/account/").content.decode()
    [picture] = re.findall(r'src="data:image/svg\+xml;charset=utf-8,([^"]+)"', page)
    # A picture by itself has to say what it is.
    assert ElementTree.fromstring(unquote(picture)).tag == "{http://www.w3.org/2000/svg}svg"
    shown = client.post("/admin/account/second-factor/", {"step": "confirm", "code": code_of(user)})
    codes_page = client.get(shown["Location"])
    found = re.findall(r'c-mono">([A-Z0-9]{5}-[A-Z0-9]{5})<', codes_page.content.decode())
    assert len(found) == second_factor.RECOVERY_CODES
    assert client.get(shown["Location"]).status_code == 404
    return found


def test_once_set_up_the_password_alone_is_not_enough(olga: User) -> None:
    set_up(olga)
    client = Client()
    assert b"Enter the one-time code" in log_in(client).content
    assert b"This code is wrong" in log_in(client, "000000").content
    assert client.get("/admin/").status_code == 302
    assert log_in(client, code_of(olga, steps=1)).status_code == 302
    assert client.get("/admin/").status_code == 200


def test_a_code_counts_once(olga: User) -> None:
    set_up(olga)
    code = code_of(olga, steps=1)
    assert log_in(Client(), code).status_code == 302
    assert log_in(Client(), code).status_code == 200


def test_each_recovery_code_counts_once(olga: User) -> None:
    first, second, *_ = set_up(olga)
    assert log_in(Client(), first.lower()).status_code == 302
    assert log_in(Client(), first).status_code == 200
    assert log_in(Client(), second).status_code == 302


def test_until_it_is_confirmed_nothing_changes(olga: User) -> None:
    second_factor.begin(olga)
    assert log_in(Client()).status_code == 302


def test_a_wrong_code_does_not_confirm_it(olga: User) -> None:
    client = Client()
    client.force_login(olga)
    client.post("/admin/account/second-factor/", {"step": "begin"})
    client.post("/admin/account/second-factor/", {"step": "confirm", "code": "²²²²²²"})
    assert second_factor.of(olga) is None


def test_it_is_removed_with_a_code_and_not_without(olga: User) -> None:
    set_up(olga)
    client = Client()
    client.force_login(olga)
    client.post("/admin/account/second-factor/", {"step": "remove", "code": "123456"})
    assert second_factor.of(olga) is not None
    client.post("/admin/account/second-factor/", {"step": "remove", "code": code_of(olga, steps=1)})
    assert second_factor.of(olga) is None
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["user.second_factor_set", "user.second_factor_removed"]


def test_codes_to_remove_it_cannot_be_guessed_for_long(olga: User) -> None:
    set_up(olga)
    client = Client()
    client.force_login(olga)
    for number in range(10):
        client.post("/admin/account/second-factor/", {"step": "remove", "code": f"{number:06d}"})
    client.post("/admin/account/second-factor/", {"step": "remove", "code": code_of(olga, steps=1)})
    assert second_factor.of(olga) is not None


def test_a_login_over_somebody_else_s_session_keeps_the_second_factor_in_mind(olga: User, settings: Any) -> None:
    settings.CONSOLE_REQUIRE_SECOND_FACTOR = True
    set_up(olga)
    client = Client()
    client.force_login(User.objects.create_superuser("otto", password=PASSWORD))
    log_in(client, code_of(olga, steps=1))
    assert client.get("/admin/").status_code == 200


def test_setting_it_up_anew_does_not_replace_one_that_is_on(olga: User) -> None:
    set_up(olga)
    before = SecondFactor.objects.get().secret_encrypted
    client = Client()
    client.force_login(olga)
    client.post("/admin/account/second-factor/", {"step": "begin"})
    assert SecondFactor.objects.get().secret_encrypted == before


def test_the_secret_is_sealed_and_no_longer_shown_once_it_is_on(olga: User) -> None:
    second_factor.begin(olga)
    factor = SecondFactor.objects.get()
    secret = second_factor.secret_of(factor)
    assert secret.encode() not in bytes(factor.secret_encrypted)
    SecondFactor.objects.all().delete()
    set_up(olga)
    client = Client()
    client.force_login(olga)
    page = client.get("/admin/account/").content.decode()
    shown = second_factor.secret_of(SecondFactor.objects.get())
    assert shown[:4] + " " + shown[4:8] not in page


def test_where_it_is_required_nothing_else_can_be_seen_before(olga: User, settings: Any) -> None:
    settings.CONSOLE_REQUIRE_SECOND_FACTOR = True
    client = Client()
    log_in(client)
    for path in ("/admin/", "/admin/endpoints/", "/admin/users/"):
        answer = client.get(path)
        assert (answer.status_code, answer["Location"]) == (302, "/admin/account/"), path
    assert client.get("/admin/account/").status_code == 200
    set_up(olga)
    client = Client()
    log_in(client, code_of(olga, steps=1))
    assert client.get("/admin/").status_code == 200


def test_the_command_helps_somebody_who_lost_everything(olga: User) -> None:
    set_up(olga)
    call_command("reset_second_factor", "olga", "--why", "lost her phone")
    assert log_in(Client()).status_code == 302
    entry = AuditEntry.objects.get(action="user.second_factor_removed")
    assert (entry.target, entry.why, entry.actor_kind) == ("olga", "lost her phone", "command")


def test_reencrypting_moves_it_to_the_first_key(olga: User, settings: Any) -> None:
    set_up(olga)
    settings.ENCRYPTION_KEYS = ["k2:" + base64.b64encode(b"2" * 32).decode(), *settings.ENCRYPTION_KEYS]
    call_command("reencrypt")
    assert bytes(SecondFactor.objects.get().secret_encrypted).startswith(b"k2\0")
    assert log_in(Client(), code_of(olga, steps=1)).status_code == 302
