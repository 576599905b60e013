"""The tables of both the ledger and its upkeep, what Django's models cannot say about them, and the console's roles."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

import deliveries.sql.xid8
import subscriptions.ids

# PostgreSQL's own uuidv7() where it has one (from 18 on): an id costs a microsecond instead of nine. The other body
# makes the same: 48 bits of milliseconds, version 7, the rest random.
CREATE_UUID7 = """
    DO $do$ BEGIN
        IF current_setting('server_version_num')::int >= 180000 THEN
            CREATE FUNCTION webhooks_uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
                AS 'SELECT uuidv7()';
        ELSE
            CREATE FUNCTION webhooks_uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
                SELECT encode(
                    set_bit(
                        set_bit(
                            overlay(
                                uuid_send(gen_random_uuid())
                                PLACING
                                    substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                                FROM 1 FOR 6
                            ),
                            52, 1
                        ),
                        53, 1
                    ),
                    'hex'
                )::uuid
            $$;
        END IF;
    END $do$
"""

# The id of a transaction as the feed counts it; the table is empty unless a dump was restored.
CREATE_FEED_XID = """
    CREATE FUNCTION webhooks_feed_xid(raw xid8) RETURNS xid8 LANGUAGE sql STABLE AS $$
        SELECT (raw::text::numeric + coalesce((SELECT xids FROM deliveries_feedoffset), 0))::text::xid8
    $$
"""

# A delivery is updated twice (claim, settle), the other rows every few seconds: free room on the page keeps the new
# version beside the old. Frequent small vacuums keep the partial indexes of the live states short.
TUNE_TABLES = """
    ALTER TABLE deliveries_delivery SET (
        fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
        autovacuum_analyze_scale_factor = 0.02
    );
    ALTER TABLE subscriptions_lane SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
    ALTER TABLE deliveries_lease SET (fillfactor = 50);
    ALTER TABLE deliveries_tally SET (fillfactor = 50);
    ALTER TABLE deliveries_pulse SET (fillfactor = 50);
"""

# No condition asks for these columns, and gathering their statistics was half of autovacuum's time to analyze.
SKIP_STATISTICS = """
    ALTER TABLE deliveries_attempt
        ALTER COLUMN request_headers SET STATISTICS 0, ALTER COLUMN response_headers SET STATISTICS 0,
        ALTER COLUMN response_body SET STATISTICS 0, ALTER COLUMN url SET STATISTICS 0,
        ALTER COLUMN error_detail SET STATISTICS 0;
    ALTER TABLE deliveries_event ALTER COLUMN body SET STATISTICS 0;
