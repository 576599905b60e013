"""What people are told of an endpoint's health, and the kill switches."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from subscriptions import ids
from subscriptions.models import Consumer, Endpoint


class NoticeKind(models.TextChoices):
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    WARNING = "warning"
    LAST_WARNING = "last_warning"  # a day before it is disabled
    DISABLED = "disabled"
    RECOVERED = "recovered"
    PAUSED = "paused"
    RESUMED = "resumed"
    DEAD = "dead"


class Notice(models.Model):
    """Something about an endpoint that people should know, with its reason: its health's history, and an outbox."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="notices", db_index=False)
    # Without a constraint: forgetting a delivery would look for its notices, and reading all of them is no answer.
    delivery = models.ForeignKey(
        "deliveries.Delivery", null=True, blank=True, on_delete=models.DO_NOTHING, db_index=False, db_constraint=False
    )
    kind = models.CharField(max_length=16, choices=NoticeKind)
    reason = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # When it went out as events and was noted for mail; at once for kinds that nobody is told of.
    announced_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(kind__in=NoticeKind.values), name="notice_kind_known")]
        indexes = [
            # announce.py takes the next ones.
            models.Index(fields=["id"], condition=Q(announced_at__isnull=True), name="notice_unannounced"),
            # An endpoint's health timeline.
            models.Index(fields=["endpoint", "-id"], name="notice_history"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


class Hold(models.Model):
    """A kill switch that is on. Nothing is claimed for these endpoints; deleting the row lets it all go again.

    The claim and the sweep look at this table, which is empty on most days, and so need no column on hot rows; an
    endpoint made while its consumer is held is held too.
    """

    # Whose endpoints; null for everybody's.
    consumer = models.ForeignKey(Consumer, null=True, blank=True, on_delete=models.CASCADE, db_index=False)
    actor = models.CharField(max_length=255)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        app_label = "subscriptions"  # whose table it is
        constraints = [
            models.UniqueConstraint(fields=["consumer"], nulls_distinct=False, name="hold_once_per_consumer"),
        ]

    def __str__(self) -> str:
        return f"hold of {self.consumer or 'everything'}"
