"""What deliveries were before a running job put them back, so that cancelling it can take them back."""

from django.db import migrations, models


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
    ]
