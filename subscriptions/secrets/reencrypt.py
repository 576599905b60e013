"""Moves every sealed value to the first key of ENCRYPTION_KEYS, so that an old key can be taken out of the list."""

from collections.abc import Callable, Iterator
from uuid import UUID

from django.db import transaction

from subscriptions.models import Endpoint
from subscriptions.secrets.endpoint_secrets import COLUMNS, move
from subscriptions.secrets.vault import Vault

Reencrypt = Callable[[Vault], Iterator[bool]]
_elsewhere: list[Reencrypt] = []


def reencrypt_all(vault: Vault) -> int:
    """How many changed. Running it again changes nothing."""
    return sum(reencrypt_each(vault))


def reencrypt_each(vault: Vault) -> Iterator[bool]:
    """Row by row, while the system runs: whether each changed."""
    yield from (_reencrypt(endpoint_id, vault) for endpoint_id in _endpoint_ids())
    for elsewhere in _elsewhere:
        yield from elsewhere(vault)


def seals_too(reencrypt: Reencrypt) -> None:
    """Registers the sealed values of another app, which this one does not know."""
    _elsewhere.append(reencrypt)


def _endpoint_ids() -> Iterator[UUID]:
    return Endpoint.objects.order_by("id").values_list("id", flat=True).iterator(chunk_size=1000)


@transaction.atomic
def _reencrypt(endpoint_id: UUID, vault: Vault) -> bool:
    # Locked, because a rotation at this moment must not be overwritten with the secret it replaced.
    endpoint = Endpoint.objects.select_for_update(no_key=True).get(id=endpoint_id)
    changes = {
        column: move(vault, bytes(sealed), endpoint_id=endpoint_id, old=column, new=column)
        for column in COLUMNS
        if (sealed := getattr(endpoint, column)) is not None and not vault.is_current(bytes(sealed))
    }
    if changes:
        Endpoint.objects.filter(id=endpoint_id).update(**changes)
    return bool(changes)
