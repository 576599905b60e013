"""A thread's database connections end with it.

The web server ends threads that had nothing to do for half a minute and starts others when it needs them. Django keeps
a connection per thread, in objects that refer to each other: they would outlive their thread until the collector comes
by, which is seldom (wsgi.py). A few quiet minutes between bursts, and PostgreSQL would have no connections left.
"""

import threading
from contextlib import suppress
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


def close_with_their_threads() -> None:
    """From now on. Call it once per process."""
    connection_created.connect(_remember, dispatch_uid="close_with_their_threads")


class _Opened:
    """Nobody else refers to this, so it goes at the very moment its thread does."""

    def __init__(self) -> None:
        self.connections: list[psycopg.Connection[Any]] = []

    def __del__(self) -> None:
        for connection in self.connections:
            with suppress(psycopg.Error):
                connection.close()


_own = threading.local()


def _remember(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if not hasattr(_own, "opened"):
        _own.opened = _Opened()
    opened: _Opened = _own.opened
    opened.connections = [known for known in opened.connections if not known.closed]
    opened.connections.append(connection.connection)
