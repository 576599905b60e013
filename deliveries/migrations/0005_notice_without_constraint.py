"""Forgetting a delivery no longer reads all notices: without an index, the constraint looked at each of them.

Dropping a constraint needs a short exclusive lock on both tables. It gives up after a few seconds instead of making
every worker wait behind it; run it again when the tables are less busy.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("deliveries", "0004_console_roles")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="notice",
            name="delivery",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="deliveries.delivery",
            ),
        ),
        migrations.RunSQL("SET LOCAL lock_timeout = 0", migrations.RunSQL.noop),
    ]
