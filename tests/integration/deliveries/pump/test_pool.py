"""deliveries/pump/pool.py on a real server: outages of any length, connections that died, and those that are in use."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import psycopg
import pytest

from deliveries.pump.database import insist
from deliveries.pump.pool import NoConnectionFree, Pool
from tests.stack import OwnPostgres, migrated_postgres, own_postgres

__all__ = ["migrated_postgres", "own_postgres"]


def pool_for(address: str, *, size: int = 4) -> Pool:
    return Pool(partial(psycopg.AsyncConnection.connect, address, autocommit=True), size=size)


async def backend_pid(own: psycopg.AsyncConnection) -> int:
    [pid] = await (await own.execute("SELECT pg_backend_pid()")).fetchone() or [0]
    return int(pid)


async def borrowed_pid(pool: Pool) -> int:
    async with pool.connection() as own:
        return await backend_pid(own)


def test_after_an_outage_of_any_length_the_first_who_asks_has_a_connection(own_postgres: OwnPostgres) -> None:
    """Regression: the pool doubled its pauses, and stayed away about as long again as the server did."""

    async def main() -> None:
        async with pool_for(own_postgres.url) as pool, asyncio.timeout(60):
            before = await borrowed_pid(pool)
            own_postgres.server.kill()
            for _ in range(20):
                with pytest.raises(psycopg.OperationalError):
                    await borrowed_pid(pool)
            own_postgres.server.start()

            assert await borrowed_pid(pool) != before

    asyncio.run(main())


def test_a_connection_that_comes_back_after_the_pool_was_closed_is_closed(own_postgres: OwnPostgres) -> None:
    """Regression: a statement that was cancelled as its pump ended gave its connection back to a pool nobody had."""

    async def main() -> bool:
        async with asyncio.timeout(60):
            pool = pool_for(own_postgres.url)
            async with pool.connection() as own:
                await pool.close()
            return own.closed

    assert asyncio.run(main())


def test_who_insists_tries_again_until_the_server_is_back(own_postgres: OwnPostgres) -> None:
    async def main() -> None:
        tries = 0

        async def connect() -> psycopg.AsyncConnection:
            nonlocal tries
            tries += 1
            if tries == 3:
                await asyncio.to_thread(own_postgres.server.start)
            return await psycopg.AsyncConnection.connect(own_postgres.url, autocommit=True)

        own_postgres.server.kill()
        async with Pool(connect) as pool, asyncio.timeout(60):
            assert await insist(pool, backend_pid) > 0
        # More where the server takes long to start.
        assert tries >= 3

    asyncio.run(main())


def test_a_connection_that_died_while_it_was_idle_is_replaced_before_anybody_uses_it(own_postgres: OwnPostgres) -> None:
    async def main() -> None:
        async with pool_for(own_postgres.url) as pool, asyncio.timeout(60):
            before = await borrowed_pid(pool)
            own_postgres.server.kill()
            own_postgres.server.start()

            assert await borrowed_pid(pool) != before

    asyncio.run(main())


def test_an_idle_connection_is_used_again(own_postgres: OwnPostgres) -> None:
    async def main() -> None:
        async with pool_for(own_postgres.url) as pool:
            assert await borrowed_pid(pool) == await borrowed_pid(pool)

    asyncio.run(main())


def test_a_connection_left_inside_a_transaction_is_not_used_again(own_postgres: OwnPostgres) -> None:
    async def main() -> None:
        async with pool_for(own_postgres.url) as pool:
            async with pool.connection() as own:
                before = await backend_pid(own)
                await own.execute("BEGIN")

            assert await borrowed_pid(pool) != before

    asyncio.run(main())


def test_who_finds_all_connections_in_use_waits_no_longer_than_it_said(own_postgres: OwnPostgres) -> None:
    async def main() -> None:
        async with pool_for(own_postgres.url, size=1) as pool, pool.connection():
            with pytest.raises(NoConnectionFree):
                async with pool.connection(seconds=0.01):
                    raise AssertionError("There was one.")

    asyncio.run(main())


@pytest.mark.parametrize("fails", [1, 2], ids=["refused", "refused twice"])
def test_a_connection_that_could_not_be_made_leaves_its_place_to_the_next(
    fails: int, own_postgres: OwnPostgres
) -> None:
    def refusing(times: int) -> Callable[[], Awaitable[psycopg.AsyncConnection]]:
        left = times

        async def connect() -> psycopg.AsyncConnection:
            nonlocal left
            left -= 1
            if left >= 0:
                raise psycopg.OperationalError("too many connections")
            return await psycopg.AsyncConnection.connect(own_postgres.url, autocommit=True)

        return connect

    async def main() -> None:
        async with Pool(refusing(fails), size=1) as pool:
            for _ in range(fails):
                with pytest.raises(psycopg.OperationalError, match="too many"):
                    await borrowed_pid(pool)
            assert await borrowed_pid(pool) > 0

    asyncio.run(main())
