"""Slots: how many requests a web process works on at a time, each with a database connection of its own.

The connections belong to the slots, not to the threads: threads come and go, and there may be hundreds of them. The
slot used last is used next, so a quiet process needs few connections.
"""

from queue import SimpleQueue

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper


class RequestSlots:
    """Made once per web process; taken and given back by each request's thread."""

    def __init__(self, count: int) -> None:
        # As many tokens as there are idle connections. A queue in C waits without holding up the other threads.
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._idle: list[BaseDatabaseWrapper] = []
        for _ in range(count):
            connection = connections.create_connection(DEFAULT_DB_ALIAS)
            # Used by one thread at a time, but not always by the same.
            connection.inc_thread_sharing()
            self._idle.append(connection)
            self._tokens.put(None)

    def take(self) -> BaseDatabaseWrapper:
        """Waits for a slot. From now on Django's `connection` in this thread is the slot's."""
        self._tokens.get()
        connection = self._idle.pop()
        connections[DEFAULT_DB_ALIAS] = connection
        return connection

    def give_back(self, connection: BaseDatabaseWrapper) -> None:
        """The thread may not use the database until it has taken another."""
        self._idle.append(connection)
        self._tokens.put(None)
