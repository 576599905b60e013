"""Where Django looks for a database backend."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql import base
from psycopg import IsolationLevel

from subscriptions.limits.answer_deadline import deadline


class DatabaseWrapper(base.DatabaseWrapper):
    """One connection, as Django knows it."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """As Django does it, without its pool and other isolation levels, which nothing here is made for."""
        if self.settings_dict["OPTIONS"].keys() & {"pool", "isolation_level"}:
            raise ImproperlyConfigured("The database's OPTIONS may name neither a pool nor an isolation level.")
        self.isolation_level = IsolationLevel.READ_COMMITTED
        return deadline.connect(**conn_params)
