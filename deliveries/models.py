"""What happened and what is owed: events, deliveries, attempts. Postgres is the ledger; every promise is a row here.

Each index names its reader: every further one costs each delivery a few microseconds. The hot tables have no foreign
keys in the database: their rows are made by statements that select what they refer to, what they refer to is deleted
after them, and a foreign key would look up and lock the referred row for each new one.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from deliveries.sql.xid8 import FeedTransaction, Xid8Field
from subscriptions import ids
from subscriptions.models import Consumer, Endpoint


class Event(models.Model):
    """What happened. Immutable: `body` holds the exact bytes that go on the wire, for ever."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    consumer = models.ForeignKey(
        Consumer, on_delete=models.PROTECT, related_name="events", db_index=False, db_constraint=False
    )
    type = models.CharField(max_length=255)
    api_version = models.CharField(max_length=64)
    # The producer's own stable id, when it gave one: then this is what consumers see as the event's id.
    producer_id = models.CharField(max_length=255, null=True, blank=True)
    # Null once its retention has ended.
    body = models.BinaryField(null=True)
    occurred_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(editable=False)
    ordering_key = models.CharField(max_length=255, null=True, blank=True)
    sequence = models.PositiveBigIntegerField(null=True, blank=True)
    traceparent = models.CharField(max_length=64, null=True, blank=True)
    delivery_count = models.PositiveIntegerField(default=0)
    xid = Xid8Field(db_default=FeedTransaction(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["consumer", "producer_id"],
                condition=Q(producer_id__isnull=False),
                name="event_producer_id_unique",
            ),
            # Also read by the filter on ordering_key.
            models.UniqueConstraint(
                fields=["consumer", "ordering_key", "sequence"],
                condition=Q(ordering_key__isnull=False),
                name="event_sequence_unique",
            ),
            models.CheckConstraint(
                condition=Q(ordering_key__isnull=True, sequence__isnull=True)
                | Q(ordering_key__isnull=False, sequence__isnull=False),
                name="event_sequence_with_key",
            ),
        ]
        indexes = [
            # deliveries/browse/feed.py: a consumer's events in the order in which they became visible.
            models.Index(fields=["consumer", "xid", "id"], name="event_feed"),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} {self.type}"

    @property
    def public_id(self) -> str:
        return self.producer_id or ids.show("evt", self.id)


class FeedOffset(models.Model):
    """One row at most: what is added to this cluster's transaction ids, since the events came from another one."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    xids = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="feed_offset_single")]

    def __str__(self) -> str:
        return f"feed ahead by {self.xids}"


class OrderingKey(models.Model):
    """The last sequence number given out for a consumer's ordering key. Its row lock makes the numbers gapless."""

    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, db_index=False)
    key = models.CharField(max_length=255)
    last_sequence = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["consumer", "key"], name="ordering_key_unique")]

    def __str__(self) -> str:
        return f"{self.key} at {self.last_sequence}"


class DeliveryState(models.TextChoices):
    PENDING = "pending"  # claim takes it out, once due
    IN_FLIGHT = "in_flight"  # settle takes it out, or the sweep once the worker's lease has run out
    DELIVERED = "delivered"  # final, unless replayed
    DEAD = "dead"  # a dead letter; only a replay takes it out


LIVE = [DeliveryState.PENDING, DeliveryState.IN_FLIGHT]
FINISHED = [DeliveryState.DELIVERED, DeliveryState.DEAD]


