"""API keys: issued, rotated and revoked."""

from typing import Any
from uuid import UUID

from django.db import transaction

from subscriptions import ids, keys
from subscriptions.access.caller import Caller
from subscriptions.audit import Actor, record
from subscriptions.keys import RotatedKey
from subscriptions.models import ApiKey, Consumer, Role


@transaction.atomic
def issue(*, role: Role, consumer: Consumer | None, actor: Actor, why: str, **fields: Any) -> tuple[ApiKey, str]:
    """A new key and its only showing."""
    key, secret = keys.issue(role=role, consumer=consumer, **fields)
    record(actor=actor, action="key.issued", target=key.public_id, consumer=consumer, detail=str(role), why=why)
    return key, secret


@transaction.atomic
def rotate(
    *, key_id: UUID, consumer: Consumer | None, overlap_seconds: int, by: Caller | None, actor: Actor, why: str
) -> RotatedKey | None:
    """The new key, or None if the old one does not live. The entry names the old one, its detail the new one."""
    rotated = keys.rotate(key_id=key_id, consumer=consumer, overlap_seconds=overlap_seconds, by=by)
    if rotated is not None:
        record(
            actor=actor, action="key.rotated", target=ids.show("key", key_id), consumer=rotated.key.consumer_id,
            detail=f"to {rotated.key.public_id}", why=why,
        )  # fmt: skip
    return rotated


@transaction.atomic
def revoke(*, key_id: UUID, consumer: Consumer | None, by: Caller | None = None, actor: Actor, why: str) -> int:
    """How many this call revoked: the key and everything made with it."""
    revoked = keys.revoke(key_id=key_id, consumer=consumer, by=by)
    if revoked:
        owner = consumer or ApiKey.objects.values_list("consumer_id", flat=True).get(id=key_id)
        target = ids.show("key", key_id)
        record(actor=actor, action="key.revoked", target=target, consumer=owner, count=revoked, why=why)
    return revoked
