"""Lists that end: an index for the dead letters of one reason, and replays whose count is a minimum."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # The table may hold millions of rows: the index is made beside the traffic, outside a transaction.
    atomic = False

    dependencies = [("deliveries", "0006_put_back")]

    operations = [
        migrations.AddField(
            model_name="replay",
            name="matched_is_minimum",
            field=models.BooleanField(default=False, db_default=False),
        ),
        # Made concurrently it waits for every transaction that is open, and one that gives up leaves half an index.
        migrations.RunSQL("SET lock_timeout = 0", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "dead")), fields=["dead_reason", "id"], name="delivery_dead_by_reason"
            ),
        ),
        migrations.RunSQL("RESET lock_timeout", migrations.RunSQL.noop),
    ]
