"""What Django's models cannot say: time-ordered ids made by the database, and room on pages that are updated a lot."""

from django.db import migrations

# PostgreSQL 18 has uuidv7(); this makes the same from 13 on: 48 bits of milliseconds, version 7, the rest random.
CREATE_UUID7 = """
    CREATE FUNCTION webhooks_uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
        SELECT encode(
            set_bit(
                set_bit(
                    overlay(
                        uuid_send(gen_random_uuid())
                        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                        FROM 1 FOR 6
                    ),
                    52, 1
                ),
                53, 1
            ),
            'hex'
        )::uuid
    $$
"""

# A delivery is updated twice (claim, settle), a lane often: free room on the page keeps the new version beside the old.
# Frequent small vacuums keep the partial indexes of the live states short.
TUNE_TABLES = """
    ALTER TABLE deliveries_delivery SET (
        fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
        autovacuum_analyze_scale_factor = 0.02
    );
    ALTER TABLE subscriptions_lane SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
    ALTER TABLE deliveries_lease SET (fillfactor = 50);
"""


class Migration(migrations.Migration):
    dependencies = [("deliveries", "0001_initial"), ("subscriptions", "0001_initial")]

    operations = [
        migrations.RunSQL(CREATE_UUID7, reverse_sql="DROP FUNCTION webhooks_uuid7()"),
        migrations.RunSQL(
            TUNE_TABLES,
            reverse_sql="""
                ALTER TABLE deliveries_delivery RESET (
                    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor,
                    autovacuum_analyze_scale_factor
                );
                ALTER TABLE subscriptions_lane RESET (fillfactor, autovacuum_vacuum_scale_factor);
                ALTER TABLE deliveries_lease RESET (fillfactor);
            """,
        ),
    ]
