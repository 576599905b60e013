"""deliveries/pump/listener.py beside a Redis that hangs: it takes every connection and every command and is silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis.asyncio
from django.conf import settings
from django.db import connection

from deliveries import tasks
from deliveries.deliver import Pump
from deliveries.pump import database
from deliveries.pump.listener import Listener
from deliveries.pump.pool import Pool
from subscriptions.models import Consumer, Endpoint
from tests.receiver import Receiver
from tests.walk import accept, answering, new_endpoint, states


class HungRedis:
    """What arrived there; each connection begins with the first command of its client."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await reader.read(4096):
            pass
        writer.close()


@asynccontextmanager
async def hung_redis() -> AsyncIterator[HungRedis]:
    hung = HungRedis()
    server = await asyncio.start_server(hung.take, "127.0.0.1", 0)
    hung.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield hung


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_redis_that_hangs_is_asked_once_and_then_left_alone_for_a_moment() -> None:
    """Regression: each of three questions waited for five seconds."""

    async def main() -> None:
        clock = Clock()
        async with hung_redis() as hung, redis.asyncio.Redis.from_url(hung.url) as client:
            listener = Listener(client, sweep_seconds=1, clock=clock)
            assert await listener.is_my_turn()
            assert not await listener.has_plenty(at_hand=0)
            assert not await listener.share([uuid4()])
            await listener.hand_on([uuid4()])
            assert await listener.hear(lambda: 1) == []
            assert (hung.connections, listener.works) == (1, False)

            clock.now += 1
            assert await listener.is_my_turn()
            assert hung.connections == 2

    asyncio.run(main())


@pytest.mark.django_db(transaction=True)
def test_beside_a_redis_that_hangs_the_sweep_alone_delivers(acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    accept(acme, 3)

    async def main() -> None:
        async with (
            hung_redis() as hung,
            redis.asyncio.Redis.from_url(hung.url) as client,
            database.new_pool() as pool,
            answering(200) as transport,
            asyncio.timeout(60),
        ):
            pump = Pump(pool=pool, bell_client=client, transport=transport, options=tasks.options())
            running = asyncio.create_task(pump.run())
            while await asyncio.to_thread(states_from_a_thread, endpoint) != ["delivered"] * 3:
                assert not running.done()
            pump.stop()
            await running

    asyncio.run(main())


def states_from_a_thread(endpoint: Endpoint) -> list[str]:
    try:
        return states(endpoint)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_nobody_asks_redis_while_holding_a_database_connection(redis_client: Any) -> None:
    class CountingPool(Pool):
        borrowed = 0

        @asynccontextmanager
        async def connection(self, *, seconds: float = 10) -> AsyncIterator[psycopg.AsyncConnection]:
            async with super().connection(seconds=seconds) as own:
                self.borrowed += 1
                try:
                    yield own
                finally:
                    self.borrowed -= 1

    asked: list[tuple[str, int]] = []

    async def main() -> None:
        pool = CountingPool(partial(psycopg.AsyncConnection.connect, database.conninfo(), **database.session()))

        class Watched(redis.asyncio.Redis):
            async def execute_command(self, *arguments: Any, **options: Any) -> Any:
                asked.append((str(arguments[0]), pool.borrowed))
                return await super().execute_command(*arguments, **options)  # type: ignore[no-untyped-call]

        async with pool, Watched.from_url(settings.REDIS_URL) as client, answering(200) as transport:
            # Nothing else of this pump needs the database: its lease is not renewed, and nothing is due.
            options = replace(tasks.options(), renew_seconds=3600, sweep_seconds=0.01)
            pump = Pump(pool=pool, bell_client=client, transport=transport, options=options)
            async with asyncio.timeout(60):
                running = asyncio.create_task(pump.run())
                while sum(name == "ZCARD" for name, _ in asked) < 3:
                    await asyncio.wait([running], timeout=0.01)
                pump.stop()
                await running

    asyncio.run(main())
    assert {borrowed for _, borrowed in asked} == {0}
