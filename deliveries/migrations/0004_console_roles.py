"""The console's two roles, and room on the pages of rows that are updated every few seconds."""

from django.contrib.auth.management import create_permissions
from django.db import migrations

VIEWED = {
    "deliveries": ["event", "delivery", "attempt", "notice", "replay", "tally", "auditentry"],
    "subscriptions": ["consumer", "endpoint", "lane", "eventtype", "eventtypeversion", "apikey", "hold"],
}
# Edited in forms; everything else is done by the console's own actions, which leave an audit entry.
CHANGED = ["change_consumer", "change_endpoint", "add_eventtype", "change_eventtype", "add_eventtypeversion",
           "change_eventtypeversion"]  # fmt: skip


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
    dependencies = [
        ("deliveries", "0003_console"),
        ("subscriptions", "0002_hold"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.RunPython(create_roles, drop_roles),
        migrations.RunSQL(
            "ALTER TABLE deliveries_tally SET (fillfactor = 50); ALTER TABLE deliveries_pulse SET (fillfactor = 50)",
            "ALTER TABLE deliveries_tally RESET (fillfactor); ALTER TABLE deliveries_pulse RESET (fillfactor)",
        ),
    ]