"""

VIEWED = {
    "deliveries": ["event", "delivery", "attempt", "notice", "replay", "tally"],
    "subscriptions": ["auditentry", "consumer", "endpoint", "lane", "eventtype", "eventtypeversion", "apikey", "hold"],
}
# Edited in forms; everything else is done by the console's own actions, which leave an audit entry.
CHANGED = [
    *("change_consumer", "change_endpoint"),
    *("add_eventtype", "change_eventtype", "add_eventtypeversion", "change_eventtypeversion"),
]


def create_roles(apps, schema_editor):
    # Permissions are made after the last migration; these groups need theirs now.
    for label in VIEWED:
        config = apps.get_app_config(label)
        kept, config.models_module = getattr(config, "models_module", None), True
        create_permissions(config, apps=apps, verbosity=0)
        config.models_module = kept
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label__in=list(VIEWED))
    view = permissions.filter(codename__in=[f"view_{model}" for models in VIEWED.values() for model in models])
    groups = apps.get_model("auth", "Group").objects
    read_only, _ = groups.get_or_create(name="Read-only")
    read_only.permissions.add(*view)
    operators, _ = groups.get_or_create(name="Operators")
    operators.permissions.add(*view, *permissions.filter(codename__in=[*CHANGED, "operate"]))


def drop_roles(apps, schema_editor):
    apps.get_model("auth", "Group").objects.filter(name__in=["Read-only", "Operators"]).delete()


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("subscriptions", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.RunSQL(CREATE_UUID7, reverse_sql="DROP FUNCTION webhooks_uuid7()"),
        migrations.CreateModel(
            name="FeedOffset",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ("xids", models.BigIntegerField()),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="feed_offset_single")],
            },
        ),
        # The default of an event's xid, so the function comes before the table.
        migrations.RunSQL(CREATE_FEED_XID, reverse_sql="DROP FUNCTION webhooks_feed_xid(xid8)"),
        migrations.CreateModel(
            name="Housekeeping",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("position", models.UUIDField()),
            ],
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("worker", models.CharField(max_length=255)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Pulse",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("type", models.CharField(max_length=255)),
                ("api_version", models.CharField(max_length=64)),
                ("producer_id", models.CharField(blank=True, max_length=255, null=True)),
                ("body", models.BinaryField(null=True)),
                ("occurred_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(editable=False)),
                ("ordering_key", models.CharField(blank=True, max_length=255, null=True)),
                ("sequence", models.PositiveBigIntegerField(blank=True, null=True)),
                ("traceparent", models.CharField(blank=True, max_length=64, null=True)),
                ("delivery_count", models.PositiveIntegerField(default=0)),
                (
                    "xid",
                    deliveries.sql.xid8.Xid8Field(db_default=deliveries.sql.xid8.FeedTransaction(), editable=False),
                ),
                (
                    "consumer",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="subscriptions.consumer",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("in_flight", "In Flight"),
                            ("delivered", "Delivered"),
                            ("dead", "Dead"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("due_at", models.DateTimeField()),
                ("attempt_count", models.PositiveIntegerField(default=0)),
                ("round_base", models.PositiveIntegerField(default=0)),
                ("round_started_at", models.DateTimeField()),
                ("leased_by", models.UUIDField(blank=True, null=True)),
                ("ordering_key", models.CharField(blank=True, max_length=255, null=True)),
                ("sequence", models.PositiveBigIntegerField(blank=True, null=True)),
                ("blocked", models.BooleanField(default=False)),
                ("dead_reason", models.CharField(blank=True, max_length=64, null=True)),
                ("created_at", models.DateTimeField(editable=False)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="subscriptions.endpoint",
                    ),
                ),
                (
                    "event",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="deliveries.event",
                    ),
                ),
            ],
            options={
                "permissions": [("operate", "Can replay, pause, resume, disable, rotate and give up")],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("breaker_opened", "Breaker Opened"),
                            ("breaker_closed", "Breaker Closed"),
                            ("warning", "Warning"),
                            ("disabled", "Disabled"),
                            ("recovered", "Recovered"),
                            ("paused", "Paused"),
                            ("resumed", "Resumed"),
                            ("dead", "Dead"),
                        ],
                        max_length=16,
                    ),
                ),
                ("reason", models.CharField(max_length=255)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("announced_at", models.DateTimeField(blank=True, null=True)),
                (
                    "delivery",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="deliveries.delivery",
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="subscriptions.endpoint",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="OrderingKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=255)),
                ("last_sequence", models.PositiveBigIntegerField()),
                (
                    "consumer",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, to="subscriptions.consumer"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PutBack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("replay_id", models.UUIDField()),
                ("delivery_id", models.UUIDField()),
                ("round_started_at", models.DateTimeField()),
                ("old_round_base", models.PositiveIntegerField()),
                ("old_round_started_at", models.DateTimeField()),
                ("old_dead_reason", models.CharField(blank=True, max_length=64, null=True)),
                ("old_finished_at", models.DateTimeField()),
                ("outcome", models.CharField(blank=True, max_length=16, null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["delivery_id"], name="put_back_of_delivery")],
                "constraints": [
                    models.UniqueConstraint(fields=("replay_id", "delivery_id"), name="put_back_once_per_job"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("outcome__isnull", True), ("outcome__in", ["delivered", "dead"]), _connector="OR"
                        ),
                        name="put_back_outcome_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Replay",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("filter", models.JSONField()),
                ("rate_per_second", models.PositiveIntegerField(blank=True, null=True)),
                ("requested_by", models.CharField(max_length=255)),
                ("why", models.CharField(blank=True, db_default="", default="", max_length=500)),
                (
                    "status",
                    models.CharField(
                        choices=[("running", "Running"), ("done", "Done"), ("cancelled", "Cancelled")],
                        default="running",
                        max_length=16,
                    ),
                ),
                ("matched", models.PositiveIntegerField()),
                ("matched_is_minimum", models.BooleanField(db_default=False, default=False)),
                ("replayed", models.PositiveIntegerField(default=0)),
                ("position", models.UUIDField(blank=True, null=True)),
                ("position_key", models.UUIDField(blank=True, null=True)),
                ("turn_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("delivered", models.PositiveIntegerField(default=0)),
                ("dead_again", models.PositiveIntegerField(default=0)),
                ("counted_to", models.UUIDField(blank=True, null=True)),
                ("advanced_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "consumer",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="subscriptions.consumer",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Tally",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "span",
                    models.CharField(choices=[("minute", "Minute"), ("hour", "Hour"), ("day", "Day")], max_length=8),
                ),
                (
                    "subject_kind",
                    models.CharField(
                        choices=[("everything", "Everything"), ("consumer", "Consumer"), ("endpoint", "Endpoint")],
                        max_length=16,
                    ),
                ),
                ("subject_id", models.UUIDField()),
                ("at", models.DateTimeField()),
                ("accepted", models.PositiveIntegerField(default=0)),
                ("delivered", models.PositiveIntegerField(default=0)),
                ("failed", models.PositiveIntegerField(default=0)),
                ("dead", models.PositiveIntegerField(default=0)),
                ("durations", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                ("latencies", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
            ],
            options={
                "indexes": [models.Index(fields=["span", "subject_kind", "at"], name="tally_of_kind")],
                "constraints": [models.UniqueConstraint(fields=("span", "subject_id", "at"), name="tally_once")],
            },
        ),
        migrations.CreateModel(
            name="TrialSlot",
            fields=[
                (
                    "consumer",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="subscriptions.consumer",
                    ),
                ),
                ("endpoint_id", models.UUIDField()),
                ("token", models.UUIDField()),
                ("ends_at", models.DateTimeField()),
                ("free_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["endpoint_id"], name="trial_slot_of_endpoint")],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("started_at", models.DateTimeField()),
                ("duration_ms", models.PositiveIntegerField()),
                ("url", models.CharField(max_length=2048)),
                ("address", models.CharField(blank=True, max_length=64, null=True)),
                ("status_code", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("error_kind", models.CharField(blank=True, max_length=32, null=True)),
                ("error_detail", models.CharField(blank=True, max_length=255, null=True)),
                ("request_headers", models.JSONField()),
                ("response_headers", models.JSONField(blank=True, null=True)),
                ("response_body", models.BinaryField(blank=True, null=True)),
                (
                    "delivery",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="deliveries.delivery",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("delivery", "number"), name="attempt_number_unique"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status_code__isnull", False), ("error_kind__isnull", False), _connector="OR"
                        ),
                        name="attempt_has_an_outcome",
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["consumer", "xid", "id"], name="event_feed"),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(
                condition=models.Q(("producer_id__isnull", False)),
                fields=("consumer", "producer_id"),
                name="event_producer_id_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ordering_key__isnull", False)),
                fields=("consumer", "ordering_key", "sequence"),
                name="event_sequence_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ordering_key__isnull", True), ("sequence__isnull", True)),
                    models.Q(("ordering_key__isnull", False), ("sequence__isnull", False)),
                    _connector="OR",
                ),
                name="event_sequence_with_key",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("blocked", False), ("state", "pending")),
                fields=["endpoint", "due_at", "id"],
                name="delivery_due",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "in_flight")), fields=["endpoint"], name="delivery_in_flight"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("blocked", True)),
                fields=["endpoint", "ordering_key", "sequence"],
                name="delivery_blocked",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(condition=models.Q(("state", "dead")), fields=["id"], name="delivery_dead"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "dead")), fields=["endpoint", "id"], name="delivery_dead_of_endpoint"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "dead")), fields=["dead_reason", "id"], name="delivery_dead_by_reason"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "dead")),
                fields=["endpoint", "dead_reason", "id"],
                name="delivery_dead_for_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("endpoint", "event"), name="delivery_once_per_endpoint"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "in_flight", "delivered", "dead"])),
                name="delivery_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("leased_by__isnull", False), ("state", "in_flight")),
                    models.Q(models.Q(("state", "in_flight"), _negated=True), ("leased_by__isnull", True)),
                    _connector="OR",
                ),
                name="delivery_leased_while_in_flight",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("dead_reason__isnull", False), ("state", "dead")),
                    models.Q(models.Q(("state", "dead"), _negated=True), ("dead_reason__isnull", True)),
                    _connector="OR",
                ),
                name="delivery_dead_for_a_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished_at__isnull", False), ("state__in", ["delivered", "dead"])),
                    models.Q(("finished_at__isnull", True), ("state__in", ["pending", "in_flight"])),
                    _connector="OR",
                ),
                name="delivery_finished_when_final",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("attempt_count__gte", models.F("round_base"))), name="delivery_round_base_sane"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("blocked", False), models.Q(("ordering_key__isnull", False), ("state", "pending")), _connector="OR"
                ),
                name="delivery_blocked_while_pending",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("blocked", False), ("ordering_key__isnull", False), ("state__in", ["pending", "in_flight"])
                ),
                fields=("endpoint", "ordering_key"),
                name="delivery_one_live_per_key",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("announced_at__isnull", True)), fields=["id"], name="notice_unannounced"
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["endpoint", "-id"], name="notice_history"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "breaker_opened",
                            "breaker_closed",
                            "warning",
                            "disabled",
                            "recovered",
                            "paused",
                            "resumed",
                            "dead",
                        ],
                    )
                ),
                name="notice_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="orderingkey",
            constraint=models.UniqueConstraint(fields=("consumer", "key"), name="ordering_key_unique"),
        ),
        migrations.AddIndex(
            model_name="replay",
            index=models.Index(condition=models.Q(("status", "running")), fields=["id"], name="replay_running"),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["running", "done", "cancelled"])), name="replay_status_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished_at__isnull", True), ("status", "running")),
                    models.Q(models.Q(("status", "running"), _negated=True), ("finished_at__isnull", False)),
                    _connector="OR",
                ),
                name="replay_finished_when_final",
            ),
        ),
        # Nothing to undo: these settings go with their tables.
        migrations.RunSQL(TUNE_TABLES, reverse_sql=migrations.RunSQL.noop),
        migrations.RunSQL(SKIP_STATISTICS, reverse_sql=migrations.RunSQL.noop),
        migrations.RunPython(create_roles, drop_roles),
    ]
