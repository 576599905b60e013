"""The feed's position on PostgreSQL and Valkey."""

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import redis
from webhooks_client.receive import DbApiStore, Positions, RedisPositions


@pytest.fixture
def rows() -> Iterator[DbApiStore]:
    prefix = f"positions_{uuid.uuid4().hex[:12]}"
    store = DbApiStore(lambda: psycopg.connect(os.environ["DATABASE_URL"]), placeholder="%s", prefix=prefix)
    store.create_tables()
    # As after an upgrade, when two of the three are there.
    store.create_tables()
    yield store
    with store.transaction() as connection:
        for table in ("receipts", "sequences", "positions"):
            connection.execute(f"DROP TABLE {prefix}_{table}")


@pytest.fixture
def kept() -> Iterator[RedisPositions]:
    prefix = f"positions:{uuid.uuid4()}:"
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        yield RedisPositions(client, prefix=prefix)
        client.delete(f"{prefix}acme")


@pytest.mark.parametrize("place", ["rows", "kept"])
def test_the_last_of_many_positions_is_there(place: str, request: pytest.FixtureRequest) -> None:
    positions: Positions = request.getfixturevalue(place)
    assert positions.position("acme") is None
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: positions.set_position("acme", str(number)), range(40)))
    assert positions.position("acme") in {str(number) for number in range(40)}
    positions.set_position("acme", "last")
    assert positions.position("acme") == "last"
    assert positions.position("other") is None
