"""A pump behind PgBouncer in transaction mode: nothing it needs is kept in a session."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from deliveries.pump import database
from tests import pgbouncer
from tests.local import short_dir
from webhooks_platform.local.folder import claim
from webhooks_platform.local.postgres import embedded_postgres

pytestmark = pytest.mark.skipif(pgbouncer.program() is None, reason="pgbouncer is not installed here")


@pytest.fixture(scope="module")
def pooled() -> Iterator[str]:
    """The address of a PgBouncer with a table `held` of one row behind it."""
    with short_dir() as path, claim(path) as folder, embedded_postgres(folder) as postgres:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE held (id int PRIMARY KEY, value int); INSERT INTO held VALUES (1, 0)")
        with pgbouncer.running_pgbouncer(folder, postgres_url=postgres.url) as pooler:
            yield pooler.url


async def connect(url: str) -> psycopg.AsyncConnection[Any]:
    return await database.ImpatientConnection.connect(url, autocommit=True, prepare_threshold=None)


def test_a_statement_alone_waits_for_a_held_row_for_the_pumps_time_and_no_longer(pooled: str) -> None:
    async def main() -> str:
        with psycopg.connect(pooled) as holder:
            holder.execute("UPDATE held SET value = 1 WHERE id = 1")
            own = await connect(pooled)
            async with own:
                with pytest.raises(LockNotAvailable):
                    await own.execute("UPDATE held SET value = 2 WHERE id = 1", prepare=True)
                holder.rollback()
                # The connection is as good as new.
                await own.execute("UPDATE held SET value = 3 WHERE id = 1", prepare=True)
                [value] = await (await own.execute("SELECT value::text FROM held")).fetchone() or [""]
                return str(value)

    assert asyncio.run(main()) == "3"


def test_the_limit_goes_with_its_statement_and_the_roles_own_holds_for_everybody_else(pooled: str) -> None:
    async def main() -> tuple[str, str]:
        own = await connect(pooled)
        async with own:
            [with_it] = await (await own.execute("SHOW lock_timeout")).fetchone() or [""]
            async with own.transaction():
                [without] = await (await own.execute("SHOW lock_timeout")).fetchone() or [""]
        return str(with_it), str(without)

    assert asyncio.run(main()) == ("200ms", "2s")
