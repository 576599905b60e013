"""Connections to PostgreSQL on which nobody waits for ever.

A server that is frozen, or behind a network that swallows everything, cannot keep its own time limits, and TCP finds
the connection in order. So each statement's time is limited here. The first that gets no answer waits for all of it;
until one is answered again, the others wait for a moment only: callers hear soon that the database is away.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.errors import _WaitTimeout

# While the last statement got no answer, the next ones have this long (seconds).
_DOUBTFUL_SECONDS = 1.0
# After a connection was waited for in vain, nobody tries for this long (seconds).
_PAUSE_SECONDS = 0.5
# A refusal that comes sooner than this cost nobody any time, and the next caller may find the server back (seconds).
_QUICK_SECONDS = 0.2


class NoAnswer(psycopg.OperationalError):
    """The database did not answer in time. What was sent may have been done."""


class Deadline:
    """How long the statements of this process may take; None for as long as they like, as migrations do."""

    def __init__(self, *, quick_seconds: float = _QUICK_SECONDS) -> None:
        self.seconds: float | None = None
        self._quick_seconds = quick_seconds
        self._is_doubtful = False
        self._refused_until = 0.0

    def left(self) -> float | None:
        """For the next statement (seconds)."""
        return _DOUBTFUL_SECONDS if self._is_doubtful and self.seconds else self.seconds

    def kept(self) -> None:
        self._is_doubtful = False

    def missed(self) -> None:
        self._is_doubtful = True

    def connect(self, **parameters: Any) -> psycopg.Connection:
        """A new connection, or an error at once when another one was waited for in vain a moment ago."""
        begun_at = time.monotonic()
        if self.seconds and begun_at < self._refused_until:
            raise NoAnswer("The database did not answer a moment ago.")
        try:
            return BoundedConnection.connect(**parameters)
        except psycopg.OperationalError:
            failed_at = time.monotonic()
            if failed_at - begun_at > self._quick_seconds:
                self._refused_until = failed_at + _PAUSE_SECONDS
            raise


# Of this process. The web server sets its seconds (webhooks_platform/wsgi.py), workers theirs (…/celery.py).
deadline = Deadline()


class BoundedConnection(psycopg.Connection):
    """For Django. Everything that waits for the server does so here."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        if options.get("timeout") is None:
            options["timeout"] = deadline.left()
        try:
            answer = super().wait(gen, *args, **options)
        except _WaitTimeout:
            deadline.missed()
            self.close()
            raise NoAnswer("The database did not answer in time.") from None
        deadline.kept()
        return answer


class AsyncBoundedConnection(psycopg.AsyncConnection):
    """For pumps, who set each connection's own limit: they have time, but not for ever."""

    answer_seconds = 10.0

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """For who has less time."""
        usual, self.answer_seconds = self.answer_seconds, seconds
        try:
            yield
        finally:
            self.answer_seconds = usual

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        if options.get("timeout") is None:
            options["timeout"] = self.answer_seconds
        try:
            return await super().wait(gen, *args, **options)
        except _WaitTimeout:
            await self.close()
            raise NoAnswer("The database did not answer in time.") from None
