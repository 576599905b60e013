"""Who wants what: consumers and their keys, the catalogue of event types, endpoints with secrets and lanes."""

import json
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from subscriptions import ids
from subscriptions.signing.ready_made import READY_MADE


class Consumer(models.Model):
    """The tenant. Named by our id (`con_…`) or by the producer's own `uid`, interchangeably."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    uid = models.CharField(max_length=255, null=True, blank=True, unique=True)
    name = models.CharField(max_length=255, blank=True, default="")
    contact_email = models.EmailField(blank=True, default="")
    metadata = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # Gone for the API, kept for the history. Its uid is free again.
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(uid=""), name="consumer_uid_not_empty")]

    def __str__(self) -> str:
        return self.uid or self.public_id

    @property
    def public_id(self) -> str:
        return ids.show("con", self.id)


class MailKind(models.TextChoices):
    FAILING = "failing"
    DISABLING = "disabling"
    DISABLED = "disabled"
    RECOVERED = "recovered"


def _every_mail_kind() -> list[str]:
    return list(MailKind.values)


class MailRecipient(models.Model):
    """An address that hears by mail what happens to a consumer's endpoints, and what waits to be told there."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, related_name="mail_recipients", db_index=False)
    # In lower case.
    email = models.EmailField()
    kinds = ArrayField(models.CharField(max_length=16, choices=MailKind), default=_every_mail_kind)
    # The address that the producer named: it needs no confirmation, and goes when another one is named.
    is_contact = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # When the confirmation was asked for, and given. Nothing else is sent before.
    asked_at = models.DateTimeField(null=True, blank=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    # When its owner wanted no more.
    stopped_at = models.DateTimeField(null=True, blank=True)
    # No mail goes there before this time: the last one was a moment ago, failed, or is on its way.
    opens_at = models.DateTimeField(db_default=Now())
    failure_count = models.PositiveSmallIntegerField(default=0)
    # The notices that the next mail tells of.
    owed_notices = ArrayField(models.UUIDField(), default=list, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["consumer", "email"], name="mail_recipient_once")]
        indexes = [
            # deliveries/upkeep/mail.py: who is owed a mail.
            models.Index(fields=["opens_at"], condition=~Q(owed_notices=[]), name="mail_recipient_owed"),
            models.Index(
                fields=["opens_at"],
                condition=Q(asked_at__isnull=True, confirmed_at__isnull=True),
                name="mail_recipient_unasked",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} of {ids.show('con', self.consumer_id)}"

    @property
    def public_id(self) -> str:
        return ids.show("rcp", self.id)


class Role(models.TextChoices):
    PRODUCER = "producer"  # emits events, manages consumers and event types
    CONSUMER = "consumer"  # everything of one consumer, nothing else
    OPERATOR = "operator"  # all


class ApiKey(models.Model):
    """A bearer key. Only its hash is stored; the key itself is shown once."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    role = models.CharField(max_length=16, choices=Role)
    consumer = models.ForeignKey(Consumer, null=True, blank=True, on_delete=models.CASCADE, related_name="keys")
    # Whose requests these are: idempotency keys are scoped to it, so a service keeps its scope when its key changes.
    owner = models.CharField(max_length=255)
    name = models.CharField(max_length=255, blank=True, default="")
    # The last letters of the key, so people can tell keys apart.
    hint = models.CharField(max_length=8)
    hash = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    # What it may do (subscriptions/access/scopes.py); null for its role's default scopes.
    scopes = ArrayField(models.CharField(max_length=32), null=True, blank=True, editable=False)
    # The key it hangs from, and the key that asked for the rotation it came from (subscriptions/access/key_tree.py).
    # Null for a command or a person. Ids without a constraint: those keys may have been forgotten since.
    issued_by = models.UUIDField(null=True, blank=True, editable=False)
    rotated_by = models.UUIDField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="api_key_role_known"),
            models.CheckConstraint(
                condition=Q(role=Role.CONSUMER, consumer__isnull=False)
                | (~Q(role=Role.CONSUMER) & Q(consumer__isnull=True)),
                name="api_key_consumer_fits_role",
            ),
        ]
        indexes = [
            # subscriptions/access/key_tree.py: what these keys made, when they are revoked.
            models.Index(fields=["issued_by"], name="api_key_issued_by", condition=Q(issued_by__isnull=False)),
            models.Index(fields=["rotated_by"], name="api_key_rotated_by", condition=Q(rotated_by__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.role} …{self.hint}"

    @property
    def public_id(self) -> str:
        return ids.show("key", self.id)


class EventType(models.Model):
    """An entry of the catalogue. Archived rather than deleted while in use.

    One that was only emitted is known and not published: consumers see what somebody declared.
    """

    name = models.CharField(max_length=255, primary_key=True)
    description = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # When its first event came. A type in use is archived, never deleted.
    used_at = models.DateTimeField(null=True, blank=True, editable=False)
    # When somebody put it into the catalogue; null for one that was only emitted.
    declared_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Still sent, and not for new receivers.
    deprecated_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class ExactJson(json.JSONDecoder):
    """Reads JSON of the database: it writes 1e25 as a whole number, and no answer may hold one beyond 64 bits."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "parse_int": _whole_number})


def _whole_number(text: str) -> int | float:
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 64 else float(text)


class EventTypeVersion(models.Model):
    """What `data` looks like in one api_version of an event type."""

    event_type = models.ForeignKey(EventType, on_delete=models.CASCADE, related_name="versions")
    api_version = models.CharField(max_length=64)
    schema = models.JSONField(null=True, blank=True, decoder=ExactJson)
    example = models.JSONField(null=True, blank=True, decoder=ExactJson)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["event_type", "api_version"], name="event_type_version_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type_id} {self.api_version}"


class SignatureProfile(models.Model):
    """A way of signing that operators described, for receivers that verify another sender's requests. What an endpoint
    with one of the ready-made schemes needs is in the code (subscriptions/signing/ready_made.py)."""

    name = models.CharField(max_length=64, primary_key=True)
    description = models.TextField(blank=True, default="")
    # All fields of `subscriptions.signing.recipe.Recipe`.
    recipe = models.JSONField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self) -> str:
        return self.name


