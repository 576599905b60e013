"""A worker's connections to the database: made when one is wanted and none is idle, kept until they die or grow old.

Whoever finds none connects by itself and hears at once that the server is away, so how soon work goes on after an
outage depends on the caller's pause alone, and not on how long the outage was. A pool that connects in the background
and doubles its pauses stays away about as long again as the server did.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import psycopg
from psycopg.pq import TransactionStatus

# A connection is replaced after so long (seconds): a server's process grows with what it has seen.
_LIFETIME_SECONDS = 3600
# As long as two connections in a row may take to be refused by a server that is frozen.
_WAIT_SECONDS = 10


class NoConnectionFree(psycopg.OperationalError):
    """All of them are in use, and none came back in time."""


class Pool:
    """At most `size` connections for the tasks of one event loop, each made by `connect`."""

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection]], *, size: int = 4) -> None:
        self._connect = connect
        self._free = asyncio.Semaphore(size)
        # The one used last is used next.
        self._idle: list[tuple[psycopg.AsyncConnection, float]] = []
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes those that are idle now, and the others as they come back."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop()[0].close()

    @asynccontextmanager
    async def connection(self, *, seconds: float = _WAIT_SECONDS) -> AsyncIterator[psycopg.AsyncConnection]:
        """One that was alive a moment ago. Waits up to so many seconds for those who have them, and for the server."""
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
                try:
                    connection, made_at = await self._idle_one() or (await self._connect(), time.monotonic())
                except BaseException:
                    self._free.release()
                    raise
        except TimeoutError:
            raise NoConnectionFree("No connection to the database came free in time.") from None
        try:
            yield connection
        finally:
            try:
                await self._take_back(connection, made_at)
            finally:
                self._free.release()

    async def _idle_one(self) -> tuple[psycopg.AsyncConnection, float] | None:
        while self._idle:
            connection, made_at = self._idle.pop()
            if _is_alive(connection):
                return connection, made_at
            await connection.close()
        return None

    async def _take_back(self, connection: psycopg.AsyncConnection, made_at: float) -> None:
        is_clean = connection.pgconn.transaction_status == TransactionStatus.IDLE
        if not self._is_closed and is_clean and time.monotonic() - made_at < _LIFETIME_SECONDS:
            self._idle.append((connection, made_at))
        else:
            await connection.close()


def _is_alive(connection: psycopg.AsyncConnection) -> bool:
    """Whoever lives has nothing to say before it is asked. Of one that died, the first look may find a farewell; the
    second then finds the end."""
    try:
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.Error:
        return False
    return True
