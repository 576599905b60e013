"""Kill switches: hold everything, or everything of one consumer. What is in flight ends; nothing new is claimed.

The claim and the sweep read the table of holds in their own statements, so a hold is in force for every worker with
the commit that makes it. Nothing is dropped and no attempt is used up.
"""

from django.db import IntegrityError, transaction

from deliveries import audit, bell, sweep
from subscriptions.models import Consumer, Hold

_RING_LIMIT = 10_000


def put_on(consumer: Consumer | None, *, actor: str, reason: str) -> bool:
    """True if this call put it on. None holds everybody's."""
    try:
        with transaction.atomic():
            Hold.objects.create(consumer=consumer, actor=actor, reason=reason[:500])
            audit.record(actor=actor, action="hold.put_on", target=_target(consumer), reason=reason)
    except IntegrityError:
        return False
    return True


@transaction.atomic
def take_off(consumer: Consumer | None, *, actor: str, reason: str) -> bool:
    """True if this call took it off. What waited goes out at once."""
    held = Hold.objects.filter(consumer=consumer) if consumer else Hold.objects.filter(consumer__isnull=True)
    gone, _ = held.delete()
    if not gone:
        return False
    audit.record(actor=actor, action="hold.taken_off", target=_target(consumer), reason=reason)
    transaction.on_commit(lambda: bell.ring(sweep.due_endpoints_now(limit=_RING_LIMIT)))
    return True


def _target(consumer: Consumer | None) -> str:
    return consumer.public_id if consumer else ""
