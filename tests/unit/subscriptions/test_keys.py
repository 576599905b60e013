"""subscriptions/keys.py without its database: what a key looks like, and which ones need not even be looked up."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions import keys
from subscriptions.models import Role

# A test here that reached for the database would fail: pytest-django lets only those have it that ask.


@pytest.mark.parametrize(("role", "letter"), [(Role.PRODUCER, "p"), (Role.CONSUMER, "c"), (Role.OPERATOR, "o")])
def test_a_key_says_what_it_is_and_whose_role_it_has(role: Role, letter: str) -> None:
    assert re.fullmatch(rf"whk_{letter}_[A-Za-z0-9]{{46}}", keys._new_secret(role))


def test_s10_no_two_keys_are_the_same() -> None:
    assert len({keys._new_secret(Role.PRODUCER) for _ in range(1000)}) == 1000


def test_s10_a_keys_random_part_holds_more_than_200_bits() -> None:
    # Every one of the 62 letters at each of the 40 places: 40 x log2(62) = 238 bits.
    made = [keys._new_secret(Role.PRODUCER).removeprefix("whk_p_")[:40] for _ in range(2000)]

    letters = set(string.ascii_letters + string.digits)
    assert [place for place in range(40) if {secret[place] for secret in made} != letters] == []


def test_s10_a_new_keys_checksum_fits() -> None:
    assert all(keys._checksum_fits(keys._new_secret(role)) for role in Role for _ in range(100))


def test_s10_the_checksum_stays_what_secret_scanners_were_told() -> None:
    assert keys._checksum_fits("whk_p_" + "a" * 40 + "pJuEna")


@settings(deadline=None)
@given(st.integers(0, 51), st.sampled_from(string.ascii_letters + string.digits))
def test_s10_a_mistyped_key_is_told_from_an_unknown_one_without_the_database(place: int, letter: str) -> None:
    secret = keys._new_secret(Role.OPERATOR)
    mistyped = secret[:place] + letter + secret[place + 1 :]

    assert mistyped == secret or keys.verify(mistyped) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whk_",
        "x",
        "whk_p_",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "Bearer whk_p_x",
        # Regression: a checksum over `?` fitted, and the hash of the key itself then broke.
        "whk_\udc80" + keys._checksum("whk_?"),
        "whk_é" + keys._checksum("whk_é"),
    ],
)
def test_s10_what_is_no_key_is_refused_without_the_database(text: str) -> None:
    assert keys.verify(text) is None
