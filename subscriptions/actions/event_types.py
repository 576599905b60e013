"""The catalogue: event types created, changed, deleted or archived. An entry's target is the type's name."""

from typing import Any

from django.db import transaction

from subscriptions import event_types
from subscriptions.actions.changes import event_type_changes
from subscriptions.audit import Actor, record
from subscriptions.models import EventType


@transaction.atomic
def create(*, name: str, actor: Actor, why: str, **fields: Any) -> EventType:
    event_type = event_types.create(name=name, **fields)
    record(actor=actor, action="event_type.created", target=name, why=why)
    return event_type


@transaction.atomic
def update(event_type: EventType, changes: dict[str, Any], *, actor: Actor, why: str) -> EventType:
    before = EventType.objects.select_for_update().filter(name=event_type.name).first()
    changed = [] if before is None else event_type_changes(before, changes)
    updated = event_types.update(event_type, changes)
    if changed:
        detail = ", ".join(changed)
        record(actor=actor, action="event_type.changed", target=event_type.name, detail=detail, why=why)
    return updated


@transaction.atomic
def delete(event_type: EventType, *, actor: Actor, why: str) -> None:
    """A type in use is archived instead; one that is archived already stays what it is."""
    before = EventType.objects.select_for_update().filter(name=event_type.name).first()
    if before is None:
        return
    if event_types.delete(event_type):
        record(actor=actor, action="event_type.deleted", target=event_type.name, why=why)
    elif before.archived_at is None:
        record(actor=actor, action="event_type.archived", target=event_type.name, why=why)
