"""Who is at work: a pump's lease on what it has claimed."""

from django.db import models
from django.db.models.functions import Now

from subscriptions import ids


class Lease(models.Model):
    """A pump at work. It renews this one row; when it stops doing so, everything it held goes out again."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    worker = models.CharField(max_length=255)
    # Tells others on the same machine that it died (pump/process.py); empty where it cannot be told.
    process = models.CharField(max_length=255, db_default="")
    started_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"lease of {self.worker}"
