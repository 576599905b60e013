"""Sending what the outbox holds: in order, in batches, with the same ids on every try.

Why it is safe to stop, kill or double a relay at any moment: an event leaves `pending` only after the platform has
answered for it, and the platform accepts an id once. A relay that died between the answer and our UPDATE sends the
batch again and hears `duplicate`. Two relays at once send the same events in the same order, and each event is accepted
from whichever came first. So no row is ever locked while we wait for the network; a lease only spares double work.

Order per ordering key: rows are sent by ascending id, in one request after the other, and a batch is accepted in its
order. Two transactions that overlap and emit with the same key have no order unless they lock something they share.
"""

import json
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, InterfaceError, OperationalError, connections, transaction
from django.utils import timezone

from webhooks_client import Client, Result, WebhooksError
from webhooks_client.django.outbox.models import OutboxEvent, OutboxState, RelayLease

logger = logging.getLogger(__name__)

BATCH = 500
# A relay that died is replaced after this (seconds).
LEASE_SECONDS = 15.0
RETENTION_SECONDS = 7 * 86_400
_CLEAN_UP_EVERY_SECONDS = 600.0
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Sent:
    accepted: int = 0
    refused: int = 0

    @property
    def count(self) -> int:
        return self.accepted + self.refused


def send_batch(client: Client, *, limit: int = BATCH, using: str = "default") -> Sent:
    """The next events in order. What the platform answered for is settled even when it then goes away; the error is
    raised all the same."""
    rows = list(OutboxEvent.objects.using(using).filter(state=OutboxState.PENDING).order_by("id")[:limit])
    results: list[tuple[OutboxEvent, Result]] = []
    try:
        for row, result in zip(rows, client.emit_many(map(_event, rows)), strict=True):
            results.append((row, result))
    finally:
        sent = _settle(results, using)
    return sent


def send_all(client: Client, *, limit: int = BATCH, batches: int = 1000, using: str = "default") -> Sent:
    """Batch after batch until the outbox is empty, so many at most. Does nothing while another relay is at work."""
    total = Sent()
    lease = Lease(using)
    try:
        for _ in range(batches):
            if not lease.take():
                break
            sent = send_batch(client, limit=limit, using=using)
            total = Sent(total.accepted + sent.accepted, total.refused + sent.refused)
            if sent.count < limit:
                break
    finally:
        lease.give_back()
    return total


def run(
    client: Client,
    *,
    stopped: Callable[[], bool],
    sleep: Callable[[float], Any] = time.sleep,
    idle_seconds: float = 1.0,
    limit: int = BATCH,
    retention_seconds: float = RETENTION_SECONDS,
    using: str = "default",
) -> None:
    """Until `stopped`. While the platform or the database is away, it waits longer each time, up to a minute."""
    failures = 0
    cleaned_at = float("-inf")
    while not stopped():
        try:
            sent = send_all(client, limit=limit, using=using)
            if time.monotonic() - cleaned_at > _CLEAN_UP_EVERY_SECONDS:
                clean_up(older_than_seconds=retention_seconds, using=using)
                cleaned_at = time.monotonic()
        except (WebhooksError, OperationalError, InterfaceError) as error:
            failures += 1
            pause = min(_LONGEST_PAUSE_SECONDS, idle_seconds * 2 ** min(failures, 16)) * random.uniform(0.5, 1.0)
            away = "platform" if isinstance(error, WebhooksError) else "database"
            logger.warning("The %s is not to be had (%s); next try in %.1f s.", away, error, pause)
            # A connection that has broken makes way for a new one.
            connections[using].close_if_unusable_or_obsolete()
            sleep(pause)
            continue
        failures = 0
        if not sent.count:
            sleep(idle_seconds)


def clean_up(
    *, older_than_seconds: float = RETENTION_SECONDS, batches: int = 100, size: int = 1000, using: str = "default"
) -> int:
    """Deletes accepted events of before; how many. Refused ones stay: nobody has them but us."""
    before = timezone.now() - timedelta(seconds=older_than_seconds)
    old = OutboxEvent.objects.using(using).filter(state=OutboxState.ACCEPTED, settled_at__lt=before)
    deleted = 0
    for _ in range(batches):
        ids = list(old.order_by("settled_at").values_list("id", flat=True)[:size])
        deleted += OutboxEvent.objects.using(using).filter(id__in=ids).delete()[0]
        if len(ids) < size:
            break
    return deleted


class Lease:
    """Says to other relays that one is at work. Taken again before each batch."""

    def __init__(self, using: str) -> None:
        self._holder = uuid.uuid4().hex
        self._rows = RelayLease.objects.using(using)
        self._using = using

    def take(self) -> bool:
        now = timezone.now()
        until = now + timedelta(seconds=LEASE_SECONDS)
        mine_or_over = self._rows.filter(pk=1, holder=self._holder) | self._rows.filter(pk=1, until__lt=now)
        if mine_or_over.update(holder=self._holder, until=until):
            return True
        try:
            with transaction.atomic(using=self._using):
                self._rows.create(pk=1, holder=self._holder, until=until)
        except IntegrityError:
            return False
        return True

    def give_back(self) -> None:
        self._rows.filter(pk=1, holder=self._holder).delete()


def _event(row: OutboxEvent) -> dict[str, Any]:
    event = {
        "consumer": row.consumer,
        "type": row.type,
        "data": json.loads(row.data),
        "id": row.event_id,
        "occurred_at": row.occurred_at.isoformat(),
        "api_version": row.api_version,
        "ordering_key": row.ordering_key,
    }
    return {name: value for name, value in event.items() if value != ""}


def _settle(results: Iterable[tuple[OutboxEvent, Result]], using: str) -> Sent:
    now = timezone.now()
    settled = list(results)
    accepted = [row.pk for row, result in settled if result.stored]
    # Also of one that another relay saw refused a moment ago: the platform has it.
    OutboxEvent.objects.using(using).filter(pk__in=accepted).exclude(state=OutboxState.ACCEPTED).update(
        state=OutboxState.ACCEPTED, settled_at=now, problem=None
    )
    refused = [(row, result) for row, result in settled if not result.stored]
    for row, result in refused:
        logger.error("The platform refused outbox event %s (%s): %s", row.event_id, row.type, result.problem)
        OutboxEvent.objects.using(using).filter(pk=row.pk, state=OutboxState.PENDING).update(
            state=OutboxState.REFUSED, settled_at=now, problem=dict(result.problem or {})
        )
    return Sent(len(accepted), len(refused))
