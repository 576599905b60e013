"""API keys: `whk_<role>_<random><checksum>`. Shown once, stored as a hash, revoked at once.

The checksum lets a secret scanner, or a person, tell a mistyped key from an unknown one without a database.
"""

import hashlib
import secrets
import string
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from subscriptions import ids
from subscriptions.models import ApiKey, Consumer, Role

_ALPHABET = string.ascii_letters + string.digits
_RANDOM_LENGTH = 40  # 238 bits
_CHECKSUM_LENGTH = 6
_LETTER = {Role.PRODUCER: "p", Role.CONSUMER: "c", Role.OPERATOR: "o"}
# last_used_at is for people; a write per request would be paid by every emit.
_LAST_USED_RESOLUTION = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: what a valid key says about a request."""

    key_id: UUID
    role: str
    consumer_id: UUID | None
    owner: str

    # Django REST framework asks this of whatever stands in for a user.
    is_authenticated = True


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
    now = timezone.now()
    key = (
        ApiKey.objects.filter(hash=_hash(secret), revoked_at__isnull=True, consumer__deleted_at__isnull=True)
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .only("id", "role", "consumer_id", "owner", "last_used_at")
        .first()
    )
    if key is None:
        return None
    if key.last_used_at is None or now - key.last_used_at > _LAST_USED_RESOLUTION:
        ApiKey.objects.filter(id=key.id).update(last_used_at=now)
    return Caller(key_id=key.id, role=key.role, consumer_id=key.consumer_id, owner=key.owner)


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
