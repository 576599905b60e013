"""The feed after a dump was restored into another cluster."""

from django.db import transaction

from deliveries.browse import feed
from subscriptions.audit import Actor, record


@transaction.atomic
def go_on_after_restore(*, actor: Actor, why: str) -> bool:
    """True if there was something to do."""
    if not feed.go_on_after_restore():
        return False
    record(actor=actor, action="feed.moved_on", why=why)
    return True
