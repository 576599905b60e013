"""Replay jobs: started and cancelled."""

from typing import Any

from django.db import transaction

from deliveries import replay as step
from deliveries.browse.filter import Filter
from deliveries.replay import TooManyReplays as TooManyReplays
from deliveries.replaying.missed import Missed
from deliveries.replaying.models import Replay
from subscriptions.audit import Actor, record
from subscriptions.models import Consumer


@transaction.atomic
def start(wanted: Filter | Missed, *, consumer: Consumer | None, actor: Actor, why: str, **options: Any) -> Replay:
    """The entry counts what the job matched when it began."""
    job = step.start(wanted, consumer=consumer, requested_by=str(actor), why=why, **options)
    record(actor=actor, action="replay.started", target=job.public_id, consumer=consumer, count=job.matched, why=why)
    return job


@transaction.atomic
def cancel(job: Replay, *, actor: Actor, why: str) -> bool:
    """True if this call cancelled it. The entry counts what was left."""
    if not step.cancel(job):
        return False
    left = max(0, job.matched - job.replayed)
    record(actor=actor, action="replay.cancelled", target=job.public_id, consumer=job.consumer_id, count=left, why=why)
    return True