class PayloadMode(models.TextChoices):
    """What a request's body holds (deliveries/pump/forms.py)."""

    FULL = "full"
    THIN = "thin"
    CLOUDEVENTS = "cloudevents"
    CLOUDEVENTS_BINARY = "cloudevents_binary"


class EndpointStatus(models.TextChoices):
    ACTIVE = "active"
    PAUSED = "paused"  # by a person; `resume` takes it out
    DISABLED = "disabled"  # by 410, by days of failure, by an operator; `resume` takes it out


class Endpoint(models.Model):
    """A URL that wants events, with its secrets and its limits. Its backlog waits while it is not active."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    consumer = models.ForeignKey(Consumer, on_delete=models.PROTECT, related_name="endpoints")
    # What it is called in the file that it was imported from. The next import finds it so, also once it is deleted.
    uid = models.CharField(max_length=255, null=True, blank=True, editable=False)
    url = models.CharField(max_length=2048)
    # Patterns: `invoice.paid`, `invoice.*`, `*`.
    event_types = ArrayField(models.CharField(max_length=255))
    description = models.TextField(blank=True, default="")
    metadata = models.JSONField(default=dict, blank=True)
    # Custom headers as one encrypted JSON object; their values are secrets. Names are kept readable beside it.
    headers_encrypted = models.BinaryField(null=True, blank=True)
    header_names = ArrayField(models.CharField(max_length=64), default=list, blank=True)
    # A ready-made scheme, or the name of the profile that it refers to.
    signature_scheme = models.CharField(max_length=64)
    signature_profile = models.ForeignKey(
        SignatureProfile, null=True, blank=True, editable=False, on_delete=models.PROTECT, db_index=False,
        related_name="endpoints",
    )  # fmt: skip
    payload_mode = models.CharField(max_length=32, choices=PayloadMode, default=PayloadMode.FULL)
    ordered = models.BooleanField(default=False)
    max_in_flight = models.PositiveIntegerField()
    rate_limit_per_second = models.PositiveIntegerField(null=True, blank=True)
    timeout_seconds = models.PositiveIntegerField()
    # Seconds to wait before each attempt; null means the deployment's schedule.
    retry_schedule = ArrayField(models.PositiveIntegerField(), null=True, blank=True)
    # At most two secrets ever sign: that is why they are columns and not a table.
    secret_encrypted = models.BinaryField()
    previous_secret_encrypted = models.BinaryField(null=True, blank=True)
    previous_secret_expires_at = models.DateTimeField(null=True, blank=True)
    status = models.CharField(max_length=16, choices=EndpointStatus, default=EndpointStatus.ACTIVE)
    disabled_reason = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    # No new deliveries, none sent; its history stays readable.
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(status__in=EndpointStatus.values), name="endpoint_status_known"),
            models.UniqueConstraint(
                fields=["consumer", "uid"], condition=Q(uid__isnull=False), name="endpoint_uid_once_per_consumer"
            ),
            models.CheckConstraint(
                condition=Q(signature_scheme__in=list(READY_MADE), signature_profile__isnull=True)
                | Q(
                    ~Q(signature_scheme__in=list(READY_MADE)),
                    signature_profile__isnull=False,
                    signature_profile=F("signature_scheme"),
                ),
                name="endpoint_scheme_known",
            ),
            models.CheckConstraint(
                condition=Q(payload_mode__in=PayloadMode.values), name="endpoint_payload_mode_known"
            ),
            models.CheckConstraint(condition=Q(max_in_flight__gte=1), name="endpoint_max_in_flight_positive"),
            models.CheckConstraint(
                condition=Q(rate_limit_per_second__isnull=True) | Q(rate_limit_per_second__gte=1),
                name="endpoint_rate_limit_positive",
            ),
            models.CheckConstraint(condition=Q(timeout_seconds__range=(1, 30)), name="endpoint_timeout_in_range"),
            models.CheckConstraint(
                condition=Q(previous_secret_encrypted__isnull=True, previous_secret_expires_at__isnull=True)
                | Q(previous_secret_encrypted__isnull=False, previous_secret_expires_at__isnull=False),
                name="endpoint_previous_secret_expires",
            ),
        ]
        indexes = [
            # subscriptions/signing/schemes.py: whether a profile is in use.
            models.Index(
                fields=["signature_profile"],
                condition=Q(signature_profile__isnull=False),
                name="endpoint_signature_profile",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} {self.url}"

    @property
    def public_id(self) -> str:
        return ids.show("ep", self.id)


class Lane(models.Model):
    """The hot row beside an endpoint: the claim locks it, the settler writes its health. The API locks it only to take
    tokens and a place for a test, for a moment."""

    endpoint = models.OneToOneField(Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="lane")
    # Nothing is sent before this time: a Retry-After, a rate limit, a breaker's cool-down.
    opens_at = models.DateTimeField(db_default=Now())
    # Failed attempts since the last 2xx.
    failure_count = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    last_failure_at = models.DateTimeField(null=True, blank=True)
    # How that one ended (an attempt's error kind), for lists of what fails; null where it is not known.
    last_error_kind = models.CharField(max_length=32, null=True, blank=True)
    # Open: one probe at a time, each after a longer cool-down than the one before. The first 2xx closes it.
    breaker_open = models.BooleanField(default=False)
    cooldown_seconds = models.PositiveIntegerField(default=0)
    # Requests in flight allowed while the endpoint recovers: 1 for a probe, then one more for each 2xx. Null: the cap.
    allowance = models.PositiveIntegerField(null=True, blank=True)
    # How many warnings about this run of failures went out.
    warning_count = models.PositiveSmallIntegerField(default=0)
    # People were told that it fails or was disabled: they are owed the news of its recovery, whoever resumes it.
    recovery_owed = models.BooleanField(default=False, db_default=False)
    # The rate limit's bucket. The claim and tests (trial_slots.py) take from it, under its lock; tests on credit.
    tokens = models.FloatField(default=0)
    tokens_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(failure_count=0, failing_since__isnull=True)
                | Q(failure_count__gt=0, failing_since__isnull=False),
                name="lane_failing_since_fits_count",
            ),
            models.CheckConstraint(
                condition=Q(breaker_open=False) | Q(failure_count__gt=0, allowance=1), name="lane_open_breaker_probes"
            ),
        ]

    def __str__(self) -> str:
        return f"lane of {ids.show('ep', self.endpoint_id)}"


class PortalVisit(models.Model):
    """A link to the portal, and the session it became when somebody opened it. Only hashes of both are stored."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, db_index=False)
    # The key, the user or the program that asked for the link.
    requested_by = models.CharField(max_length=255)
    # The API key that asked for the link, if one did: the link and its session end when it is revoked.
    key_id = models.UUIDField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    link_hash = models.BinaryField(max_length=32, unique=True)
    link_expires_at = models.DateTimeField()
    # Once: what has been opened cannot be opened again.
    opened_at = models.DateTimeField(null=True, blank=True)
    session_hash = models.BinaryField(max_length=32, null=True, blank=True, unique=True)
    session_ends_at = models.DateTimeField(null=True, blank=True)
    # Name, logo, accent and links of whoever sends the webhooks, where the link says other than the settings.
    branding = models.JSONField(default=dict, db_default={})

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(opened_at__isnull=True, session_hash__isnull=True, session_ends_at__isnull=True)
                | Q(opened_at__isnull=False, session_hash__isnull=False, session_ends_at__isnull=False),
                name="portal_session_once_opened",
            ),
        ]
        indexes = [
            # subscriptions/access/portal_visits.py: forgets old ones.
            models.Index(fields=["created_at"], name="portal_visit_age"),
            # subscriptions/access/key_tree.py: those of a key that is revoked.
            models.Index(fields=["key_id"], name="portal_visit_key", condition=Q(key_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"visit of {ids.show('con', self.consumer_id)}"

    @property
    def public_id(self) -> str:
        return ids.show("vis", self.id)


class Handover(models.Model):
    """The result of a form until the next page shows it, sealed (subscriptions/secrets/handover.py). A secret's row is
    deleted by the page that shows it."""

    token_hash = models.BinaryField(max_length=32, unique=True)
    # Which session may see it, as deliveries/pages/idempotent_forms.py names sessions.
    visitor = models.CharField(max_length=255)
    # The public id of the endpoint or consumer.
    about = models.CharField(max_length=255)
    content_encrypted = models.BinaryField()
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [
            # subscriptions/secrets/handover.py: forgets old ones.
            models.Index(fields=["expires_at"], name="handover_end"),
        ]

    def __str__(self) -> str:
        return f"handover about {self.about}"


class IdempotencyRecord(models.Model):
    """The answer to a request that named an Idempotency-Key, committed together with what the request did."""

    owner = models.CharField(max_length=255)
    operation = models.CharField(max_length=255)
    key = models.CharField(max_length=255)
    # SHA-256 of the request's body: the same key with another body is a mistake worth a 409.
    fingerprint = models.BinaryField(max_length=32)
    status_code = models.PositiveSmallIntegerField()
    # Sealed: some answers hold a secret that is shown once.
    response_encrypted = models.BinaryField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "operation", "key"], name="idempotency_key_unique")]

    def __str__(self) -> str:
        return f"{self.operation} {self.key}"


