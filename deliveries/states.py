"""The states of a delivery. Rows, statements, API and pages spell them as they are spelt here."""

from django.db import models


class DeliveryState(models.TextChoices):
    PENDING = "pending"  # claim takes it out, once due
    IN_FLIGHT = "in_flight"  # settle takes it out, or the sweep once the worker's lease has run out
    DELIVERED = "delivered"  # final, unless replayed
    DEAD = "dead"  # a dead letter; only a replay takes it out


LIVE = [DeliveryState.PENDING, DeliveryState.IN_FLIGHT]
FINISHED = [DeliveryState.DELIVERED, DeliveryState.DEAD]
