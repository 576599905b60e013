"""Stores for tests, all on SQLite files, each with a table of effects that the work writes to."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhooks_client.receive import DbApiStore, Event


@dataclass
class Stand:
    """A store, the work that goes with it, and how often that work has committed."""

    store: Any
    work: Callable[[Event, Any], object]
    path: Path

    def effects(self) -> list[str]:
        with closing(sqlite3.connect(self.path)) as connection:
            return [row[0] for row in connection.execute("SELECT event FROM effects ORDER BY rowid")]


def _create_effects(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS effects (event TEXT NOT NULL)")
        connection.commit()


def dbapi(path: Path) -> Stand:
    _create_effects(path)
    store = DbApiStore(lambda: sqlite3.connect(path, timeout=30))
    store.create_tables()

    def work(event: Event, connection: Any) -> None:
        connection.execute("INSERT INTO effects VALUES (?)", (event.id,))

    return Stand(store, work, path)


def sqlalchemy(path: Path) -> Stand:
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import sessionmaker
    from sqlalchemy.pool import NullPool
    from webhooks_client.receive.sqlalchemy import SQLAlchemyStore, metadata

    _create_effects(path)
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": 30})
    metadata.create_all(engine)

    def work(event: Event, session: Any) -> None:
        session.execute(text("INSERT INTO effects VALUES (:id)"), {"id": event.id})

    return Stand(SQLAlchemyStore(sessionmaker(engine)), work, path)
