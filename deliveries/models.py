"""What happened and what is owed: events, deliveries, attempts. Postgres is the ledger; every promise is a row here.

The other models lie in the rooms that use them; Django finds them by the imports here.

Each index names its reader: every further one costs each delivery a few microseconds. The hot tables have no foreign
keys in the database: their rows are made by statements that select what they refer to, what they refer to is deleted
after them, and a foreign key would look up and lock the referred row for each new one.
"""

from django.db import models
from django.db.models import Q

from deliveries.endpoint_tests.models import CheckUp, SentTest, TrialSlot
from deliveries.health.models import Hold, Notice, NoticeKind
from deliveries.pump.models import Lease
from deliveries.replaying.models import PutBack, Replay, ReplayStatus
from deliveries.sql.xid8 import FeedTransaction, Xid8Field
from deliveries.states import FINISHED, LIVE, DeliveryState
from deliveries.statistics.models import Delta, Tally, Total
from deliveries.upkeep.models import Housekeeping, Pulse
from subscriptions import ids
from subscriptions.models import Consumer, Endpoint

__all__ = [
    "Attempt",
    "CheckUp",
    "Delivery",
    "DeliveryState",
    "Delta",
    "Event",
    "FeedOffset",
    "Hold",
    "Housekeeping",
    "Lease",
    "Notice",
    "NoticeKind",
    "OrderingKey",
    "Pulse",
    "PutBack",
    "Replay",
    "ReplayStatus",
    "SentTest",
    "Tally",
    "Total",
    "TrialSlot",
]


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
