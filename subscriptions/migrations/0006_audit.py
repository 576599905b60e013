"""The audit log of both apps: as it was, and who an actor is in columns that can be filtered by."""

import django.db.models.functions.datetime
from django.db import migrations, models

import subscriptions.ids

FILL_IN = """
    UPDATE subscriptions_auditentry SET
        actor_kind = CASE
            WHEN actor LIKE 'portal:%' THEN 'portal' WHEN actor LIKE 'shell:%' THEN 'command' ELSE 'user' END,
        actor_id = CASE
            WHEN actor LIKE 'portal:%' THEN substr(actor, 8) WHEN actor LIKE 'shell:%' THEN substr(actor, 7)
            ELSE actor END,
        action = CASE action
            WHEN 'endpoint.made' THEN 'endpoint.created' WHEN 'portal.link_made' THEN 'portal.link_created'
            ELSE action END
"""
"""The entries there are: deeds of people so far, so there are thousands of them at most."""

KINDS = [("user", "User"), ("portal", "Portal"), ("key", "Key"), ("command", "Command")]


class Migration(migrations.Migration):
    dependencies = [
        ("subscriptions", "0005_portal"),
        ("deliveries", "0011_audit_moves"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="AuditEntry",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=subscriptions.ids.new_uuid, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                        ),
                        ("actor", models.CharField(max_length=255)),
                        ("action", models.CharField(max_length=64)),
                        ("target", models.CharField(blank=True, default="", max_length=255)),
                        ("count", models.PositiveIntegerField(default=1)),
                        ("reason", models.CharField(blank=True, default="", max_length=500)),
                    ],
                    options={"indexes": [models.Index(fields=["target", "-id"], name="audit_of_target")]},
                ),
            ],
        ),
        migrations.RenameField("auditentry", "reason", "why"),
        migrations.AddField(
            "auditentry", "actor_kind", models.CharField(choices=KINDS, default="user", max_length=16),
            preserve_default=False,
        ),
        migrations.AddField(
            "auditentry", "actor_id", models.CharField(default="", max_length=255), preserve_default=False
        ),
        migrations.AddField("auditentry", "consumer_id", models.UUIDField(blank=True, null=True)),
        migrations.AddField("auditentry", "detail", models.CharField(blank=True, default="", max_length=255)),
        migrations.RunSQL(FILL_IN, migrations.RunSQL.noop),
        migrations.AddConstraint(
            "auditentry",
            models.CheckConstraint(
                condition=models.Q(("actor_kind__in", ["user", "portal", "key", "command"])), name="audit_actor_known"
            ),
        ),
        migrations.AddIndex("auditentry", models.Index(fields=["actor_id", "-id"], name="audit_by_actor")),
        migrations.AddIndex("auditentry", models.Index(fields=["action", "-id"], name="audit_of_action")),
        migrations.AddIndex("auditentry", models.Index(fields=["consumer_id", "-id"], name="audit_of_consumer")),
    ]  # fmt: skip
