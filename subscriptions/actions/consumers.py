"""Consumers: created, changed, deleted."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from subscriptions import consumers
from subscriptions.access import key_tree
from subscriptions.actions.changes import differing
from subscriptions.audit import Actor, record, record_each
from subscriptions.models import Consumer


@transaction.atomic
def create(*, actor: Actor, why: str, **fields: Any) -> Consumer:
    consumer = consumers.create(**fields)
    record(actor=actor, action="consumer.created", target=consumer.public_id, consumer=consumer, why=why)
    return consumer


@transaction.atomic
def create_many(rows: Sequence[Consumer], *, actor: Actor, why: str) -> None:
    """Rows that are not saved yet. IntegrityError if one of them, or its uid, is there meanwhile."""
    Consumer.objects.bulk_create(rows)
    record_each(((row.public_id, row.id) for row in rows), actor=actor, action="consumer.created", why=why)


@transaction.atomic
def update(consumer: Consumer, changes: dict[str, Any], *, actor: Actor, why: str) -> Consumer | None:
    """None if it has been deleted meanwhile."""
    before = Consumer.objects.select_for_update(no_key=True).filter(id=consumer.id).first()
    updated = consumers.update(consumer, changes)
    changed = differing(before, changes)
    if updated is not None and changed:
        record(
            actor=actor, action="consumer.changed", target=consumer.public_id, consumer=consumer,
            detail=", ".join(changed), why=why,
        )  # fmt: skip
    return updated


@transaction.atomic
def delete(consumer: Consumer, *, actor: Actor, why: str) -> None:
    # Keys are locked before their consumer, as by whoever issues one.
    key_tree.lock(alone=True)
    # Of two at the same moment, one deletes it.
    living = Consumer.objects.select_for_update(no_key=True).filter(id=consumer.id, deleted_at__isnull=True)
    if living.first() is None:
        return
    consumers.delete(consumer)
    record(actor=actor, action="consumer.deleted", target=consumer.public_id, consumer=consumer, why=why)
