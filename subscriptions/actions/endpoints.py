"""Endpoints: created. What can be done to one that is there touches deliveries: see deliveries/actions/endpoints.py."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from subscriptions import endpoints
from subscriptions.audit import Actor, record, record_each
from subscriptions.models import Consumer, Endpoint


@transaction.atomic
def create(*, consumer: Consumer, actor: Actor, why: str, **fields: Any) -> tuple[Endpoint, str]:
    """A new endpoint and its secret, shown this once."""
    endpoint, secret = endpoints.create(consumer=consumer, **fields)
    record(actor=actor, action="endpoint.created", target=endpoint.public_id, consumer=consumer, why=why)
    return endpoint, secret


@transaction.atomic
def create_many(rows: Sequence[Endpoint], *, actor: Actor, why: str) -> None:
    """Rows of `endpoints.new_row`, for which the caller has found room under the locks of their consumers."""
    endpoints.create_many(rows)
    made = ((row.public_id, row.consumer_id) for row in rows)
    record_each(made, actor=actor, action="endpoint.created", why=why)
