"""Indexes of the key tree. Concurrently, so that nobody waits."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("subscriptions", "0007_key_tree")]

    operations = [
        AddIndexConcurrently(
            model_name="apikey",
            index=models.Index(
                condition=models.Q(("issued_by__isnull", False)), fields=["issued_by"], name="api_key_issued_by"
            ),
        ),
        AddIndexConcurrently(
            model_name="apikey",
            index=models.Index(
                condition=models.Q(("rotated_by__isnull", False)), fields=["rotated_by"], name="api_key_rotated_by"
            ),
        ),
        AddIndexConcurrently(
            model_name="portalvisit",
            index=models.Index(
                condition=models.Q(("key_id__isnull", False)), fields=["key_id"], name="portal_visit_key"
            ),
        ),
    ]
