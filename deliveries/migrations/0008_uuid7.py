"""Ids by PostgreSQL's own uuidv7() where it has one (from 18 on): an id costs a microsecond instead of nine."""

from importlib import import_module

from django.db import migrations

USE_BUILT_IN = """
    DO $$ BEGIN
        IF current_setting('server_version_num')::int >= 180000 THEN
            CREATE OR REPLACE FUNCTION webhooks_uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
                AS 'SELECT uuidv7()';
        END IF;
    END $$
"""

BY_HAND = import_module("deliveries.migrations.0002_storage").CREATE_UUID7.replace("CREATE", "CREATE OR REPLACE", 1)


class Migration(migrations.Migration):
    dependencies = [("deliveries", "0007_bounded_lists")]

    operations = [migrations.RunSQL(USE_BUILT_IN, reverse_sql=BY_HAND)]
