"""An outbox with SQLAlchemy: the event is a row of your transaction, and a relay sends it afterwards.

WEBHOOKS_URL=… WEBHOOKS_KEY=… python sqlalchemy_outbox.py sqlite:///shop.sqlite3        (the relay)
"""

import os
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, BigInteger, Integer, String, create_engine, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from webhooks_client import Client, WebhooksError


class Base(DeclarativeBase):
    pass


class OutboxEvent(Base):
    __tablename__ = "outbox_events"
    # Its order is the order in which events are sent. (SQLite counts only a plain INTEGER up by itself.)
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)
    # What the platform gets, with an id of its own that is the same on every try.
    event: Mapped[dict[str, Any]] = mapped_column(JSON)
    # pending, accepted, refused
    state: Mapped[str] = mapped_column(String(8), default="pending", index=True)
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


def emit(session: Session, *, consumer: str, type: str, data: Mapping[str, Any], **optional: str) -> str:
    """Part of the session's transaction: it commits with your rows, or not at all."""
    event_id = optional.pop("id", None) or str(uuid.uuid4())
    session.add(OutboxEvent(event={"consumer": consumer, "type": type, "data": dict(data), "id": event_id, **optional}))
    return event_id


def relay(client: Client, sessions: sessionmaker[Session], *, limit: int = 500) -> int:
    """Sends the next ones in order; how many. No transaction is open meanwhile. Killed between the answer and the
    update, it sends the same ids again, and the platform knows them."""
    pending = select(OutboxEvent).where(OutboxEvent.state == "pending").order_by(OutboxEvent.id).limit(limit)
    with sessions() as session:
        rows = [(row.id, row.event) for row in session.scalars(pending)]
    count = 0
    results = client.emit_many(event for _, event in rows)
    for (row_id, _), result in zip(rows, results, strict=True):
        state = "accepted" if result.stored else "refused"
        problem = dict(result.problem) if result.problem else None
        with sessions.begin() as session:
            session.execute(update(OutboxEvent).where(OutboxEvent.id == row_id).values(state=state, problem=problem))
        count += 1
    return count


if __name__ == "__main__":
    engine = create_engine(sys.argv[1])
    Base.metadata.create_all(engine)
    with Client(os.environ["WEBHOOKS_URL"], os.environ["WEBHOOKS_KEY"]) as client:
        while True:
            try:
                busy = relay(client, sessionmaker(engine))
            except WebhooksError as error:
                print(f"The platform is not to be had: {error}")
                busy = 0
            if not busy:
                time.sleep(1)
