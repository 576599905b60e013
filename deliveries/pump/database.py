"""The pump's own way to the database: the same server as Django's, without the ORM, asynchronously."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from django.db import connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import LockNotAvailable, ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus

from deliveries.pump.pool import Pool
from subscriptions.limits.answer_deadline import AsyncBoundedConnection

# After a failed statement, before the next try (seconds).
_ERROR_PAUSE = 0.5
# A pump waits so long for a row that somebody else holds, and then writes all the rest (milliseconds).
_LOCK_TIMEOUT_MS = 200
# Options that are Django's, not libpq's.
_DJANGO_ONLY = {
    "client_encoding", "cursor_factory", "row_factory", "context", "prepare_threshold", "server_side_binding", "pool",
    "isolation_level", "assume_role",
}  # fmt: skip

T = TypeVar("T")

logger = logging.getLogger(__name__)


def conninfo() -> str:
    parameters = connection.get_connection_params()
    return make_conninfo(**{name: value for name, value in parameters.items() if name not in _DJANGO_ONLY})


def session() -> dict[str, Any]:
    """What is no part of the address: where old PgBouncers stand between, nothing is prepared."""
    return {"autocommit": True, "prepare_threshold": connection.get_connection_params()["prepare_threshold"]}


def new_pool() -> Pool:
    kind = ImpatientConnection if settings.DATABASE_TRANSACTION_POOLING else AsyncBoundedConnection
    return Pool(partial(kind.connect, impatient_conninfo(), **session()))


class ImpatientConnection(AsyncBoundedConnection):
    """For pumps behind a pooler, which keeps no session: each statement sent alone brings its own limit along.

    Both go out together, so it costs no round trip.
    """

    async def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.AsyncCursor[Any]:
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            return await super().execute(query, params, **options)
        async with self.pipeline(), self.transaction():
            await super().execute(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}")
            return await super().execute(query, params, **options)


def impatient_conninfo() -> str:
    """For pumps: many endpoints' outcomes wait beside the one whose row somebody holds."""
    if settings.DATABASE_TRANSACTION_POOLING:
        return conninfo()
    options = conninfo_to_dict(conninfo()).get("options") or ""
    return make_conninfo(conninfo(), options=f"{options} -c lock_timeout={_LOCK_TIMEOUT_MS}".strip())


@asynccontextmanager
async def borrow(pool: Pool, *, seconds: float | None = None) -> AsyncIterator[psycopg.AsyncConnection]:
    """A connection to a server that takes writes. One that does not any more may have a successor at its address.

    With `seconds`, whoever borrows it waits no longer for it, and for the answer to each statement.
    """
    async with pool.connection(**({} if seconds is None else {"seconds": seconds})) as connection:
        bounded: AbstractContextManager[None] = nullcontext()
        if seconds is not None and isinstance(connection, AsyncBoundedConnection):
            bounded = connection.bounded(seconds)
        try:
            with bounded:
                yield connection
        except ReadOnlySqlTransaction:
            await connection.close()
            raise


async def insist(pool: Pool, run: Callable[[psycopg.AsyncConnection], Awaitable[T]]) -> T:
    """Tries until the database answers: an outcome must not be lost to a restart of the server.

    It ends with who asks: a pump that was told to stop waits for as long as draining may take, and then leaves. Nobody
    insists on a row that somebody else holds: that may take long, and is the caller's to decide.
    """
    while True:
        try:
            async with borrow(pool) as connection:
                return await run(connection)
        except LockNotAvailable:
            raise
        except (psycopg.OperationalError, psycopg.InterfaceError, ReadOnlySqlTransaction) as error:
            logger.warning("database.failed", extra={"fields": {"error": repr(error)}})
            await asyncio.sleep(_ERROR_PAUSE)
