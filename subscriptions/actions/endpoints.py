"""Endpoints: created. What can be done to one that is there touches deliveries: see deliveries/actions/endpoints.py."""

from typing import Any

from django.db import transaction

from subscriptions import endpoints
from subscriptions.audit import Actor, record
from subscriptions.models import Consumer, Endpoint


@transaction.atomic
def create(*, consumer: Consumer, actor: Actor, why: str, **fields: Any) -> tuple[Endpoint, str]:
    """A new endpoint and its secret, shown this once."""
    endpoint, secret = endpoints.create(consumer=consumer, **fields)
    record(actor=actor, action="endpoint.created", target=endpoint.public_id, consumer=consumer, why=why)
    return endpoint, secret
