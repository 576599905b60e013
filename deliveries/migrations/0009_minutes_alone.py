"""Minutes are counted, hours and days summed up from them once they are over: those still open begin anew."""

from django.db import migrations

FORGET_OPEN = """
    DELETE FROM deliveries_tally
    WHERE (span = 'hour' AND at >= date_trunc('hour', now(), 'UTC'))
        OR (span = 'day' AND at >= date_trunc('day', now(), 'UTC'))
"""
# The old processes go on meanwhile and write some more of both. So it is put down until when all is summed up; where
# nothing was counted yet, nothing need be. The mark is the smallest id of that moment.
MARK_SUMMED = """
    INSERT INTO deliveries_housekeeping (name, position)
    SELECT 'summed ' || span, (
        lpad(to_hex((extract(epoch FROM date_trunc(span, now(), 'UTC')) * 1000)::bigint), 12, '0') || repeat('0', 20)
    )::uuid
    FROM unnest(ARRAY['hour', 'day']) AS span
    WHERE EXISTS (SELECT FROM deliveries_tally)
    ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [("deliveries", "0008_uuid7")]
    operations = [
        migrations.RunSQL(FORGET_OPEN, migrations.RunSQL.noop),
        migrations.RunSQL(
            MARK_SUMMED, "DELETE FROM deliveries_housekeeping WHERE name IN ('summed hour', 'summed day')"
        ),
    ]
