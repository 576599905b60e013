"""No statistics of what no condition ever asks for: gathering them was half of the time that autovacuum analyzed."""

from django.db import migrations

UNASKED = {
    "deliveries_attempt": ("request_headers", "response_headers", "response_body", "url", "error_detail"),
    "deliveries_event": ("body",),
}


def _set_statistics(target: str) -> str:
    return ";".join(
        f"ALTER TABLE {table} " + ", ".join(f"ALTER COLUMN {column} SET STATISTICS {target}" for column in columns)
        for table, columns in UNASKED.items()
    )


class Migration(migrations.Migration):
    dependencies = [("deliveries", "0009_minutes_alone")]
    operations = [migrations.RunSQL(_set_statistics("0"), _set_statistics("-1"))]
