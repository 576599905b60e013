"""Remember keys through SQLAlchemy. Needs the extra `sqlalchemy`.

store = SQLAlchemyStore(sessionmaker(engine))
metadata.create_all(engine)                       # or in a migration of yours
"""

import time
from collections.abc import Callable

from sqlalchemy import BigInteger, Column, Float, MetaData, String, Table, Text, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from webhooks_client.receive.store import RETENTION_SECONDS, EndedTransaction, Outcome, Work

metadata = MetaData()

receipts = Table(
    "webhook_receipts",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("received_at", Float(53), nullable=False, index=True),
)
sequences = Table(
    "webhook_sequences",
    metadata,
    Column("ordering_key", String(255), primary_key=True),
    Column("applied", BigInteger, nullable=False),
)
positions = Table(
    "webhook_positions",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("position", Text, nullable=False),
)


class SQLAlchemyStore:
    """`session_factory` is a `sessionmaker`; `work` is called with the session, and must not commit it."""

    def __init__(self, session_factory: Callable[[], Session], *, clock: Callable[[], float] = time.time) -> None:
        self._session_factory = session_factory
        self._clock = clock

    def run_once(self, key: str, work: Work) -> Outcome:
        with self._session_factory() as session, session.begin():
            try:
                # First of all in this transaction: when it fails, there is nothing else to undo.
                session.execute(insert(receipts).values(key=key, received_at=self._clock()))
            except IntegrityError:
                session.rollback()
                return "duplicate"
            opened = session.get_transaction()
            work(session)
            if session.get_transaction() is not opened:
                raise EndedTransaction
            try:
                session.flush()
                # An error of the database that the work swallowed shows here, and not in the commit.
                session.execute(select(1))
            except SQLAlchemyError as error:
                raise EndedTransaction from error
        return "new"

    def seen(self, key: str) -> bool:
        with self._session_factory() as session:
            return session.execute(select(receipts.c.key).where(receipts.c.key == key)).first() is not None

    def forget(self, *, older_than_seconds: float = RETENTION_SECONDS) -> int:
        with self._session_factory() as session, session.begin():
            before = self._clock() - older_than_seconds
            found = session.execute(delete(receipts).where(receipts.c.received_at < before))
            return int(getattr(found, "rowcount", 0))

    def applied(self, transaction: Session, ordering_key: str) -> int:
        wanted = sequences.c.ordering_key == ordering_key
        # Taken even where nothing changes: the row is locked until the transaction ends.
        locked = transaction.execute(update(sequences).where(wanted).values(applied=sequences.c.applied))
        if not getattr(locked, "rowcount", 0):
            transaction.execute(insert(sequences).values(ordering_key=ordering_key, applied=0))
        return int(transaction.execute(select(sequences.c.applied).where(wanted)).scalar_one())

    def set_applied(self, transaction: Session, ordering_key: str, sequence: int) -> None:
        wanted = sequences.c.ordering_key == ordering_key
        transaction.execute(update(sequences).where(wanted).values(applied=sequence))

    def position(self, name: str) -> str | None:
        with self._session_factory() as session:
            return session.execute(select(positions.c.position).where(positions.c.name == name)).scalar_one_or_none()

    def set_position(self, name: str, cursor: str) -> None:
        with self._session_factory() as session, session.begin():
            moved = session.execute(update(positions).where(positions.c.name == name).values(position=cursor))
            if not getattr(moved, "rowcount", 0):
                session.execute(insert(positions).values(name=name, position=cursor))
