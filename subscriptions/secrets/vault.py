"""Secrets at rest: AES-256-GCM under keys that have ids, so a key can be replaced while the system runs.

A sealed value is `key id, NUL, 12-byte nonce, ciphertext`. What a secret belongs to is authenticated with it, so a
sealed value moved to another row does not open.
"""

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

_NONCE_BYTES = 12


class VaultError(Exception):
    """A sealed value cannot be opened, or the keys make no sense. Never holds a secret."""


@dataclass(frozen=True, slots=True, repr=False)
class Vault:
    keys: dict[str, AESGCM]
    primary: str

    def seal(self, plain: str, *, belongs_to: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self.keys[self.primary].encrypt(nonce, plain.encode(), belongs_to.encode())
        return self.primary.encode() + b"\0" + nonce + sealed

    def open(self, sealed: bytes, *, belongs_to: str) -> str:
        key_id, _, rest = sealed.partition(b"\0")
        key = self.keys.get(key_id.decode(errors="replace"))
        if key is None:
            raise VaultError(f"Sealed under key {key_id!r}, which ENCRYPTION_KEYS does not hold. Add that key back.")
        try:
            return key.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], belongs_to.encode()).decode()
        except (InvalidTag, ValueError):  # the second for a value that was cut short
            raise VaultError("A sealed value does not open: it was changed, or belongs to another row.") from None

    def is_current(self, sealed: bytes) -> bool:
        return sealed.partition(b"\0")[0] == self.primary.encode()


def parse_keys(entries: Sequence[str]) -> Vault:
    """The vault described by ENCRYPTION_KEYS; its first entry is the one that seals."""
    keys: dict[str, AESGCM] = {}
    for entry in entries:
        key_id, _, encoded = entry.partition(":")
        try:
            raw = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raw = b""
        if not key_id or not key_id.isalnum() or len(raw) != 32:
            raise VaultError(
                "ENCRYPTION_KEYS takes `id:base64 of 32 bytes`, comma-separated; one entry is not of that form."
            )
        if key_id in keys:
            raise VaultError(f"ENCRYPTION_KEYS names the key id {key_id!r} twice.")
        keys[key_id] = AESGCM(raw)
    if not keys:
        raise VaultError("ENCRYPTION_KEYS is empty. Endpoint secrets cannot be stored without it.")
    return Vault(keys=keys, primary=next(iter(keys)))


def vault() -> Vault:
    return _vault_of(tuple(settings.ENCRYPTION_KEYS))


@lru_cache(maxsize=4)
def _vault_of(entries: tuple[str, ...]) -> Vault:
    return parse_keys(entries)
