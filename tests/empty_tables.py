"""What a test committed is deleted before the next one.

Django empties every table by TRUNCATE, which makes new files for all tables and indexes, and writes content types and
permissions anew: half of the time of a short test. Here only tables that hold something are emptied, row by row, and
what migrations and Django itself put there stays.
"""

from collections.abc import Callable
from typing import Any

from django.db import connections
from django.test import TransactionTestCase

# Written by Django once, after the migrations; nobody changes them.
_KEPT = ["django_migrations", "django_content_type", "auth_permission"]

# Locks as TRUNCATE does, so that a thread that still writes leaves no row for the next test. Foreign keys are not
# looked at: all that refers to these rows goes with them. TRUNCATE where there are many rows: then it is quicker.
EMPTY_TABLES = """
DO $$
DECLARE
    filled record;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR filled IN
        SELECT oid::regclass AS name, pg_relation_size(oid) > 4000000 AS is_large
        FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
          AND relname NOT IN ({kept})
    LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', filled.name);
        IF filled.is_large THEN
            EXECUTE format('TRUNCATE %s CASCADE', filled.name);
        ELSE
            EXECUTE format('DELETE FROM %s', filled.name);
        END IF;
    END LOOP;
END
$$
""".format(kept=", ".join(f"'{name}'" for name in _KEPT))


_by_django: Callable[[Any], None] = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]


def empty_tables(case: Any) -> None:
    """In place of `TransactionTestCase._fixture_teardown`. Only a superuser may pass over foreign keys."""
    for alias in case._databases_names(include_mirrors=False):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            if cursor.fetchone() != (True,):
                _by_django(case)
                return
            cursor.execute(EMPTY_TABLES)
