"""The walk a step at a time, for tests of single steps: accept, claim, settle, with the product's own functions.

Nobody sets a state by hand. Where a state takes minutes or days, `pass_time` makes everything on record older instead.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import httpx
import psycopg
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from psycopg import AsyncConnection

from deliveries import ingest, retry, tasks
from deliveries.accepting.insert import Stored
from deliveries.claim import Claim, Claimed, claim, close_lease, renew_lease
from deliveries.health.breaker import Breaker, read_signal
from deliveries.ingest import Accepted, NewEvent
from deliveries.models import Delivery
from deliveries.pump import database
from deliveries.pump.attempt import read_facts
from deliveries.send import Answered, Unanswered
from deliveries.settle import Outcome, Settled, settle
from subscriptions import endpoints, ids
from subscriptions.models import Consumer, Endpoint

URL = "https://receiver.test/hook"

T = TypeVar("T")

_FAR_AWAY = timedelta(days=36500)
# Tables with a unique key that holds a time, `at`.
_ONE_FOR_EACH_TIME = ("deliveries_tally", "deliveries_total")
SHIFTED_COLUMNS = """
    SELECT table_name, string_agg(format('%%1$I = %%1$I - %%2$L::interval', column_name, %(by)s::text), ', ')
    FROM information_schema.columns
    WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'
        AND (table_name LIKE 'deliveries%%' OR table_name LIKE 'subscriptions%%')
    GROUP BY table_name
"""


def new_endpoint(consumer: Consumer, **fields: Any) -> Endpoint:
    return endpoints.create(consumer=consumer, **{"url": URL, **fields})[0]


def accept(
    consumer: Consumer, count: int = 1, *, type: str = "invoice.paid", ordering_key: str | None = None
) -> list[Stored]:
    """So many events, committed; each becomes a delivery to every endpoint that wants it."""
    new = [
        NewEvent(consumer=consumer.public_id, type=type, data={"number": number}, ordering_key=ordering_key)
        for number in range(count)
    ]
    with transaction.atomic():
        outcome = ingest.accept(new, now=timezone.now())
    events = [result.event for result in outcome.results if isinstance(result, Accepted)]
    assert len(events) == count, outcome.results
    return events


def connect() -> Awaitable[AsyncConnection]:
    return psycopg.AsyncConnection.connect(database.conninfo(), **database.session())


def with_connection(run: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Runs one step on a connection of its own, as another process would."""

    async def main() -> T:
        async with await connect() as own:
            return await run(own)

    return asyncio.run(main())


def claim_for(*wanted: Endpoint, share: int = 1000, limit: int = 1000, lease_id: UUID | None = None) -> Claim:
    """Under the lease given, or as a worker that dies right after: then nobody holds what it claimed."""
    endpoint_ids = [endpoint.id for endpoint in wanted]

    async def run(own: AsyncConnection) -> Claim:
        lease = lease_id or await new_lease(own)
        claimed = await claim(own, endpoint_ids=endpoint_ids, lease_id=lease, share=share, limit=limit)
        if lease_id is None:
            await close_lease(own, lease_id=lease)
        return claimed

    return with_connection(run)


async def new_lease(own: AsyncConnection, *, seconds: float = 60) -> UUID:
    lease_id = ids.new_uuid()
    await renew_lease(own, lease_id=lease_id, worker="here:1", seconds=seconds)
    return lease_id


def settle_all(*outcomes: Outcome, breaker: Breaker | None = None) -> Settled:
    return with_connection(lambda own: settle(own, outcomes, breaker=breaker or tasks.breaker()))


def answered(delivery: Claimed, status_code: int = 200, **headers: str) -> Outcome:
    """What the pump makes of an answer, jitter aside."""
    shown = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    now = datetime.now(UTC)
    return _outcome(delivery, Answered(status_code, shown, b"ok", False, now, 5, "192.0.2.1"), now=now)


def unanswered(delivery: Claimed, error_kind: Any = "read_timeout", detail: str = "Too slow.") -> Outcome:
    now = datetime.now(UTC)
    return _outcome(delivery, Unanswered(error_kind, detail, now, 5, None), now=now)


def _outcome(delivery: Claimed, sent: Answered | Unanswered, *, now: datetime) -> Outcome:
    facts = read_facts(sent, now=now)
    verdict = retry.decide(
        facts,
        attempt_in_round=delivery.attempt_in_round,
        schedule=delivery.retry_schedule or settings.DELIVERY_RETRY_SCHEDULE,
        now=now,
        jitter=0,
    )
    failed = facts.status_code is not None and not isinstance(verdict, retry.Delivered)
    return Outcome(
        delivery_id=delivery.id,
        endpoint_id=delivery.endpoint_id,
        number=delivery.number,
        verdict=verdict,
        signal=read_signal(facts, verdict, now=now),
        endpoint_is_well=delivery.is_well,
        ordering=(delivery.consumer_id, delivery.ordering_key) if delivery.ordering_key is not None else None,
        decided_at=now,
        started_at=sent.started_at,
        duration_ms=sent.duration_ms,
        url=delivery.url,
        request_headers=[("webhook-id", ids.show("evt", delivery.event_id))],
        address=sent.address,
        status_code=facts.status_code,
        error_kind=f"http_{facts.status_code}" if failed else facts.error_kind,
        error_detail=sent.detail if isinstance(sent, Unanswered) else None,
        response_headers=sent.headers if isinstance(sent, Answered) else None,
        response_body=sent.body if isinstance(sent, Answered) else None,
    )


def pass_time(**by: float) -> None:
    """Everything on record becomes so much older: `pass_time(hours=6)`. Nobody can wait that long."""
    with connection.cursor() as cursor:
        cursor.execute(SHIFTED_COLUMNS, {"by": f"{timedelta(**by).total_seconds()} seconds"})
        for table, changes in cursor.fetchall():
            if table not in _ONE_FOR_EACH_TIME:
                cursor.execute(f"UPDATE {table} SET {changes}")
        # Far away and back: a row that takes another's time before that one has moved on would be refused as its twin.
        for step in (timedelta(**by) + _FAR_AWAY, -_FAR_AWAY):
            for table in _ONE_FOR_EACH_TIME:
                cursor.execute(f"UPDATE {table} SET at = at - make_interval(secs => %s)", [step.total_seconds()])


def hold_until_somebody_waits(*, seconds: float = 1) -> None:
    """Keeps the transaction open until another one waits for a lock, or goes on without when none does."""
    deadline = time.monotonic() + seconds
    with connection.cursor() as cursor:
        waits = False
        while not waits and time.monotonic() < deadline:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
            [waits] = cursor.fetchone() or [False]


def states(endpoint: Endpoint) -> list[str]:
    """The states of an endpoint's deliveries, by the alphabet: those accepted together go in no certain order."""
    return sorted(Delivery.objects.filter(endpoint=endpoint).values_list("state", flat=True))


def answering(status_code: int = 200, **headers: str) -> httpx.MockTransport:
    """Every receiver there is, answering alike."""
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.MockTransport(lambda _request: httpx.Response(status_code, headers=shown, text="ok"))
