"""For Django: an outbox for producers, receipts for consumers. Needs the extra `django`. Two apps; take what you need.

INSTALLED_APPS = [..., "webhooks_client.django.outbox", "webhooks_client.django.receipts"]

from webhooks_client.django import emit

with transaction.atomic():
    order = Order.objects.create(...)
    emit(consumer="acme", type="order.placed", data={"order": order.pk}, ordering_key=f"order-{order.pk}")
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def emit(
    *,
    consumer: str,
    type: str,
    data: Mapping[str, Any],
    id: str | None = None,
    api_version: str | None = None,
    occurred_at: datetime | None = None,
    ordering_key: str | None = None,
    using: str = "default",
) -> str:
    """Writes the event into the outbox, inside your transaction; its id. The relay sends it after your commit, and a
    rollback takes it back as if it had never been."""
    from webhooks_client.django.outbox import store  # needs the apps to be loaded

    return store.write(
        consumer=consumer,
        type=type,
        data=data,
        id=id,
        api_version=api_version,
        occurred_at=occurred_at,
        ordering_key=ordering_key,
        using=using,
    )
