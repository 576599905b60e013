"""Kill switches: hold everything, or everything of one consumer. What is in flight ends; nothing new is claimed.

The claim and the sweep read the table of holds in their own statements, so a hold is in force for every worker with
the commit that makes it. Nothing is dropped and no attempt is used up.
"""

from django.db import IntegrityError, transaction

from deliveries import bell, sweep
from deliveries.health.models import Hold
from subscriptions.audit import Actor, record
from subscriptions.models import Consumer

_RING_LIMIT = 10_000


def put_on(consumer: Consumer | None, *, actor: Actor, why: str) -> bool:
    """True if this call put it on. None holds everybody's."""
    try:
        with transaction.atomic():
            Hold.objects.create(consumer=consumer, actor=actor.brief, reason=why[:500])
            _record(consumer, "hold.put_on", actor, why)
    except IntegrityError:
        return False
    return True


@transaction.atomic
def take_off(consumer: Consumer | None, *, actor: Actor, why: str) -> bool:
    """True if this call took it off. What waited goes out at once."""
    held = Hold.objects.filter(consumer=consumer) if consumer else Hold.objects.filter(consumer__isnull=True)
    gone, _ = held.delete()
    if not gone:
        return False
    _record(consumer, "hold.taken_off", actor, why)
    transaction.on_commit(lambda: bell.ring(sweep.due_endpoints_now(limit=_RING_LIMIT)))
    return True


def _record(consumer: Consumer | None, action: str, actor: Actor, why: str) -> None:
    target = consumer.public_id if consumer else ""
    record(actor=actor, action=action, target=target, consumer=consumer, why=why)
