"""API keys: `whk_<role>_<random><checksum>`. Shown once, stored as a hash, revoked at once.

The checksum lets a secret scanner, or a person, tell a mistyped key from an unknown one without a database.
"""

import hashlib
import secrets
import string
import time
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from subscriptions import ids
from subscriptions.models import ApiKey, Consumer, Role

_ALPHABET = string.ascii_letters + string.digits
_RANDOM_LENGTH = 40  # 238 bits
_CHECKSUM_LENGTH = 6
_LETTER = {Role.PRODUCER: "p", Role.CONSUMER: "c", Role.OPERATOR: "o"}
# last_used_at is for people; a write per request would be paid by every emit.
_LAST_USED_RESOLUTION = timedelta(minutes=1)
# How long a process knows a key it has verified (seconds), and how many of them.
_REMEMBERED_SECONDS = 30.0
_REMEMBERED_KEYS = 1000

# By hand: every request asks this, and building the query costs the ORM more than the rest of an emit.
FIND_KEY = """
    SELECT key.id, key.role, key.consumer_id, key.owner,
        key.last_used_at IS NULL OR key.last_used_at < now() - %(resolution_seconds)s * interval '1 second'
    FROM subscriptions_apikey key
    LEFT JOIN subscriptions_consumer consumer ON consumer.id = key.consumer_id
    WHERE key.hash = %(hash)s AND key.revoked_at IS NULL AND consumer.deleted_at IS NULL
        AND (key.expires_at IS NULL OR key.expires_at > now())
"""
"""The living key of this hash, and whether its last use is worth noting again."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: what a valid key says about a request."""

    key_id: UUID
    role: str
    consumer_id: UUID | None
    owner: str

    # Django REST framework asks this of whatever stands in for a user.
    is_authenticated = True


# By the key's hash, never the key itself.
_remembered: dict[bytes, tuple[Caller, float]] = {}


def issue(
    *, role: Role, consumer: Consumer | None = None, name: str = "", owner: str = "", expires_at: datetime | None = None
) -> tuple[ApiKey, str]:
    """A new key and its only showing."""
    secret = _new_secret(role)
    key_id = ids.new_uuid()
    key = ApiKey.objects.create(
        id=key_id,
        role=role,
        consumer=consumer,
        owner=consumer.public_id if consumer else owner or ids.show("key", key_id),
        name=name,
        hint=secret[-4:],
        hash=_hash(secret),
        expires_at=expires_at,
    )
    return key, secret


def verify(secret: str) -> Caller | None:
    """The caller behind a key, or None. A hash is looked up, so there is nothing to compare byte by byte."""
    if not _checksum_fits(secret):
        return None
    row = _find(secret)
    if row is None:
        _remembered.pop(_hash(secret), None)
        return None
    key_id, role, consumer_id, owner, used_long_ago = row
    if used_long_ago:
        ApiKey.objects.filter(id=key_id).update(last_used_at=timezone.now())
    caller = Caller(key_id=key_id, role=role, consumer_id=consumer_id, owner=owner)
    _remember(secret, caller)
    return caller


def remembered(secret: str) -> Caller | None:
    """Who called with this key a moment ago. It may have been revoked since: look before you rely on it."""
    caller, until = _remembered.get(_hash(secret), (None, 0.0))
    return caller if time.monotonic() < until else None


def _remember(secret: str, caller: Caller) -> None:
    if len(_remembered) >= _REMEMBERED_KEYS:
        _remembered.clear()
    _remembered[_hash(secret)] = caller, time.monotonic() + _REMEMBERED_SECONDS


def _find(secret: str) -> Any:
    """A request's first statement. A connection that died since the last one is replaced, once, without a word."""
    parameters: dict[str, Any] = {"hash": _hash(secret), "resolution_seconds": _LAST_USED_RESOLUTION.total_seconds()}
    try:
        with connection.cursor() as cursor:
            cursor.execute(FIND_KEY, parameters)
            return cursor.fetchone()
    except (OperationalError, InterfaceError):
        if connection.in_atomic_block:
            raise
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute(FIND_KEY, parameters)
            return cursor.fetchone()


def revoke(*, key_id: UUID, consumer: Consumer) -> bool:
    """True if this call revoked it."""
    live = ApiKey.objects.filter(id=key_id, consumer=consumer, revoked_at__isnull=True)
    return live.update(revoked_at=timezone.now()) == 1


def _new_secret(role: Role) -> str:
    stem = f"whk_{_LETTER[role]}_" + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return stem + _checksum(stem)


def _checksum_fits(secret: str) -> bool:
    stem, checksum = secret[:-_CHECKSUM_LENGTH], secret[-_CHECKSUM_LENGTH:]
    return secret.isascii() and stem.startswith("whk_") and _checksum(stem) == checksum


def _checksum(stem: str) -> str:
    value = zlib.crc32(stem.encode())
    letters = []
    for _ in range(_CHECKSUM_LENGTH):
        value, index = divmod(value, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
