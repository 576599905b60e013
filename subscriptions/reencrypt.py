"""Moves every sealed value to the first key of ENCRYPTION_KEYS, so that an old key can be taken out of the list."""

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction

from subscriptions.models import Endpoint
from subscriptions.vault import Vault

_COLUMNS = ("secret_encrypted", "previous_secret_encrypted", "headers_encrypted")


def reencrypt_all(vault: Vault) -> int:
    """How many changed. Running it again changes nothing."""
    return sum(reencrypt_each(vault))


def reencrypt_each(vault: Vault) -> Iterator[bool]:
    """Endpoint by endpoint, while the system runs: whether each changed."""
    return (_reencrypt(endpoint_id, vault) for endpoint_id in _endpoint_ids())


def _endpoint_ids() -> Iterator[UUID]:
    return Endpoint.objects.order_by("id").values_list("id", flat=True).iterator(chunk_size=1000)


@transaction.atomic
def _reencrypt(endpoint_id: UUID, vault: Vault) -> bool:
    # Locked, because a rotation at this moment must not be overwritten with the secret it replaced.
    endpoint = Endpoint.objects.select_for_update(no_key=True).get(id=endpoint_id)
    belongs_to = str(endpoint_id)
    changes = {
        column: vault.seal(vault.open(bytes(sealed), belongs_to=belongs_to), belongs_to=belongs_to)
        for column in _COLUMNS
        if (sealed := getattr(endpoint, column)) is not None and not vault.is_current(bytes(sealed))
    }
    if changes:
        Endpoint.objects.filter(id=endpoint_id).update(**changes)
    return bool(changes)
