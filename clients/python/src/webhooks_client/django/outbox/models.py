from django.db import models


class OutboxState(models.TextChoices):
    # Taken out by the relay, once the platform has answered.
    PENDING = "pending"
    # Deleted after their retention (`relay.clean_up`).
    ACCEPTED = "accepted"
    # Stay until somebody sends them again (admin) or deletes them.
    REFUSED = "refused"


class OutboxEvent(models.Model):
    """One event on its way to the platform. The order of ids is the order in which they are sent."""

    # The event's id at the platform: the same on every try, so that it is accepted once.
    event_id = models.CharField(max_length=255)
    consumer = models.CharField(max_length=255)
    type = models.CharField(max_length=255)
    # JSON as it was rendered at first: the same bytes on every try.
    data = models.TextField()
    api_version = models.CharField(max_length=64, blank=True)
    ordering_key = models.CharField(max_length=255, blank=True)
    occurred_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=OutboxState.choices, default=OutboxState.PENDING)
    # Why the platform refused it: its problem document.
    problem = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "event"
        constraints = [models.UniqueConstraint(fields=["consumer", "event_id"], name="webhooks_outbox_event_id")]
        indexes = [
            # relay.send_batch: the next ones in order. metrics.backlog: how many, and how old.
            models.Index(fields=["id"], name="webhooks_outbox_pending", condition=models.Q(state="pending")),
            # relay.clean_up: the oldest ones that are accepted.
            models.Index(fields=["settled_at"], name="webhooks_outbox_settled", condition=models.Q(state="accepted")),
            # admin and metrics.backlog.
            models.Index(fields=["id"], name="webhooks_outbox_refused", condition=models.Q(state="refused")),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class RelayLease(models.Model):
    """Which relay is at work. One row; it spares double work, and nothing depends on it (relay.py)."""

    holder = models.CharField(max_length=64)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}"
