"""API keys: issued and revoked."""

from typing import Any
from uuid import UUID

from django.db import transaction

from subscriptions import ids, keys
from subscriptions.audit import Actor, record
from subscriptions.models import ApiKey, Consumer, Role


@transaction.atomic
def issue(*, role: Role, consumer: Consumer | None, actor: Actor, why: str, **fields: Any) -> tuple[ApiKey, str]:
    """A new key and its only showing."""
    key, secret = keys.issue(role=role, consumer=consumer, **fields)
    record(actor=actor, action="key.issued", target=key.public_id, consumer=consumer, detail=str(role), why=why)
    return key, secret


@transaction.atomic
def revoke(*, key_id: UUID, consumer: Consumer, actor: Actor, why: str) -> bool:
    """True if this call revoked it."""
    revoked = keys.revoke(key_id=key_id, consumer=consumer)
    if revoked:
        target = ids.show("key", key_id)
        record(actor=actor, action="key.revoked", target=target, consumer=consumer, count=int(revoked), why=why)
    return bool(revoked)
