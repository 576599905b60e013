"""Emits of one moment, for tests of the way in: real threads, held up by a lock until all of them wait."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, LiteralString

import orjson
import psycopg
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from deliveries.accepting import group_commit
from deliveries.accepting.group_commit import Emit
from deliveries.ingest import NewEvent, RefusedEvent, Result
from deliveries.pump import database
from subscriptions.idempotency import Scope
from subscriptions.models import ApiKey
from subscriptions.process import request_id
from tests.conftest import Api
from tests.local import wait_until

EVENT: dict[str, Any] = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}
BATCH = {"events": [EVENT, {**EVENT, "data": {"amount": 1}}]}
# The view looks at parameters, and finds none in this; nothing with a query string is answered before Django.
THROUGH_DJANGO = "?&"


def statements_of(api: Api, event: dict[str, Any], **headers: str) -> tuple[int, int]:
    with CaptureQueriesContext(connection) as captured:
        answer = api.post("events/", event, headers=headers)
    return answer.status_code, len(captured)


def new_event(number: int = 0, **fields: Any) -> NewEvent:
    return NewEvent(**{"consumer": "acme", "type": "invoice.paid", "data": {"number": number}, **fields})


def emit_of(key: ApiKey, *new_events: NewEvent, idempotency_key: str | None = None) -> Emit:
    """Answered with a line for each event: what became of it, its number, its sequence and its deliveries."""

    def present(results: Sequence[Result]) -> bytes:
        return b"\n".join(_line(result) for result in results)

    scope = idempotency_key and Scope(key.owner, "POST /api/v1/events", idempotency_key, fingerprint=bytes(32))
    return Emit(new_events, key.id, scope or None, present)


def _line(result: Result) -> bytes:
    if isinstance(result, RefusedEvent):
        return result.code.encode()
    data = orjson.loads(bytes(result.event.body or b"{}"))["data"]
    shown = [type(result).__name__, data.get("number"), result.event.sequence, result.event.delivery_count]
    return " ".join(map(str, shown)).encode()


def emit_at_once(
    opener: Emit,
    *emits: Emit,
    queue: str = "single",
    hold: LiteralString = "LOCK TABLE deliveries_event IN SHARE MODE",
    meanwhile: Callable[[], object] = lambda: None,
    then: Callable[[], object] = lambda: None,
) -> list[str | Exception]:
    """What each of the emits was answered. They wait together while the opener is held up, and `meanwhile` happens.
    `then` happens while they are being stored. They are requests with the ids `request-0` (the opener) and so on."""

    def answer(emit: Emit, number: int = 0) -> str | Exception:
        request_id.begin(f"request-{number}")
        be_patient()
        try:
            return group_commit.emit(emit).body.decode()
        except Exception as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1 + len(emits)) as callers, psycopg.connect(database.conninfo()) as holder:
        holder.execute(hold)
        first = callers.submit(answer, opener)
        wait_until(lambda: held_up(holder) == 1, seconds=30)
        others: list[Future[str | Exception]] = []
        for emit in emits:
            others.append(callers.submit(answer, emit, len(others) + 1))
            wait_until(lambda: len(group_commit.queue(queue)._waiting) == len(others), seconds=30)
        meanwhile()
        holder.rollback()
        then()
        assert isinstance(first.result(30), str), first.result()
        return [other.result(30) for other in others]


def be_patient() -> None:
    """Somebody holds a lock until all are there, however long that takes here."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '60s'")


def held_up(holder: psycopg.Connection) -> int:
    rows = holder.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()
    return int(rows[0][0])