class ActorKind(models.TextChoices):
    USER = "user"  # of the console
    PORTAL = "portal"  # a session of a consumer's portal
    KEY = "key"  # an API key
    COMMAND = "command"  # manage.py


class AuditEntry(models.Model):
    """Somebody changed something: who, what, to what, to how many, and why. Written by subscriptions/audit.py in the
    transaction of the change itself."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    at = models.DateTimeField(db_default=Now(), editable=False)
    actor_kind = models.CharField(max_length=16, choices=ActorKind)
    # What the actor is found by: a user's name, `vis_…`, `key_…`, a command's name.
    actor_id = models.CharField(max_length=255)
    # As people read it: `key key_… (producer)`.
    actor = models.CharField(max_length=255)
    action = models.CharField(max_length=64)
    # The public id of what it was done to; empty for everything.
    target = models.CharField(max_length=255, blank=True, default="")
    # Whose it is, where it is one consumer's. No foreign key: the log outlives what it is about.
    consumer_id = models.UUIDField(null=True, blank=True)
    count = models.PositiveIntegerField(default=1)
    # More about what: the names of changed fields, never their values.
    detail = models.CharField(max_length=255, blank=True, default="")
    why = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(actor_kind__in=ActorKind.values), name="audit_actor_known")]
        indexes = [
            # audit.py: by each of the filters, newest first. The first also serves the pages of what it was done to.
            models.Index(fields=["target", "-id"], name="audit_of_target"),
            models.Index(fields=["actor_id", "-id"], name="audit_by_actor"),
            models.Index(fields=["action", "-id"], name="audit_of_action"),
            models.Index(fields=["consumer_id", "-id"], name="audit_of_consumer"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target}"

    @property
    def public_id(self) -> str:
        return ids.show("aud", self.id)
