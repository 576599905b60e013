"""The pump's own way to the database: the same server as Django's, without the ORM, asynchronously."""

from django.db import connection
from psycopg.conninfo import make_conninfo

# Options that are Django's, not libpq's.
_DJANGO_ONLY = {
    "client_encoding", "cursor_factory", "row_factory", "context", "prepare_threshold", "server_side_binding", "pool",
    "isolation_level", "assume_role",
}  # fmt: skip


def conninfo() -> str:
    parameters = connection.get_connection_params()
    return make_conninfo(**{name: value for name, value in parameters.items() if name not in _DJANGO_ONLY})
