"""Consumers, keys, event types and endpoints, with what belongs to them; and the audit log."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import subscriptions.ids


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[("producer", "Producer"), ("consumer", "Consumer"), ("operator", "Operator")],
                        max_length=16,
                    ),
                ),
                ("owner", models.CharField(max_length=255)),
                ("name", models.CharField(blank=True, default="", max_length=255)),
                ("hint", models.CharField(max_length=8)),
                ("hash", models.BinaryField(max_length=32, unique=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=32), blank=True, editable=False, null=True, size=None
                    ),
                ),
                ("issued_by", models.UUIDField(blank=True, editable=False, null=True)),
                ("rotated_by", models.UUIDField(blank=True, editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("url", models.CharField(max_length=2048)),
                (
                    "event_types",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), size=None),
                ),
                ("description", models.TextField(blank=True, default="")),
                ("metadata", models.JSONField(blank=True, default=dict)),
                ("headers_encrypted", models.BinaryField(blank=True, null=True)),
                (
                    "header_names",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64), blank=True, default=list, size=None
                    ),
                ),
                (
                    "signature_scheme",
                    models.CharField(choices=[("timestamped", "Timestamped"), ("standard", "Standard")], max_length=16),
                ),
                (
                    "payload_mode",
                    models.CharField(choices=[("full", "Full"), ("thin", "Thin")], default="full", max_length=8),
                ),
                ("ordered", models.BooleanField(default=False)),
                ("max_in_flight", models.PositiveIntegerField()),
                ("rate_limit_per_second", models.PositiveIntegerField(blank=True, null=True)),
                ("timeout_seconds", models.PositiveIntegerField()),
                (
                    "retry_schedule",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveIntegerField(), blank=True, null=True, size=None
                    ),
                ),
                ("secret_encrypted", models.BinaryField()),
                ("previous_secret_encrypted", models.BinaryField(blank=True, null=True)),
                ("previous_secret_expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[("active", "Active"), ("paused", "Paused"), ("disabled", "Disabled")],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("disabled_reason", models.TextField(blank=True, default="")),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "updated_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Consumer",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("uid", models.CharField(blank=True, max_length=255, null=True, unique=True)),
                ("name", models.CharField(blank=True, default="", max_length=255)),
                ("contact_email", models.EmailField(blank=True, default="", max_length=254)),
                ("metadata", models.JSONField(blank=True, default=dict)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="EventType",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("description", models.TextField(blank=True, default="")),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="EventTypeVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("api_version", models.CharField(max_length=64)),
                ("schema", models.JSONField(blank=True, null=True)),
                ("example", models.JSONField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Handover",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("token_hash", models.BinaryField(max_length=32, unique=True)),
                ("visitor", models.CharField(max_length=255)),
                ("about", models.CharField(max_length=255)),
                ("content_encrypted", models.BinaryField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("actor", models.CharField(max_length=255)),
                ("reason", models.CharField(max_length=500)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
            ],
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", models.CharField(max_length=255)),
                ("operation", models.CharField(max_length=255)),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.BinaryField(max_length=32)),
                ("status_code", models.PositiveSmallIntegerField()),
                ("response_encrypted", models.BinaryField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PortalVisit",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("requested_by", models.CharField(max_length=255)),
                ("key_id", models.UUIDField(blank=True, editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("link_hash", models.BinaryField(max_length=32, unique=True)),
                ("link_expires_at", models.DateTimeField()),
                ("opened_at", models.DateTimeField(blank=True, null=True)),
                ("session_hash", models.BinaryField(blank=True, max_length=32, null=True, unique=True)),
                ("session_ends_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "actor_kind",
                    models.CharField(
                        choices=[("user", "User"), ("portal", "Portal"), ("key", "Key"), ("command", "Command")],
                        max_length=16,
                    ),
                ),
                ("actor_id", models.CharField(max_length=255)),
                ("actor", models.CharField(max_length=255)),
                ("action", models.CharField(max_length=64)),
                ("target", models.CharField(blank=True, default="", max_length=255)),
                ("consumer_id", models.UUIDField(blank=True, null=True)),
                ("count", models.PositiveIntegerField(default=1)),
                ("detail", models.CharField(blank=True, default="", max_length=255)),
                ("why", models.CharField(blank=True, default="", max_length=500)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["target", "-id"], name="audit_of_target"),
                    models.Index(fields=["actor_id", "-id"], name="audit_by_actor"),
                    models.Index(fields=["action", "-id"], name="audit_of_action"),
                    models.Index(fields=["consumer_id", "-id"], name="audit_of_consumer"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("actor_kind__in", ["user", "portal", "key", "command"])),
                        name="audit_actor_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CheckUp",
            fields=[
                (
                    "endpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="check_up",
                        serialize=False,
                        to="subscriptions.endpoint",
                    ),
                ),
                ("started_at", models.DateTimeField()),
                ("report", models.JSONField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[
                (
                    "endpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="lane",
                        serialize=False,
                        to="subscriptions.endpoint",
                    ),
                ),
                ("opens_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("failure_count", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("last_failure_at", models.DateTimeField(blank=True, null=True)),
                ("breaker_open", models.BooleanField(default=False)),
                ("cooldown_seconds", models.PositiveIntegerField(default=0)),
                ("allowance", models.PositiveIntegerField(blank=True, null=True)),
                ("warning_count", models.PositiveSmallIntegerField(default=0)),
                ("tokens", models.FloatField(default=0)),
                ("tokens_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.AddField(
            model_name="endpoint",
            name="consumer",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="endpoints", to="subscriptions.consumer"
            ),
        ),
        migrations.AddConstraint(
            model_name="consumer",
            constraint=models.CheckConstraint(
                condition=models.Q(("uid", ""), _negated=True), name="consumer_uid_not_empty"
            ),
        ),
        migrations.AddField(
            model_name="apikey",
            name="consumer",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="keys",
                to="subscriptions.consumer",
            ),
        ),
        migrations.AddField(
            model_name="eventtypeversion",
            name="event_type",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="versions", to="subscriptions.eventtype"
            ),
        ),
        migrations.AddIndex(
            model_name="handover",
            index=models.Index(fields=["expires_at"], name="handover_end"),
        ),
        migrations.AddField(
            model_name="hold",
            name="consumer",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="subscriptions.consumer",
            ),
        ),
        migrations.AddConstraint(
            model_name="idempotencyrecord",
            constraint=models.UniqueConstraint(fields=("owner", "operation", "key"), name="idempotency_key_unique"),
        ),
        migrations.AddField(
            model_name="portalvisit",
            name="consumer",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, to="subscriptions.consumer"
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("failing_since__isnull", True), ("failure_count", 0)),
                    models.Q(("failing_since__isnull", False), ("failure_count__gt", 0)),
                    _connector="OR",
                ),
                name="lane_failing_since_fits_count",
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("breaker_open", False), models.Q(("allowance", 1), ("failure_count__gt", 0)), _connector="OR"
                ),
                name="lane_open_breaker_probes",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["active", "paused", "disabled"])), name="endpoint_status_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("signature_scheme__in", ["timestamped", "standard"])), name="endpoint_scheme_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("payload_mode__in", ["full", "thin"])), name="endpoint_payload_mode_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_in_flight__gte", 1)), name="endpoint_max_in_flight_positive"
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("rate_limit_per_second__isnull", True), ("rate_limit_per_second__gte", 1), _connector="OR"
                ),
                name="endpoint_rate_limit_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("timeout_seconds__range", (1, 30))), name="endpoint_timeout_in_range"
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("previous_secret_encrypted__isnull", True), ("previous_secret_expires_at__isnull", True)),
                    models.Q(
                        ("previous_secret_encrypted__isnull", False), ("previous_secret_expires_at__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="endpoint_previous_secret_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="apikey",
            index=models.Index(
                condition=models.Q(("issued_by__isnull", False)), fields=["issued_by"], name="api_key_issued_by"
            ),
        ),
        migrations.AddIndex(
            model_name="apikey",
            index=models.Index(
                condition=models.Q(("rotated_by__isnull", False)), fields=["rotated_by"], name="api_key_rotated_by"
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["producer", "consumer", "operator"])), name="api_key_role_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("consumer__isnull", False), ("role", "consumer")),
                    models.Q(models.Q(("role", "consumer"), _negated=True), ("consumer__isnull", True)),
                    _connector="OR",
                ),
                name="api_key_consumer_fits_role",
            ),
        ),
        migrations.AddConstraint(
            model_name="eventtypeversion",
            constraint=models.UniqueConstraint(fields=("event_type", "api_version"), name="event_type_version_unique"),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.UniqueConstraint(
                fields=("consumer",), name="hold_once_per_consumer", nulls_distinct=False
            ),
        ),
        migrations.AddIndex(
            model_name="portalvisit",
            index=models.Index(fields=["created_at"], name="portal_visit_age"),
        ),
        migrations.AddIndex(
            model_name="portalvisit",
            index=models.Index(
                condition=models.Q(("key_id__isnull", False)), fields=["key_id"], name="portal_visit_key"
            ),
        ),
        migrations.AddConstraint(
            model_name="portalvisit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("opened_at__isnull", True), ("session_ends_at__isnull", True), ("session_hash__isnull", True)
                    ),
                    models.Q(
                        ("opened_at__isnull", False),
                        ("session_ends_at__isnull", False),
                        ("session_hash__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="portal_session_once_opened",
            ),
        ),
    ]
