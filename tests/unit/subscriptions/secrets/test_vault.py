"""subscriptions/secrets/vault.py: sealed values open with the right key, for the right row, and else not at all."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions.secrets.vault import Vault, VaultError, parse_keys

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def entry(key_id: str, letter: bytes) -> str:
    return f"{key_id}:{base64.b64encode(letter * 32).decode()}"


@pytest.fixture
def vault() -> Vault:
    return parse_keys([entry("k1", b"a")])


VAULT = parse_keys([entry("k1", b"a")])


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_sealed_opens_for_its_row(plain: str, belongs_to: str) -> None:
    assert VAULT.open(VAULT.seal(plain, belongs_to=belongs_to), belongs_to=belongs_to) == plain


def test_s09_the_secret_is_not_in_what_is_stored(vault: Vault) -> None:
    sealed = vault.seal(SECRET, belongs_to="row")

    assert SECRET.encode() not in sealed
    assert base64.b64decode(SECRET.removeprefix("whsec_")) not in sealed


def test_sealing_the_same_twice_gives_two_different_values(vault: Vault) -> None:
    assert vault.seal(SECRET, belongs_to="row") != vault.seal(SECRET, belongs_to="row")


def test_s09_a_sealed_value_says_which_key_it_needs(vault: Vault) -> None:
    assert vault.seal(SECRET, belongs_to="row").startswith(b"k1\0")


def test_a_value_moved_to_another_row_does_not_open(vault: Vault) -> None:
    sealed = vault.seal(SECRET, belongs_to="row 1")

    with pytest.raises(VaultError, match="belongs to another row"):
        vault.open(sealed, belongs_to="row 2")


def test_a_value_with_any_byte_changed_does_not_open(vault: Vault) -> None:
    sealed = vault.seal(SECRET, belongs_to="row")

    for position in range(len(sealed)):
        changed = sealed[:position] + bytes([sealed[position] ^ 1]) + sealed[position + 1 :]
        with pytest.raises(VaultError):
            vault.open(changed, belongs_to="row")


def test_a_value_cut_short_does_not_open(vault: Vault) -> None:
    sealed = vault.seal(SECRET, belongs_to="row")

    for length in range(len(sealed)):
        with pytest.raises(VaultError):
            vault.open(sealed[:length], belongs_to="row")


def test_s09_after_a_new_key_is_put_first_old_values_still_open_and_new_ones_use_it(vault: Vault) -> None:
    sealed = vault.seal(SECRET, belongs_to="row")

    rotated = parse_keys([entry("k2", b"b"), entry("k1", b"a")])

    assert rotated.open(sealed, belongs_to="row") == SECRET
    assert not rotated.is_current(sealed)
    assert rotated.is_current(rotated.seal(SECRET, belongs_to="row"))


def test_a_value_whose_key_was_taken_away_says_which_key_is_missing(vault: Vault) -> None:
    sealed = vault.seal(SECRET, belongs_to="row")

    with pytest.raises(VaultError, match="k1"):
        parse_keys([entry("k2", b"b")]).open(sealed, belongs_to="row")


def test_another_key_under_the_same_id_does_not_open_it(vault: Vault) -> None:
    sealed = vault.seal(SECRET, belongs_to="row")

    with pytest.raises(VaultError, match="does not open"):
        parse_keys([entry("k1", b"b")]).open(sealed, belongs_to="row")


@pytest.mark.parametrize(
    "entries",
    [
        ["k1"],
        ["k1:"],
        [":" + base64.b64encode(b"a" * 32).decode()],
        ["k 1:" + base64.b64encode(b"a" * 32).decode()],
        ["k1:" + base64.b64encode(b"a" * 16).decode()],
        ["k1:" + base64.b64encode(b"a" * 33).decode()],
        ["k1:" + "a" * 32],
        ["k1:not base64!"],
        [entry("k1", b"a"), "k2"],
    ],
)
def test_a_key_that_is_none_is_refused_without_being_shown(entries: list[str]) -> None:
    with pytest.raises(VaultError, match="takes `id:base64 of 32 bytes`") as refusal:
        parse_keys(entries)

    assert base64.b64encode(b"a" * 16).decode()[:16] not in str(refusal.value)


def test_no_keys_at_all_are_refused() -> None:
    with pytest.raises(VaultError, match="is empty"):
        parse_keys([])


def test_two_keys_of_one_id_are_refused() -> None:
    with pytest.raises(VaultError, match="'k1' twice"):
        parse_keys([entry("k1", b"a"), entry("k1", b"b")])


def test_s09_a_vault_shows_none_of_its_keys(vault: Vault) -> None:
    assert base64.b64encode(b"a" * 32).decode() not in repr(vault)
    assert repr(vault).startswith("<subscriptions.secrets.vault.Vault object at")
