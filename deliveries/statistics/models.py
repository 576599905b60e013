"""Counts: as they happen, per minute, hour and day, and ever."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Span(models.TextChoices):
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class TallySubject(models.TextChoices):
    EVERYTHING = "everything"
    CONSUMER = "consumer"
    ENDPOINT = "endpoint"


class Tally(models.Model):
    """What happened to one subject in one minute, hour or day. Agrees with the ledger: see statistics/totals.py."""

    span = models.CharField(max_length=8, choices=Span)
    subject_kind = models.CharField(max_length=16, choices=TallySubject)
    # A consumer's or an endpoint's id; all zeros for everything.
    subject_id = models.UUIDField()
    at = models.DateTimeField()
    accepted = models.PositiveIntegerField(default=0)
    delivered = models.PositiveIntegerField(default=0)
    # Attempts that failed, the last ones of dead deliveries included.
    failed = models.PositiveIntegerField(default=0)
    dead = models.PositiveIntegerField(default=0)
    # Counts per bucket of statistics/buckets.py: how long requests took, and how long from emit to delivery.
    durations = ArrayField(models.IntegerField())
    latencies = ArrayField(models.IntegerField())

    class Meta:
        constraints = [
            # Read by the charts of one subject.
            models.UniqueConstraint(fields=["span", "subject_id", "at"], name="tally_once"),
        ]
        indexes = [
            # The endpoints that failed most, and forgetting.
            models.Index(fields=["span", "subject_kind", "at"], name="tally_of_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.span} of {self.subject_kind} at {self.at}"


class Delta(models.Model):
    """Something that happened and is counted, written by the very statement that did it: see statistics/deltas.py.

    Within seconds `statistics/totals.py` adds it to `Total` and `Tally` and takes it out. The table has no index and no
    primary key in the database (the migration drops it): rows are only ever appended, and taken out all together.
    """

    at = models.DateTimeField(primary_key=True, db_default=Now())
    counter = models.CharField(max_length=16)
    label = models.CharField(max_length=64, db_default="")
    # The consumer of an accepted event, the endpoint of an attempt; null where nobody's.
    subject_id = models.UUIDField(null=True)
    count = models.IntegerField(db_default=1)
    duration_ms = models.IntegerField(null=True)
    latency_ms = models.IntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.count} {self.counter} {self.label}"


class Total(models.Model):
    """How often something has happened, ever (`at` is 1970) or within an hour: what /metrics and the console count."""

    counter = models.CharField(max_length=16)
    label = models.CharField(max_length=64)
    at = models.DateTimeField()
    value = models.BigIntegerField()

    class Meta:
        constraints = [
            # Read by /metrics: all of one moment, the beginning.
            models.UniqueConstraint(fields=["at", "counter", "label"], name="total_once"),
        ]

    def __str__(self) -> str:
        return f"{self.counter} {self.label}: {self.value}"
