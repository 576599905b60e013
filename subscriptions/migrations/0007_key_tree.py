"""Keys know which key made them and what they may do; links to the portal know their key. No row is rewritten."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0006_audit")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="scopes",
            field=ArrayField(
                base_field=models.CharField(max_length=32), blank=True, editable=False, null=True, size=None
            ),
        ),
        migrations.AddField(
            model_name="apikey", name="issued_by", field=models.UUIDField(blank=True, editable=False, null=True)
        ),
        migrations.AddField(
            model_name="apikey", name="rotated_by", field=models.UUIDField(blank=True, editable=False, null=True)
        ),
        migrations.AddField(
            model_name="portalvisit", name="key_id", field=models.UUIDField(blank=True, editable=False, null=True)
        ),
    ]
