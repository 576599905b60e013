"""Logging in to the console: failures are limited by account and by address, and say nothing about who exists."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models import F
from django.test import Client
from django.utils import timezone

from deliveries.console.accounts import throttle
from deliveries.console.accounts.models import LoginThrottle

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def passwords_are_hashed_cheaply(settings: Any) -> None:
    """Failures are forgiven by the clock, and a slow machine must not have time for that."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


def log_in(username: str, password: str, *, client: Client | None = None, address: str = "192.0.2.1") -> Any:
    return (client or Client()).post(
        "/admin/login/?next=/admin/", {"username": username, "password": password}, REMOTE_ADDR=address
    )


def test_after_ten_failures_even_the_right_password_has_to_wait(olga: User) -> None:
    for number in range(10):
        assert log_in("olga", "wrong", address=f"192.0.2.{number}").status_code == 200
    refused = log_in("olga", PASSWORD, address="192.0.2.200")
    assert refused.status_code == 429
    assert refused["Retry-After"] == "90"
    assert b"Too many failed logins" in refused.content
    assert not Session.objects.exists()


def test_a_name_that_does_not_exist_is_answered_like_one_that_does(olga: User) -> None:
    def answers(name: str) -> list[tuple[int, bytes]]:
        tried = [log_in(name, "wrong", address=f"192.0.2.{number}") for number in range(12)]
        return [(answer.status_code, _without_tokens(answer.content, name)) for answer in tried]

    assert answers("olga") == answers("nobody")


def test_failures_are_forgiven_one_after_the_other(olga: User) -> None:
    for number in range(10):
        log_in("olga", "wrong", address=f"192.0.2.{number}")
    _pass(seconds=91)
    assert log_in("olga", PASSWORD).status_code == 302


def test_an_address_that_guesses_many_names_is_stopped(olga: User) -> None:
    for number in range(30):
        assert log_in(f"name{number}", "wrong").status_code == 200
    assert log_in("olga", PASSWORD).status_code == 429
    assert log_in("olga", PASSWORD, address="192.0.2.2").status_code == 302


def test_successes_are_not_counted(olga: User) -> None:
    for _ in range(40):
        assert log_in("olga", PASSWORD).status_code == 302


def test_a_stranger_who_guesses_does_not_lock_out_a_browser_that_was_in_before(olga: User) -> None:
    own = Client()
    assert log_in("olga", PASSWORD, client=own).status_code == 302
    own.post("/admin/logout/")
    for number in range(12):
        log_in("olga", "wrong", address=f"192.0.2.{number}")
    assert log_in("olga", PASSWORD).status_code == 429
    assert log_in("olga", PASSWORD, client=own).status_code == 302


def test_the_cookie_of_one_account_opens_no_second_bucket_for_another(olga: User) -> None:
    User.objects.create_superuser("otto", password=PASSWORD)
    own = Client()
    log_in("otto", PASSWORD, client=own)
    own.post("/admin/logout/")
    for number in range(10):
        log_in("olga", "wrong", address=f"192.0.2.{number}")
    assert log_in("olga", "wrong", client=own).status_code == 429


def test_a_new_password_makes_every_browser_a_stranger_again(olga: User) -> None:
    own = Client()
    log_in("olga", PASSWORD, client=own)
    own.post("/admin/logout/")
    olga.set_password("another password")
    olga.save()
    for number in range(10):
        log_in("olga", "wrong", address=f"192.0.2.{number}")
    assert log_in("olga", "another password", client=own).status_code == 429


def test_ipv6_counts_by_the_customer_s_network() -> None:
    def counted(address: str) -> str:
        return throttle.buckets(username="x", address=address, device=None)[0].name

    assert counted("2001:db8::1") == counted("2001:db8::ffff:1") != counted("2001:db8:0:1::1")
    assert counted("::ffff:192.0.2.1") == counted("192.0.2.1")


def test_behind_a_proxy_of_ours_the_client_s_address_counts_and_a_made_up_one_does_not(
    olga: User, settings: Any
) -> None:
    settings.PROXIES_IN_FRONT, settings.LOGIN_FAILURES_PER_ADDRESS = 1, 3

    def attempt(forwarded: str) -> int:
        answer = Client().post(
            "/admin/login/", {"username": forwarded, "password": "wrong"},
            headers={"X-Forwarded-For": forwarded}, REMOTE_ADDR="10.0.0.1",
        )  # fmt: skip
        return int(answer.status_code)

    assert [attempt(f"203.0.113.{number}, 198.51.100.7") for number in range(4)] == [200, 200, 200, 429]
    assert attempt("198.51.100.8") == 200


def test_what_is_whole_again_is_forgotten(olga: User) -> None:
    log_in("olga", "wrong")
    assert throttle.forget_old() == 0
    _pass(minutes=16)
    assert throttle.forget_old() == 2
    assert not LoginThrottle.objects.exists()


def test_a_session_of_the_console_ends_after_half_a_day(olga: User) -> None:
    log_in("olga", PASSWORD)
    [session] = Session.objects.all()
    hours = (session.expire_date - timezone.now()).total_seconds() / 3600
    assert 11.9 < hours <= 12


def _pass(**by: float) -> None:
    """Everything counted becomes so much older."""
    LoginThrottle.objects.update(whole_at=F("whole_at") - timedelta(**by))


def _without_tokens(page: bytes, name: str) -> bytes:
    return re.sub(rb'(csrfmiddlewaretoken|form_id)" value="[^"]+"', b"", page).replace(name.encode(), b"NAME")
