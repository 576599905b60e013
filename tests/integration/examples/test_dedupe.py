"""The receiver kit's dedupe on PostgreSQL with Valkey in front: one effect, whatever Redis knows."""

import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import redis
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool
from webhooks_client.receive import DbApiStore, EndedTransaction, RedisFront
from webhooks_client.receive.sqlalchemy import SQLAlchemyStore, metadata

from tests.local import free_port
from webhooks_platform.local.environment import BASE_DIR

PARALLEL = 50
TABLES = ("_receipts", "_sequences", "_positions")


def connect() -> "psycopg.Connection[Any]":
    return psycopg.connect(os.environ["DATABASE_URL"])


def valkey() -> redis.Redis:
    return redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5)


def gone() -> redis.Redis:
    return redis.Redis(port=free_port(), socket_timeout=1, socket_connect_timeout=1)


class Stand:
    """Two receivers' tables, and a table of effects without any unique key."""

    def __init__(self) -> None:
        self.name = f"dedupe_{uuid.uuid4().hex[:12]}"
        self.rows = DbApiStore(connect, placeholder="%s", prefix=self.name)
        self.others = DbApiStore(connect, placeholder="%s", prefix=f"{self.name}_other")
        for store in (self.rows, self.others):
            store.create_tables()
        self._run(f"CREATE TABLE {self.name} (event TEXT NOT NULL)")

    def work(self, transaction: Any) -> None:
        transaction.execute(f"INSERT INTO {self.name} VALUES ('shipped')")

    def effects(self) -> int:
        with connect() as connection:
            return int((connection.execute(f"SELECT count(*) FROM {self.name}").fetchone() or [0])[0])

    def close(self) -> None:
        for table in (self.name, *(f"{self.name}{each}" for each in TABLES)):
            self._run(f"DROP TABLE {table}")
        for each in TABLES:
            self._run(f"DROP TABLE {self.name}_other{each}")

    def _run(self, statement: str) -> None:
        with connect() as connection:
            connection.execute(statement)


@pytest.fixture
def stand() -> Iterator[Stand]:
    made = Stand()
    yield made
    made.close()


def fifty(stand: Stand, store: RedisFront, key: str) -> Counter[str]:
    with ThreadPoolExecutor(PARALLEL) as pool:
        return Counter(pool.map(lambda _: store.run_once(key, stand.work), range(PARALLEL)))


@pytest.mark.parametrize("client", [valkey, gone], ids=["empty", "gone"])
def test_of_fifty_duplicates_at_the_same_moment_one_has_an_effect(
    stand: Stand, client: Callable[[], redis.Redis]
) -> None:
    with client() as front:
        assert fifty(stand, RedisFront(front, stand.rows), str(uuid.uuid4())) == {"new": 1, "duplicate": PARALLEL - 1}
    assert stand.effects() == 1


def test_a_redis_that_holds_the_key_of_an_event_never_seen_hides_nothing(stand: Stand) -> None:
    key = str(uuid.uuid4())
    with valkey() as front:
        # Another receiver's tables, the same Redis: it says "seen", and the rows behind it say otherwise.
        RedisFront(front, stand.others).run_once(key, lambda transaction: None)
        assert fifty(stand, RedisFront(front, stand.rows), key) == {"new": 1, "duplicate": PARALLEL - 1}
    assert stand.effects() == 1


def swallows(run: Callable[[str], object]) -> None:
    """PostgreSQL ends what follows in the transaction, and answers COMMIT with ROLLBACK, without an error."""
    with suppress(psycopg.Error, SQLAlchemyError):
        run("INSERT INTO there_is_no_such_table VALUES (1)")


def test_work_that_swallows_a_database_error_has_failed_and_comes_again(stand: Stand) -> None:
    def work(transaction: Any) -> None:
        stand.work(transaction)
        swallows(transaction.execute)

    with pytest.raises(EndedTransaction):
        stand.rows.run_once("evt_1", work)
    assert (stand.effects(), stand.rows.seen("evt_1")) == (0, False)
    assert stand.rows.run_once("evt_1", stand.work) == "new"


def test_so_it_is_with_sqlalchemy(stand: Stand) -> None:
    url = (
        os.environ["DATABASE_URL"]
        .replace("postgres://", "postgresql+psycopg://")
        .replace("postgresql://", "postgresql+psycopg://")
    )
    engine = create_engine(url, poolclass=NullPool)
    metadata.create_all(engine)
    store = SQLAlchemyStore(sessionmaker(engine))
    key = str(uuid.uuid4())
    try:
        with pytest.raises(EndedTransaction):
            store.run_once(key, lambda session: swallows(lambda statement: session.execute(text(statement))))
        assert not store.seen(key)
        assert [store.run_once(key, lambda _: None), store.run_once(key, lambda _: None)] == ["new", "duplicate"]
    finally:
        metadata.drop_all(engine)


def test_the_dedupe_can_be_measured_by_a_command() -> None:
    env = {**os.environ, "PYTHONPATH": str(BASE_DIR / "clients" / "python" / "src")}
    command = [sys.executable, str(BASE_DIR / "clients" / "python" / "measure_dedupe.py"), "200"]
    printed = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120).stdout
    assert [line.split(",")[0] for line in printed.splitlines()] == ["new: 200 calls", "duplicate: 200 calls"]
    sys.stdout.write(printed)
