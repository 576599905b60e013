"""Writing into the outbox, as part of the caller's transaction."""

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.utils import timezone

from webhooks_client.django.outbox.models import OutboxEvent


class OutsideTransaction(Exception):
    """`emit` was called outside a transaction, where it could not be part of one."""


def write(
    *,
    consumer: str,
    type: str,
    data: Mapping[str, Any],
    id: str | None,
    api_version: str | None,
    occurred_at: datetime | None,
    ordering_key: str | None,
    using: str,
) -> str:
    if not transaction.get_connection(using).in_atomic_block:
        raise OutsideTransaction(
            "emit() belongs inside the transaction of what it reports: put both into `with transaction.atomic():`."
        )
    event_id = id or str(uuid.uuid4())
    OutboxEvent.objects.using(using).create(
        event_id=event_id,
        consumer=consumer,
        type=type,
        # Dates, decimals and UUIDs become text; NaN is refused here, while the caller can still do something.
        data=json.dumps(data, cls=DjangoJSONEncoder, ensure_ascii=False, allow_nan=False, separators=(",", ":")),
        api_version=api_version or "",
        ordering_key=ordering_key or "",
        occurred_at=occurred_at or timezone.now(),
    )
    return event_id
