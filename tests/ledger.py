"""Everything in the database, to tell whether a request changed any of it."""

from collections.abc import Collection

from django.db import connection

# Written by the mere use of a key, on purpose, once a minute.
_NOISE = {"subscriptions_apikey": "last_used_at"}
# Figures and signs of life, written beside the requests by threads that take their time; and the place of a test that
# is under way, taken and given back also where the test is then refused.
_BESIDE = {"deliveries_tally", "deliveries_total", "deliveries_delta", "deliveries_pulse", "deliveries_trialslot"}


def ledger(*, but: Collection[str] = ()) -> dict[str, tuple[int, str]]:
    """Rows and a digest of their contents, for every table that a request writes to, but for those named."""
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor)) - _BESIDE - set(but)
        cursor.execute(" UNION ALL ".join(_digest(table) for table in tables))
        return {table: (count, digest) for table, count, digest in cursor.fetchall()}


def _digest(table: str) -> str:
    row = f"(to_jsonb(t) - '{_NOISE[table]}')::text" if table in _NOISE else "t::text"
    return f"SELECT '{table}', count(*), md5(coalesce(string_agg({row}, chr(10) ORDER BY {row}), '')) FROM {table} t"
