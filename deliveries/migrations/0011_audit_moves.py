"""The audit log becomes the other app's, so that everything that changes something can write it. Its rows stay."""

from django.contrib.contenttypes.models import ContentType
from django.db import migrations


def move_permissions(apps, schema_editor):
    """Groups keep what they may do: to look at the log, and to operate."""
    types, permissions = apps.get_model("contenttypes", "ContentType"), apps.get_model("auth", "Permission")
    old = types.objects.filter(app_label="deliveries", model="auditentry").first()
    if old is None:
        return
    delivery, _ = types.objects.get_or_create(app_label="deliveries", model="delivery")
    permissions.objects.filter(content_type=old, codename="operate").update(content_type=delivery)
    types.objects.filter(id=old.id).update(app_label="subscriptions")
    ContentType.objects.clear_cache()


def move_permissions_back(apps, schema_editor):
    types, permissions = apps.get_model("contenttypes", "ContentType"), apps.get_model("auth", "Permission")
    new = types.objects.filter(app_label="subscriptions", model="auditentry").first()
    if new is None:
        return
    types.objects.filter(id=new.id).update(app_label="deliveries")
    permissions.objects.filter(content_type__app_label="deliveries", codename="operate").update(content_type=new)
    ContentType.objects.clear_cache()


class Migration(migrations.Migration):
    dependencies = [
        ("deliveries", "0010_unasked_columns"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.AlterModelTable("auditentry", "subscriptions_auditentry")],
            state_operations=[migrations.DeleteModel("AuditEntry")],
        ),
        migrations.AlterModelOptions(
            name="delivery",
            options={"permissions": [("operate", "Can replay, pause, resume, disable, rotate and give up")]},
        ),
        migrations.RunPython(move_permissions, move_permissions_back),
    ]
