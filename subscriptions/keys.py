"""API keys: `whk_<role>_<random><checksum>`. Shown once, stored as a hash, revoked at once.

The checksum lets a secret scanner, or a person, tell a mistyped key from an unknown one without a database.
"""

import hashlib
import secrets
import string
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Least, Now
from django.utils import timezone

from subscriptions import ids
from subscriptions.access import key_rules, key_tree
from subscriptions.access.caller import Caller
from subscriptions.access.scopes import chosen, held
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
    SELECT key.id, key.role, key.consumer_id, key.owner, key.scopes,
        key.last_used_at IS NULL OR key.last_used_at < now() - %(resolution_seconds)s * interval '1 second'
    FROM subscriptions_apikey key
    LEFT JOIN subscriptions_consumer consumer ON consumer.id = key.consumer_id
    WHERE key.hash = %(hash)s AND key.revoked_at IS NULL AND consumer.deleted_at IS NULL
        AND (key.expires_at IS NULL OR key.expires_at > now())
"""
"""The living key of this hash, and whether its last use is worth noting again."""


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """A rotation's new key with its only showing, and the end of the old one."""

    key: ApiKey
    secret: str
    previous_expires_at: datetime


# By the key's hash, never the key itself.
_remembered: dict[bytes, tuple[Caller, float]] = {}


@transaction.atomic
def issue(
    *,
    role: Role,
    consumer: Consumer | None = None,
    name: str = "",
    owner: str = "",
    expires_at: datetime | None = None,
    scopes: Iterable[str] | None = None,
    issued_by: Caller | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its only showing. One made with a key ends no later than it and may do no more."""
    stored = chosen(role, scopes)
    parent = None
    if issued_by is not None:
        parent = key_tree.must_live(issued_by.key_id)
        stored = key_rules.scopes_within(issued_by, role, consumer, stored)
        expires_at = key_rules.no_later(expires_at, parent.expires_at)
    key_rules.make_room(consumer)
    return _create(
        role=role,
        consumer=consumer,
        owner=consumer.public_id if consumer else owner,
        name=name,
        scopes=stored,
        expires_at=expires_at,
        issued_by=parent.id if parent else None,
    )


@transaction.atomic
def rotate(
    *, key_id: UUID, consumer: Consumer | None = None, overlap_seconds: int, by: Caller | None = None
) -> RotatedKey | None:
    """A new key in the place of this one, which works on beside it until the overlap ends. None if it does not live.

    The new one may do the same, is of the same owner and ends when the old one would have. What the old one made hangs
    from it now: the keys of a service's customers do not end because the service changes its own.
    """
    # Before the lock too, which nobody shall hold who has nothing to do.
    if _living(key_id, consumer) is None:
        return None
    key_tree.lock(alone=True)
    old = _living(key_id, consumer)
    if old is None:
        return None
    if by is not None and by.key_id != old.id:
        key_rules.may_replace(by, old)
    overlap = timedelta(seconds=overlap_seconds)
    # By the database's clock, as whoever looks the key up.
    ApiKey.objects.filter(id=old.id).update(expires_at=Least(F("expires_at"), Now() + overlap))
    key_rules.make_room(old.consumer)
    new, secret = _create(
        role=Role(old.role),
        consumer=old.consumer,
        owner=old.owner,
        name=old.name,
        scopes=old.scopes,
        expires_at=old.expires_at,
        issued_by=old.issued_by,
        rotated_by=by.key_id if by else None,
    )
    key_tree.take_place(old=old, new=new)
    old.refresh_from_db(fields=["expires_at"])
    return RotatedKey(key=new, secret=secret, previous_expires_at=cast(datetime, old.expires_at))


@transaction.atomic
def revoke(*, key_id: UUID, consumer: Consumer | None = None, by: Caller | None = None) -> int:
    """How many keys this call revoked: this one, and everything made with it. Within one consumer, if one is given."""
    # Before the lock, which nobody shall hold who has nothing to do.
    if not _keys(consumer).filter(id=key_id).exists():
        return 0
    key_tree.lock(alone=True)
    # Who ends the overlap of its own rotation is not ended by that.
    return len(key_tree.revoke([key_id], spared=by.key_id if by else None))


def verify(secret: str) -> Caller | None:
    """The caller behind a key, or None. A hash is looked up, so there is nothing to compare byte by byte."""
    if not _checksum_fits(secret):
        return None
    row = _find(secret)
    if row is None:
        _remembered.pop(_hash(secret), None)
        return None
    key_id, role, consumer_id, owner, scopes, used_long_ago = row
    if used_long_ago:
        ApiKey.objects.filter(id=key_id).update(last_used_at=timezone.now())
    caller = Caller(key_id=key_id, role=role, consumer_id=consumer_id, owner=owner, scopes=held(role, scopes))
    _remember(secret, caller)
    return caller


def remembered(secret: str) -> Caller | None:
    """Who called with this key a moment ago. It may have been revoked since: look before you rely on it."""
    caller, until = _remembered.get(_hash(secret), (None, 0.0))
    return caller if time.monotonic() < until else None


def is_living(key_id: UUID) -> bool:
    return key_tree.living().filter(id=key_id).exists()


def forget_remembered() -> None:
    """All of them, also when there are too many: the next request of each looks it up."""
    _remembered.clear()


def _remember(secret: str, caller: Caller) -> None:
    if len(_remembered) >= _REMEMBERED_KEYS:
        forget_remembered()
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


def _create(*, role: Role, owner: str, **fields: Any) -> tuple[ApiKey, str]:
    secret, key_id = _new_secret(role), ids.new_uuid()
    key = ApiKey.objects.create(
        id=key_id,
        role=role,
        owner=owner or ids.show("key", key_id),
        hint=secret[-4:],
        hash=_hash(secret),
        **fields,
    )
    return key, secret


def _living(key_id: UUID, consumer: Consumer | None) -> ApiKey | None:
    return (key_tree.living() & _keys(consumer)).select_related("consumer").filter(id=key_id).first()


def _keys(consumer: Consumer | None) -> QuerySet[ApiKey]:
    return ApiKey.objects.all() if consumer is None else ApiKey.objects.filter(consumer=consumer)


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
