"""Answer first, work later. Each of these is a `hand_over` for a `Receiver`.

A table is as safe as the database: `Inbox`. Celery and RQ are as safe as their broker; their tasks get a plain
dictionary and give it to `Receiver.process_once`, which dedupes:

    @shared_task
    def process_webhook(payload): receiver.process_once(Event.of(payload))

    receiver = Receiver(secrets, store=store, work=work, hand_over=to_celery(process_webhook))
"""

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from webhooks_client.receive.dbapi import DbApiStore, is_sqlite
from webhooks_client.receive.event import Event

_TABLE = (
    "CREATE TABLE IF NOT EXISTS {prefix}_inbox (key VARCHAR(255) PRIMARY KEY, payload TEXT NOT NULL,"
    " received_at DOUBLE PRECISION NOT NULL, due_at DOUBLE PRECISION, tries INTEGER NOT NULL, error TEXT)",
    "CREATE INDEX IF NOT EXISTS {prefix}_inbox_due ON {prefix}_inbox (due_at)",
)
_LONGEST_WAIT_SECONDS = 3600.0
# What the column of keys holds.
_LONGEST_KEY = 255


def to_celery(task: Any, **options: Any) -> Callable[[Event], object]:
    """`task` takes the event's payload. Options as of `apply_async`, such as `queue`."""
    return lambda event: task.apply_async(args=[dict(event.payload)], **options)


def to_rq(queue: Any, function: Callable[[dict[str, Any]], object], **options: Any) -> Callable[[Event], object]:
    """`function` takes the event's payload. Options as of `Queue.enqueue`, such as `retry`."""
    return lambda event: queue.enqueue(function, dict(event.payload), **options)


class Inbox:
    """A table of events to work off, in the database that holds the keys.

    `keep` stores key and event in one transaction, so a duplicate is never kept twice. `work_off` runs the work and
    marks the event as done in one transaction; run it in a process or thread of your own, as many as you like. `key` is
    the receiver's, where that has one of its own.
    """

    def __init__(
        self,
        store: DbApiStore,
        *,
        key: Callable[[Event], str] = lambda event: event.id,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._key = key
        self._clock = clock

    def create_table(self) -> None:
        with self._store.transaction() as connection:
            for statement in _TABLE:
                self._store.execute(connection, statement)

    def keep(self, event: Event) -> None:
        def insert(connection: Any) -> None:
            statement = (
                "INSERT INTO {prefix}_inbox (key, payload, received_at, due_at, tries) VALUES (?, ?, ?, ?, 0)"
                " ON CONFLICT (key) DO NOTHING"
            )
            now = self._clock()
            self._store.execute(connection, statement, key, json.dumps(dict(event.payload)), now, now)

        key = self._key(event)
        marked = f"inbox:{key}"
        if len(marked) > _LONGEST_KEY:
            marked = f"inbox:sha256:{hashlib.sha256(key.encode()).hexdigest()}"
        self._store.run_once(marked, insert)

    def work_off(self, work: Callable[[Event, Any], object], *, limit: int = 100) -> int:
        """Works off what is due, so many at most; how many were done. A failed one comes again, later each time."""
        done = 0
        for _ in range(limit):
            key = None
            try:
                with self._store.transaction() as connection:
                    row = self._next(connection)
                    if row is None:
                        return done
                    key = row[0]
                    with self._store.kept_open(connection):
                        work(Event.of(json.loads(row[1])), connection)
                    statement = "UPDATE {prefix}_inbox SET due_at = NULL, error = NULL WHERE key = ?"
                    self._store.execute(connection, statement, key)
                done += 1
            except Exception as error:
                if key is None:
                    raise
                self._postpone(key, error)
        return done

    def backlog(self) -> int:
        with self._store.transaction() as connection:
            statement = "SELECT count(*) FROM {prefix}_inbox WHERE due_at IS NOT NULL"
            return int(self._store.execute(connection, statement).fetchone()[0])

    def forget(self, *, older_than_seconds: float) -> int:
        """Deletes events that were done, by the time they came; how many."""
        with self._store.transaction() as connection:
            statement = "DELETE FROM {prefix}_inbox WHERE due_at IS NULL AND received_at < ?"
            return int(self._store.execute(connection, statement, self._clock() - older_than_seconds).rowcount)

    def _next(self, connection: Any) -> Any:
        statement = "SELECT key, payload FROM {prefix}_inbox WHERE due_at <= ? ORDER BY due_at, received_at LIMIT 1"
        # SQLite has one writer at a time anyway.
        locking = "" if is_sqlite(connection) else " FOR UPDATE SKIP LOCKED"
        return self._store.execute(connection, statement + locking, self._clock()).fetchone()

    def _postpone(self, key: str, error: Exception) -> None:
        with self._store.transaction() as connection:
            found = self._store.execute(connection, "SELECT tries FROM {prefix}_inbox WHERE key = ?", key).fetchone()
            tries = int(found[0]) + 1
            due = self._clock() + min(2.0**tries, _LONGEST_WAIT_SECONDS)
            # Not where somebody else has taken it since, and was done with it.
            statement = (
                "UPDATE {prefix}_inbox SET tries = ?, due_at = ?, error = ? WHERE key = ? AND due_at IS NOT NULL"
            )
            self._store.execute(connection, statement, tries, due, repr(error)[:500], key)
