"""What deliveries were before a running job put them back; and a feed that goes on after a dump was restored."""

from django.db import migrations, models

import deliveries.models

# The id of a transaction as the feed counts it.
CREATE_FEED_XID = """
    CREATE FUNCTION webhooks_feed_xid(raw xid8) RETURNS xid8 LANGUAGE sql STABLE AS $$
        SELECT (raw::text::numeric + coalesce((SELECT xids FROM deliveries_feedoffset), 0))::text::xid8
    $$
"""


class Migration(migrations.Migration):
    dependencies = [
        ("deliveries", "0005_notice_without_constraint"),
    ]

    operations = [
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
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("replay_id", "delivery_id"), name="put_back_once_per_job")
                ],
            },
        ),
        migrations.CreateModel(
            name="FeedOffset",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False),
                ),
                ("xids", models.BigIntegerField()),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="feed_offset_single")],
            },
        ),
        migrations.RunSQL(CREATE_FEED_XID, reverse_sql="DROP FUNCTION webhooks_feed_xid(xid8)"),
        # A new default for rows to come: the table is neither read nor rewritten.
        migrations.AlterField(
            model_name="event",
            name="xid",
            field=deliveries.models.Xid8Field(db_default=deliveries.models.FeedTransaction(), editable=False),
        ),
    ]
