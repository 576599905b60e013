"""Minutes are counted, hours and days summed up from them once they are over: those still open begin anew."""

from django.db import migrations

FORGET_OPEN = """
    DELETE FROM deliveries_tally
    WHERE (span = 'hour' AND at >= date_trunc('hour', now(), 'UTC'))
        OR (span = 'day' AND at >= date_trunc('day', now(), 'UTC'))
"""


class Migration(migrations.Migration):
    dependencies = [("deliveries", "0008_uuid7")]
    operations = [migrations.RunSQL(FORGET_OPEN, migrations.RunSQL.noop)]
