"""Jobs that replay many deliveries, and what they put back."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from deliveries.states import FINISHED
from subscriptions import ids
from subscriptions.models import Consumer


class ReplayStatus(models.TextChoices):
    RUNNING = "running"  # the replay task takes it out when nothing is left
    DONE = "done"
    CANCELLED = "cancelled"


class Replay(models.Model):
    """Somebody asked for many deliveries again. Its position makes it resumable; each delivery goes at most once."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    # Whose deliveries; null for all of them (operators only).
    consumer = models.ForeignKey(Consumer, null=True, blank=True, on_delete=models.CASCADE, db_index=False)
    filter = models.JSONField()
    rate_per_second = models.PositiveIntegerField(null=True, blank=True)
    requested_by = models.CharField(max_length=255)
    why = models.CharField(max_length=500, blank=True, default="", db_default="")
    status = models.CharField(max_length=16, choices=ReplayStatus, default=ReplayStatus.RUNNING)
    # Counted when it began, as far as that goes at once; then there may be more, and the job counts on.
    matched = models.PositiveIntegerField()
    matched_is_minimum = models.BooleanField(default=False, db_default=False)
    replayed = models.PositiveIntegerField(default=0)
    # The last delivery looked at, and its event where that is the order: they go in order, so none is taken twice.
    position = models.UUIDField(null=True, blank=True)
    position_key = models.UUIDField(null=True, blank=True)
    # When it last had its turn: see fair_turns.py.
    turn_at = models.DateTimeField(db_default=Now())
    # What became of what it put back, as far as that is counted: see replaying/results.py.
    delivered = models.PositiveIntegerField(default=0)
    dead_again = models.PositiveIntegerField(default=0)
    # Up to which delivery the current round of counting has come.
    counted_to = models.UUIDField(null=True, blank=True)
    # Up to when due times were given out: the next delivery is due then, or now if that has passed.
    advanced_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(status__in=ReplayStatus.values), name="replay_status_known"),
            models.CheckConstraint(
                condition=Q(status=ReplayStatus.RUNNING, finished_at__isnull=True)
                | (~Q(status=ReplayStatus.RUNNING) & Q(finished_at__isnull=False)),
                name="replay_finished_when_final",
            ),
        ]
        indexes = [
            # The replay task takes the running ones.
            models.Index(fields=["id"], condition=Q(status=ReplayStatus.RUNNING), name="replay_running"),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} {self.status}"

    @property
    def public_id(self) -> str:
        return ids.show("rpl", self.id)


class PutBack(models.Model):
    """A delivery that a job put back, until its new round is over and counted (see replaying/results.py), and what it
    was before: a cancelled job makes it that again."""

    # Plain ids: these rows end with the rounds that they are about, or with their job.
    replay_id = models.UUIDField()
    delivery_id = models.UUIDField()
    # The new round's. Another round began since: then it is not this job's any more.
    round_started_at = models.DateTimeField()
    old_round_base = models.PositiveIntegerField()
    old_round_started_at = models.DateTimeField()
    old_dead_reason = models.CharField(max_length=64, null=True, blank=True)
    old_finished_at = models.DateTimeField()
    # How its round ended, written when the delivery is replayed once more; until then the delivery itself says so.
    outcome = models.CharField(max_length=16, null=True, blank=True)

    class Meta:
        constraints = [
            # "At most once per job" is a constraint of the database. Also read by cancelling and counting.
            models.UniqueConstraint(fields=["replay_id", "delivery_id"], name="put_back_once_per_job"),
            models.CheckConstraint(
                condition=Q(outcome__isnull=True) | Q(outcome__in=FINISHED), name="put_back_outcome_known"
            ),
        ]
        indexes = [
            # replay.py writes down how the round before ended.
            models.Index(fields=["delivery_id"], name="put_back_of_delivery"),
        ]

    def __str__(self) -> str:
        return f"{ids.show('dlv', self.delivery_id)} by {ids.show('rpl', self.replay_id)}"
