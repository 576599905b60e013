"""What one visitor is shown on the next page: a new secret, a link to the portal, the result of a test.

A form answers with a redirect, so its result needs a place until the page asks for it. It is sealed, ends after five
minutes, and opens only with its random token, in the session that it was made for, on the page that it is about.
"""

import hashlib
import secrets
from datetime import timedelta
from typing import Any

import orjson
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from subscriptions.models import Handover
from subscriptions.secrets.vault import vault

_KEPT = timedelta(minutes=5)

TAKE = """
    DELETE FROM subscriptions_handover
    WHERE token_hash = %(token_hash)s AND visitor = %(visitor)s AND about = %(about)s AND expires_at > now()
    RETURNING content_encrypted
"""
"""Of two who ask at the same moment, one gets it."""


def put(content: dict[str, Any], *, visitor: str, about: str) -> str:
    """The token of the page that shows it."""
    token = secrets.token_urlsafe(32)
    hashed = _hash(token)
    sealed = vault().seal(orjson.dumps(content).decode(), belongs_to=_belongs_to(hashed))
    Handover.objects.create(
        token_hash=hashed,
        visitor=visitor,
        about=about,
        content_encrypted=sealed,
        expires_at=timezone.now() + _KEPT,
    )
    return token


@transaction.atomic
def take(token: str, *, visitor: str, about: str) -> dict[str, Any] | None:
    """The content, the first time and never again. It stays where it is if it cannot be opened."""
    hashed = _hash(token)
    with connection.cursor() as cursor:
        cursor.execute(TAKE, {"token_hash": hashed, "visitor": visitor, "about": about})
        row = cursor.fetchone()
    return _opened(hashed, row[0]) if row else None


def look(token: str, *, visitor: str, about: str) -> dict[str, Any] | None:
    """The content, as often as the page is loaded: for what is no secret."""
    hashed = _hash(token)
    found = _living().filter(token_hash=hashed, visitor=visitor, about=about).first()
    return _opened(hashed, found.content_encrypted) if found else None


def forget_old() -> int:
    return Handover.objects.filter(expires_at__lte=timezone.now()).delete()[0]


def _living() -> QuerySet[Handover]:
    return Handover.objects.filter(expires_at__gt=timezone.now())


def _opened(hashed: bytes, sealed: bytes | memoryview) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads(vault().open(bytes(sealed), belongs_to=_belongs_to(hashed)))
    return content


def _belongs_to(hashed: bytes) -> str:
    return f"handover {hashed.hex()}"


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
