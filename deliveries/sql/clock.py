"""The database's clock, by which everything is due, late or over. Machines need not agree with it, nor with each other.

A machine's clock is compared with it in passing: read before a statement and after, it lies between the two unless it
differs. So a slow answer never looks like a difference, and a difference is known to within the time of one answer.
"""

from datetime import datetime

from django.db import connection

# Differences up to this are of no concern (seconds).
TOLERATED_SECONDS = 1.0

READ = "SELECT extract(epoch FROM clock_timestamp())::float8"
"""Seconds since 1970."""


def ahead(*, before: float, database: float, after: float) -> float:
    """How far this machine's clock is ahead of the database's, at least; negative if it is behind (seconds)."""
    if before > database:
        return before - database
    return min(0.0, after - database)


def now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [moment] = cursor.fetchone() or [None]
    assert isinstance(moment, datetime)
    return moment
