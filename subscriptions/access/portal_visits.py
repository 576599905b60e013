"""Visits to the portal: a link that works once and for minutes, then a session of exactly one consumer.

Both are random tokens of which only the hash is stored. Opening a link is one guarded update, so of several who open it
at the same moment one comes in; a consumer that is deleted takes its links and sessions with it.

Updates name columns of their own row and no others. A condition on the consumer would become `id IN (SELECT …)`, which
PostgreSQL does not look at again for a row that somebody else held meanwhile: each of those who waited would come in.
"""

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, Func, QuerySet
from django.utils import timezone

from subscriptions.access import key_tree
from subscriptions.models import ApiKey, Consumer, PortalVisit

_CLOCK = Func(function="clock_timestamp", output_field=DateTimeField())


@transaction.atomic
def new_link(
    consumer: Consumer,
    *,
    requested_by: str,
    minutes: int,
    key_id: UUID | None = None,
    branding: dict[str, str] | None = None,
) -> tuple[str, datetime]:
    """The token of a link, shown this once, and when it ends. If a key asked for it, it ends with the key."""
    expires_at = timezone.now() + timedelta(minutes=minutes)
    if key_id is not None and (ends_at := key_tree.must_live(key_id).expires_at) is not None:
        expires_at = min(expires_at, ends_at)
    token = secrets.token_urlsafe(32)
    PortalVisit.objects.create(
        consumer=consumer,
        link_hash=_hash(token),
        link_expires_at=expires_at,
        requested_by=requested_by,
        key_id=key_id,
        branding=branding or {},
    )
    return token, expires_at


def visit_of_link(token: str) -> PortalVisit | None:
    """The visit that a link would begin, with its consumer, as long as it can be opened. Looking does not use it up."""
    return _unopened(token).filter(consumer__deleted_at__isnull=True).select_related("consumer").first()


def open_link(token: str, *, minutes: int) -> tuple[str, datetime] | None:
    """A session's token and its end, for the one who opens the link first."""
    if visit_of_link(token) is None:
        return None
    session = secrets.token_urlsafe(32)
    now = timezone.now()
    ends_at = min(now + timedelta(minutes=minutes), _key_ends_at(token) or datetime.max.replace(tzinfo=UTC))
    opened = _unopened(token).update(opened_at=now, session_hash=_hash(session), session_ends_at=ends_at)
    return (session, ends_at) if opened else None


def _key_ends_at(token: str) -> datetime | None:
    """When the key that asked for the link ends: what was made with it ends then, too."""
    keys = ApiKey.objects.filter(id__in=_unopened(token).values("key_id"))
    return keys.values_list("expires_at", flat=True).first()


def visitor(session: str) -> PortalVisit | None:
    """The visit whose session this is, with its consumer, while it lasts."""
    return _living(session).filter(consumer__deleted_at__isnull=True).select_related("consumer").first()


def end_session(session: str) -> bool:
    """True if this call ended it. By the database's clock at the very moment, so that of two one does."""
    living = PortalVisit.objects.filter(session_hash=_hash(session), session_ends_at__gt=_CLOCK)
    return living.update(session_ends_at=_CLOCK) == 1


def forget_old(*, days: int) -> int:
    """Who visited when is worth knowing for a while."""
    return PortalVisit.objects.filter(created_at__lt=timezone.now() - timedelta(days=days)).delete()[0]


def _unopened(token: str) -> QuerySet[PortalVisit]:
    return PortalVisit.objects.filter(
        link_hash=_hash(token), opened_at__isnull=True, link_expires_at__gt=timezone.now()
    )


def _living(session: str) -> QuerySet[PortalVisit]:
    return PortalVisit.objects.filter(session_hash=_hash(session), session_ends_at__gt=timezone.now())


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
