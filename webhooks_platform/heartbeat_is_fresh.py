"""`python -m webhooks_platform.heartbeat_is_fresh deliveries`: a health check for a worker, whatever the broker.

Passes when the worker of that name on this machine has said within a quarter of a minute that it is alive
(deliveries/upkeep/heartbeat.py). It proves that the process runs and reaches the database; not that receivers or
the broker answer. For readiness: restarting a worker because the database is away helps nobody.
"""

import os
import socket
import sys

import psycopg

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

FRESH = """
    SELECT EXISTS (SELECT FROM deliveries_pulse WHERE name = %(name)s AND at > now() - interval '15 seconds')
"""
"""Whether somebody of that name has been alive lately, by the database's clock."""


def is_fresh(name: str) -> bool:
    from deliveries.pump import database

    with psycopg.connect(database.conninfo(), **database.session(), connect_timeout=5) as connection:
        [fresh] = connection.execute(FRESH, {"name": name}).fetchone() or [False]
        return bool(fresh)


if __name__ == "__main__":
    try:
        found = is_fresh(f"{sys.argv[1]}@{socket.gethostname()}")
    except psycopg.Error as error:
        sys.exit(f"The database did not answer: {error}")
    sys.exit(None if found else "No heartbeat within 15 seconds.")
