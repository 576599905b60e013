"""What an endpoint keeps sealed, and where: each value is bound to its table, its column and its row (S09).

A sealed value that is moved to another row or another column does not open.
"""

from typing import Literal
from uuid import UUID

from subscriptions.secrets.vault import Vault

Column = Literal["secret_encrypted", "previous_secret_encrypted", "headers_encrypted"]

COLUMNS: tuple[Column, ...] = ("secret_encrypted", "previous_secret_encrypted", "headers_encrypted")


def seal(vault: Vault, plain: str, *, endpoint_id: UUID, column: Column) -> bytes:
    return vault.seal(plain, belongs_to=_place(endpoint_id, column))


def unseal(vault: Vault, sealed: bytes, *, endpoint_id: UUID, column: Column) -> str:
    """`VaultError` when its key is missing, or it belongs elsewhere."""
    return vault.open(sealed, belongs_to=_place(endpoint_id, column))


def move(vault: Vault, sealed: bytes, *, endpoint_id: UUID, old: Column, new: Column) -> bytes:
    return seal(vault, unseal(vault, sealed, endpoint_id=endpoint_id, column=old), endpoint_id=endpoint_id, column=new)


def _place(endpoint_id: UUID, column: Column) -> str:
    return f"subscriptions_endpoint.{column} {endpoint_id}"
