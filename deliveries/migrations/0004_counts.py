"""Counts that a killed process cannot take with it: deltas beside the rows they count, and their totals."""

import django.db.models.functions.datetime
from django.db import migrations, models

# Appended to by every emit and every settlement, and emptied every couple of seconds: an index would cost each of them
# something and serve nobody. Its space is used again and again (statistics/totals.py cleans up), so it stays small.
BARE = """
    ALTER TABLE deliveries_delta DROP CONSTRAINT deliveries_delta_pkey;
    ALTER TABLE deliveries_delta SET (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, vacuum_truncate = false
    )
"""
DRESSED = "ALTER TABLE deliveries_delta ADD CONSTRAINT deliveries_delta_pkey PRIMARY KEY (at)"


class Migration(migrations.Migration):
    dependencies = [
        ("deliveries", "0003_sent_test"),
    ]

    operations = [
        migrations.CreateModel(
            name="Delta",
            fields=[
                (
                    "at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), primary_key=True, serialize=False
                    ),
                ),
                ("counter", models.CharField(max_length=16)),
                ("label", models.CharField(db_default="", max_length=64)),
                ("subject_id", models.UUIDField(null=True)),
                ("count", models.IntegerField(db_default=1)),
                ("duration_ms", models.IntegerField(null=True)),
                ("latency_ms", models.IntegerField(null=True)),
            ],
        ),
        migrations.RunSQL(BARE, DRESSED),
        migrations.CreateModel(
            name="Total",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("counter", models.CharField(max_length=16)),
                ("label", models.CharField(max_length=64)),
                ("at", models.DateTimeField()),
                ("value", models.BigIntegerField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("at", "counter", "label"), name="total_once")],
            },
        ),
    ]
