"""Remember keys through a plain database connection: SQLite from the standard library, PostgreSQL through psycopg."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from webhooks_client.receive.store import RETENTION_SECONDS, EndedTransaction, Outcome, Work

_TABLES = (
    "CREATE TABLE IF NOT EXISTS {prefix}_receipts"
    " (key VARCHAR(255) PRIMARY KEY, received_at DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS {prefix}_receipts_received_at ON {prefix}_receipts (received_at)",
    "CREATE TABLE IF NOT EXISTS {prefix}_sequences (ordering_key VARCHAR(255) PRIMARY KEY, applied BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS {prefix}_positions (name VARCHAR(255) PRIMARY KEY, position TEXT NOT NULL)",
)


class DbApiStore:
    """`connect` opens a connection, or takes one from a pool whose `close` puts it back: one for each call.

    `placeholder` is `?` for SQLite and `%s` for psycopg. `create_tables` makes what is missing of the three tables.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        placeholder: str = "?",
        prefix: str = "webhook",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not prefix.isidentifier():
            raise ValueError("`prefix` is the beginning of a table's name.")
        self._connect = connect
        self._placeholder = placeholder
        self._prefix = prefix
        self._clock = clock

    def create_tables(self) -> None:
        with self.transaction() as connection:
            for statement in _TABLES:
                connection.cursor().execute(statement.format(prefix=self._prefix))

    def run_once(self, key: str, work: Work) -> Outcome:
        with self.transaction() as connection:
            # A second call for this key waits here until the first one's transaction ends.
            stored = self.execute(
                connection,
                "INSERT INTO {prefix}_receipts (key, received_at) VALUES (?, ?) ON CONFLICT (key) DO NOTHING",
                key,
                self._clock(),
            )
            if stored.rowcount != 1:
                return "duplicate"
            with self.kept_open(connection):
                work(connection)
        return "new"

    def seen(self, key: str) -> bool:
        with self.transaction() as connection:
            found = self.execute(connection, "SELECT 1 FROM {prefix}_receipts WHERE key = ?", key)
            return found.fetchone() is not None

    def forget(self, *, older_than_seconds: float = RETENTION_SECONDS) -> int:
        with self.transaction() as connection:
            before = self._clock() - older_than_seconds
            return int(self.execute(connection, "DELETE FROM {prefix}_receipts WHERE received_at < ?", before).rowcount)

    def applied(self, transaction: Any, ordering_key: str) -> int:
        # Written even where nothing changes: the row is locked until the transaction ends.
        self.execute(
            transaction,
            "INSERT INTO {prefix}_sequences (ordering_key, applied) VALUES (?, 0)"
            " ON CONFLICT (ordering_key) DO UPDATE SET applied = {prefix}_sequences.applied",
            ordering_key,
        )
        found = self.execute(transaction, "SELECT applied FROM {prefix}_sequences WHERE ordering_key = ?", ordering_key)
        return int(found.fetchone()[0])

    def set_applied(self, transaction: Any, ordering_key: str, sequence: int) -> None:
        statement = "UPDATE {prefix}_sequences SET applied = ? WHERE ordering_key = ?"
        self.execute(transaction, statement, sequence, ordering_key)

    def position(self, name: str) -> str | None:
        with self.transaction() as connection:
            found = self.execute(connection, "SELECT position FROM {prefix}_positions WHERE name = ?", name).fetchone()
            return None if found is None else str(found[0])

    def set_position(self, name: str, cursor: str) -> None:
        with self.transaction() as connection:
            statement = (
                "INSERT INTO {prefix}_positions (name, position) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET position = excluded.position"
            )
            self.execute(connection, statement, name, cursor)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with closing(self._connect()) as connection:
            try:
                if getattr(connection, "autocommit", False) is True:
                    raise ValueError("A connection in autocommit mode cannot hold the key and the work together.")
                if is_sqlite(connection):
                    if connection.in_transaction:  # sqlite3.connect(autocommit=False) has begun one
                        connection.execute("ROLLBACK")
                    # Takes the write lock at once: two that begin by reading could not both go on to write.
                    connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    @contextmanager
    def kept_open(self, connection: Any) -> Iterator[None]:
        """Raises EndedTransaction where the transaction of before is over or broken afterwards."""
        self.execute(connection, "SAVEPOINT {prefix}_work")
        yield
        try:
            self.execute(connection, "RELEASE SAVEPOINT {prefix}_work")
        except Exception as error:
            raise EndedTransaction from error

    def execute(self, connection: Any, statement: str, *values: Any) -> Any:
        """A statement with `?` for values and `{prefix}` for the tables' beginning; the cursor."""
        cursor = connection.cursor()
        cursor.execute(statement.format(prefix=self._prefix).replace("?", self._placeholder), values)
        return cursor


def is_sqlite(connection: Any) -> bool:
    return type(connection).__module__.startswith("sqlite3")
