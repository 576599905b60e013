"""What periodic work remembers: how far it has come, and which processes live."""

from django.db import models
from django.db.models.functions import Now


class Housekeeping(models.Model):
    """How far a caretaker has come through time-ordered ids, or whose turn was the last (replay.py)."""

    name = models.CharField(max_length=32, primary_key=True)
    position = models.UUIDField()

    def __str__(self) -> str:
        return f"{self.name} at {self.position}"


class Pulse(models.Model):
    """A process that says it is alive, every few seconds, until it ends in order; see upkeep/heartbeat.py."""

    name = models.CharField(max_length=255, primary_key=True)
    started_at = models.DateTimeField(db_default=Now())
    at = models.DateTimeField(db_default=Now())
    # How far its clock is ahead of the database's (milliseconds).
    clock_ahead_ms = models.BigIntegerField(db_default=0)

    def __str__(self) -> str:
        return self.name
