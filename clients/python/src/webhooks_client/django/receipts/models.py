from django.db import models


class Receipt(models.Model):
    """An event that was dealt with. Its key commits with the work."""

    key = models.CharField(max_length=255, primary_key=True)
    # store.forget: the oldest ones.
    received_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key


class AppliedSequence(models.Model):
    """How far an ordering key has come (webhooks_client.receive.SequenceGuard)."""

    ordering_key = models.CharField(max_length=255, primary_key=True)
    applied = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.ordering_key}: {self.applied}"


class FeedPosition(models.Model):
    """How far a reader of the feed has come (webhooks_client.receive.follow)."""

    name = models.CharField(max_length=255, primary_key=True)
    position = models.TextField()
    moved_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