class Delivery(models.Model):
    """One event owed to one endpoint."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    event = models.ForeignKey(
        Event, on_delete=models.PROTECT, related_name="deliveries", db_index=False, db_constraint=False
    )
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.PROTECT, related_name="deliveries", db_index=False, db_constraint=False
    )
    state = models.CharField(max_length=16, choices=DeliveryState, default=DeliveryState.PENDING)
    # Never null: one query finds first tries, retries, replays and the work of a crashed worker.
    due_at = models.DateTimeField()
    # Attempts begun. The claim counts up, so the number is also the fence against a worker that comes back late.
    attempt_count = models.PositiveIntegerField(default=0)
    # attempt_count when this round began: a replay starts the schedule anew without forgetting the history.
    round_base = models.PositiveIntegerField(default=0)
    round_started_at = models.DateTimeField()
    leased_by = models.UUIDField(null=True, blank=True)
    # Set for ordered endpoints only: a key's deliveries go out one at a time, in sequence.
    ordering_key = models.CharField(max_length=255, null=True, blank=True)
    sequence = models.PositiveBigIntegerField(null=True, blank=True)
    # Waits behind an earlier delivery of its key; settling that one takes it out.
    blocked = models.BooleanField(default=False)
    dead_reason = models.CharField(max_length=64, null=True, blank=True)
    created_at = models.DateTimeField(editable=False)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        permissions = [("operate", "Can replay, pause, resume, disable, rotate and give up")]
        constraints = [
            # Also read by endpoints/{id}/deliveries/, newest first (event ids are time-ordered), and, endpoint by
            # endpoint of a consumer, by events/{id}/deliveries/ and the feed.
            models.UniqueConstraint(fields=["endpoint", "event"], name="delivery_once_per_endpoint"),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_known"),
            models.CheckConstraint(
                condition=Q(state=DeliveryState.IN_FLIGHT, leased_by__isnull=False)
                | (~Q(state=DeliveryState.IN_FLIGHT) & Q(leased_by__isnull=True)),
                name="delivery_leased_while_in_flight",
            ),
            models.CheckConstraint(
                condition=Q(state=DeliveryState.DEAD, dead_reason__isnull=False)
                | (~Q(state=DeliveryState.DEAD) & Q(dead_reason__isnull=True)),
                name="delivery_dead_for_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(state__in=FINISHED, finished_at__isnull=False)
                | Q(state__in=LIVE, finished_at__isnull=True),
                name="delivery_finished_when_final",
            ),
            models.CheckConstraint(
                condition=Q(attempt_count__gte=models.F("round_base")), name="delivery_round_base_sane"
            ),
            models.CheckConstraint(
                condition=Q(blocked=False) | Q(state=DeliveryState.PENDING, ordering_key__isnull=False),
                name="delivery_blocked_while_pending",
            ),
            # "One at a time per key" is a constraint of the database, not a habit of the code.
            models.UniqueConstraint(
                fields=["endpoint", "ordering_key"],
                condition=Q(state__in=LIVE, blocked=False, ordering_key__isnull=False),
                name="delivery_one_live_per_key",
            ),
        ]
        indexes = [
            # claim.py takes an endpoint's due rows in order; sweep.py skips from endpoint to endpoint.
            models.Index(
                fields=["endpoint", "due_at", "id"],
                condition=Q(state=DeliveryState.PENDING, blocked=False),
                name="delivery_due",
            ),
            # claim.py counts an endpoint's requests in flight; sweep.py looks for those of dead workers.
            models.Index(fields=["endpoint"], condition=Q(state=DeliveryState.IN_FLIGHT), name="delivery_in_flight"),
            # settle.py finds the next delivery of a key.
            models.Index(
                fields=["endpoint", "ordering_key", "sequence"], condition=Q(blocked=True), name="delivery_blocked"
            ),
            # deliveries/?state=dead and replays, of all endpoints or of one.
            models.Index(fields=["id"], condition=Q(state=DeliveryState.DEAD), name="delivery_dead"),
            models.Index(
                fields=["endpoint", "id"], condition=Q(state=DeliveryState.DEAD), name="delivery_dead_of_endpoint"
            ),
            # browse/causes.py: every reason and how many died of it; dead letters of one reason, newest first.
            models.Index(
                fields=["dead_reason", "id"], condition=Q(state=DeliveryState.DEAD), name="delivery_dead_by_reason"
            ),
            # browse/causes.py: the dead letters of certain endpoints, grouped by reason.
            models.Index(
                fields=["endpoint", "dead_reason", "id"],
                condition=Q(state=DeliveryState.DEAD),
                name="delivery_dead_for_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} {self.state}"

    @property
    def is_finished(self) -> bool:
        """Delivered or dead: only a replay takes it out of there."""
        return self.state in FINISHED

    @property
    def public_id(self) -> str:
        return ids.show("dlv", self.id)


class Attempt(models.Model):
    """One POST, with everything needed to explain it."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    delivery = models.ForeignKey(
        Delivery, on_delete=models.CASCADE, related_name="attempts", db_index=False, db_constraint=False
    )
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    url = models.CharField(max_length=2048)
    address = models.CharField(max_length=64, null=True, blank=True)
    status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    error_kind = models.CharField(max_length=32, null=True, blank=True)
    error_detail = models.CharField(max_length=255, null=True, blank=True)
    request_headers = models.JSONField()
    response_headers = models.JSONField(null=True, blank=True)
    response_body = models.BinaryField(null=True, blank=True)

    class Meta:
        constraints = [
            # Also read by deliveries/{id}/, which shows the attempts in order.
            models.UniqueConstraint(fields=["delivery", "number"], name="attempt_number_unique"),
            models.CheckConstraint(
                condition=Q(status_code__isnull=False) | Q(error_kind__isnull=False),
                name="attempt_has_an_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} #{self.number}"

    @property
    def public_id(self) -> str:
        return ids.show("att", self.id)


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
        Delivery, null=True, blank=True, on_delete=models.DO_NOTHING, db_index=False, db_constraint=False
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


class TrialSlot(models.Model):
    """A consumer's one place for tests and check-ups, which are sent outside the queue: see endpoint_tests/. The claim
    counts a test that is under way as one of its endpoint's requests in flight."""

    consumer = models.OneToOneField(Consumer, primary_key=True, on_delete=models.CASCADE)
    endpoint_id = models.UUIDField()
    # Whose it is: who comes back late frees no slot that somebody else has taken meanwhile.
    token = models.UUIDField()
    # The test is under way until then at the latest: a process that was killed frees nothing.
    ends_at = models.DateTimeField()
    # The next may begin.
    free_at = models.DateTimeField()

    class Meta:
        indexes = [
            # claim.py counts the test of an endpoint.
            models.Index(fields=["endpoint_id"], name="trial_slot_of_endpoint"),
        ]

    def __str__(self) -> str:
        return f"test of {ids.show('ep', self.endpoint_id)}"


class SentTest(models.Model):
    """A test event that somebody sent by hand, with its answer. Not a delivery: nothing is owed, and the endpoint's
    health and statistics hear nothing. The newest few of an endpoint are kept (endpoint_tests/sent_tests.py)."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, db_index=False)
    sent_by = models.CharField(max_length=255)
    event_id = models.CharField(max_length=64)
    type = models.CharField(max_length=255)
    url = models.CharField(max_length=2048)
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    request_headers = models.JSONField()
    request_body = models.BinaryField()
    status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    error_kind = models.CharField(max_length=32, null=True, blank=True)
    error_detail = models.CharField(max_length=255, null=True, blank=True)
    response_headers = models.JSONField(null=True, blank=True)
    response_body = models.BinaryField(null=True, blank=True)

    class Meta:
        # The newest of an endpoint.
        indexes = [models.Index(fields=["endpoint", "-id"], name="sent_test_of_endpoint")]

    def __str__(self) -> str:
        return f"test {self.type} to {ids.show('ep', self.endpoint_id)}"

    @property
    def public_id(self) -> str:
        return ids.show("tst", self.id)


class Housekeeping(models.Model):
    """How far a caretaker has come through time-ordered ids, or whose turn was the last (replay.py)."""

    name = models.CharField(max_length=32, primary_key=True)
    position = models.UUIDField()

    def __str__(self) -> str:
        return f"{self.name} at {self.position}"


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


class Pulse(models.Model):
    """A process that says it is alive, every few seconds, until it ends in order; see upkeep/heartbeat.py."""

    name = models.CharField(max_length=255, primary_key=True)
    started_at = models.DateTimeField(db_default=Now())
    at = models.DateTimeField(db_default=Now())
    # How far its clock is ahead of the database's (milliseconds).
    clock_ahead_ms = models.BigIntegerField(db_default=0)

    def __str__(self) -> str:
        return self.name
