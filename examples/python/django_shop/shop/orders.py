"""Placing an order: the order and the event that reports it commit together, or neither does."""

from collections.abc import Callable

from django.db import transaction
from webhooks_client.django import emit

from shop.models import Order


def place(reference: str, *, consumer: str, check: Callable[[], None] = lambda: None) -> Order:
    """`check` may still refuse, by raising: then there is no order, and nobody hears of one."""
    with transaction.atomic():
        order = Order.objects.create(reference=reference)
        emit(consumer=consumer, type="order.placed", data={"order": reference}, ordering_key=reference)
        check()
    return order
