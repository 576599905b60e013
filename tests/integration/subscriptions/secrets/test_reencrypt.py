"""subscriptions/secrets/reencrypt.py: S09, a key can be replaced while the system runs."""

import base64

import pytest
from django.core.management import call_command
from pytest_django import Settings

from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint
from subscriptions.secrets.endpoint_secrets import COLUMNS, Column, unseal
from subscriptions.secrets.reencrypt import reencrypt_all
from subscriptions.secrets.vault import Vault, VaultError, parse_keys

pytestmark = pytest.mark.django_db

OLD = "old:" + base64.b64encode(b"o" * 32).decode()
NEW = "new:" + base64.b64encode(b"n" * 32).decode()


@pytest.fixture
def sealed(settings: Settings, acme: Consumer) -> tuple[Endpoint, str, str]:
    """An endpoint in a rotation, with a custom header, all of it under the old key; its two secrets."""
    settings.ENCRYPTION_KEYS = [OLD]
    endpoint, first = endpoints.create(consumer=acme, url="http://127.0.0.1:9/", headers={"X-Token": "t"})
    second = endpoints.rotate_secret(endpoint, overlap_seconds=3600).secret
    return endpoint, first, second


def test_s09_every_sealed_value_moves_to_the_first_key_and_opens_as_before(
    sealed: tuple[Endpoint, str, str], settings: Settings
) -> None:
    endpoint, first, second = sealed
    settings.ENCRYPTION_KEYS = [NEW, OLD]

    call_command("reencrypt")

    endpoint.refresh_from_db()
    only_new = parse_keys([NEW])
    assert opened(endpoint, only_new) == [second, first, '{"X-Token":"t"}']


def opened(endpoint: Endpoint, vault: Vault) -> list[str]:
    endpoint.refresh_from_db()
    return [
        unseal(vault, bytes(getattr(endpoint, column)), endpoint_id=endpoint.id, column=column) for column in COLUMNS
    ]


@pytest.mark.parametrize("column", COLUMNS)
def test_s09_a_value_moved_to_another_column_of_its_row_does_not_open(
    sealed: tuple[Endpoint, str, str], column: Column
) -> None:
    endpoint, _, _ = sealed
    endpoint.refresh_from_db()

    for other in set(COLUMNS) - {column}:
        with pytest.raises(VaultError, match="does not open"):
            unseal(parse_keys([OLD]), bytes(getattr(endpoint, other)), endpoint_id=endpoint.id, column=column)


def test_running_it_again_changes_nothing(sealed: tuple[Endpoint, str, str]) -> None:
    vault = parse_keys([NEW, OLD])

    assert [reencrypt_all(vault), reencrypt_all(vault)] == [1, 0]


def test_a_key_that_is_missing_is_named_and_nothing_changes(sealed: tuple[Endpoint, str, str]) -> None:
    endpoint, _, _ = sealed
    before = bytes(Endpoint.objects.get(id=endpoint.id).secret_encrypted)

    with pytest.raises(VaultError, match="old"):
        reencrypt_all(parse_keys([NEW]))

    assert bytes(Endpoint.objects.get(id=endpoint.id).secret_encrypted) == before
