"""Replays: why, fair turns, and what became of what they put back. Tests: one place for each consumer."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# Those that run still have a row for everything that they put back, so their count is whole.
COUNT_RUNNING = "UPDATE deliveries_replay SET delivered = 0, dead_again = 0 WHERE status = 'running'"


class Migration(migrations.Migration):
    # A running job may have put back millions: the index is made beside the traffic, outside a transaction.
    atomic = False

    dependencies = [
        ("subscriptions", "0005_portal"),
        ("deliveries", "0011_audit_moves"),
    ]

    operations = [
        migrations.AddField(
            model_name="replay",
            name="why",
            field=models.CharField(blank=True, default="", db_default="", max_length=500),
        ),
        migrations.AddField(model_name="replay", name="position_key", field=models.UUIDField(blank=True, null=True)),
        migrations.AddField(
            model_name="replay",
            name="turn_at",
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
        ),
        migrations.AddField(
            model_name="replay", name="delivered", field=models.PositiveIntegerField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="replay", name="dead_again", field=models.PositiveIntegerField(blank=True, null=True)
        ),
        migrations.AddField(model_name="replay", name="counted_to", field=models.UUIDField(blank=True, null=True)),
        migrations.RunSQL(COUNT_RUNNING, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="putback", name="outcome", field=models.CharField(blank=True, max_length=16, null=True)
        ),
        migrations.AddConstraint(
            model_name="putback",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__isnull", True), ("outcome__in", ["delivered", "dead"]), _connector="OR"),
                name="put_back_outcome_known",
            ),
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
            options={"indexes": [models.Index(fields=["endpoint_id"], name="trial_slot_of_endpoint")]},
        ),
        migrations.RunSQL("SET lock_timeout = 0", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="putback", index=models.Index(fields=["delivery_id"], name="put_back_of_delivery")
        ),
        migrations.RunSQL("RESET lock_timeout", migrations.RunSQL.noop),
    ]
