"""Which key made which. What a key made ends with it: never later than it expires, and at the moment it is revoked.

Two columns hold it. `issued_by` is the key whose authority a key hangs from; a rotation's new key takes the place of
the old one, and so has the old one's `issued_by`. `rotated_by` is the key that asked for the rotation: what a stolen
key got by rotating others, or itself, goes with it too. Both name keys that may have been forgotten since.

A revocation must see every key that was made before it, and none may be made of a revoked one after it. A statement's
snapshot is taken before it waits, so both take `lock` first and look afterwards.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from subscriptions.models import ApiKey, PortalVisit

# Any number that nobody else locks.
_LOCK = 0x6B657973

REVOKE = """
    WITH RECURSIVE made AS (
        SELECT id FROM subscriptions_apikey WHERE id = ANY (%(key_ids)s::uuid[])
        UNION
        SELECT key.id FROM made JOIN subscriptions_apikey key ON key.issued_by = made.id
            OR (key.rotated_by = made.id AND key.id IS DISTINCT FROM %(spared)s::uuid)
    )
    UPDATE subscriptions_apikey SET revoked_at = now()
    WHERE id = ANY (ARRAY(SELECT id FROM made)) AND revoked_at IS NULL
    RETURNING id
"""
"""Revokes these keys and everything made with them, however deep. Under the lock, since it looks and then writes."""


class KeyEnded(Exception):
    """The key has been revoked or has expired since it was let in."""


def lock(*, alone: bool) -> None:
    """Until the end of the transaction. Keys are issued side by side; who revokes or rotates is alone."""
    shared = "" if alone else "_shared"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock{shared}(%(lock)s)", {"lock": _LOCK})


def living() -> QuerySet[ApiKey]:
    """Keys that would be let in now, as far as they themselves are concerned."""
    return ApiKey.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), revoked_at__isnull=True)


def must_live(key_id: UUID) -> ApiKey:
    """The key, which nobody revokes before this transaction ends."""
    lock(alone=False)
    key = living().filter(id=key_id).first()
    if key is None:
        raise KeyEnded
    return key


@transaction.atomic
def revoke(key_ids: Iterable[UUID], *, spared: UUID | None = None) -> list[UUID]:
    """Those that this call revoked: the ones named and what they made. Links to the portal made by them end too."""
    lock(alone=True)
    with connection.cursor() as cursor:
        cursor.execute(REVOKE, {"key_ids": list(key_ids), "spared": spared})
        revoked = [row[0] for row in cursor.fetchall()]
    _end_visits(revoked)
    return revoked


def take_place(*, old: ApiKey, new: ApiKey) -> None:
    """What the old key made hangs from the new one: it goes on, and ends with it."""
    ApiKey.objects.filter(issued_by=old.id).update(issued_by=new.id)


def forget_old(*, days: int, batch: int = 200, batches: int = 100) -> int:
    """Keys that ended so long ago. In small batches; what is left over goes with the next run."""
    before, forgotten = timezone.now() - timedelta(days=days), 0
    for _ in range(batches):
        count = _forget_batch(before, batch)
        forgotten += count
        if count < batch:
            break
    return forgotten


@transaction.atomic
def _forget_batch(before: datetime, limit: int) -> int:
    lock(alone=True)
    ended = ApiKey.objects.filter(Q(revoked_at__lt=before) | Q(expires_at__lt=before))
    old = list(ended.order_by("id")[:limit])
    # A rotated key names the one before, which names the one before that: the end of such a chain may still live, and
    # must not lose sight of its beginning. Newest first, as each link leads to an older key.
    for key in reversed(old):
        ApiKey.objects.filter(rotated_by=key.id).update(rotated_by=key.rotated_by)
    return ApiKey.objects.filter(id__in=[key.id for key in old]).delete()[0]


def _end_visits(key_ids: list[UUID]) -> None:
    """A link that is opened between the two statements is a session by the second."""
    now, visits = timezone.now(), PortalVisit.objects.filter(key_id__in=key_ids)
    visits.filter(opened_at__isnull=True, link_expires_at__gt=now).update(link_expires_at=F("created_at"))
    visits.filter(session_ends_at__gt=now).update(session_ends_at=now)
