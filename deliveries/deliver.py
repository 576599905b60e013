"""Step: deliver. The pump: the only place with concurrency.

It claims as slots free up, sends up to `concurrency` requests at once, and settles what has gathered while the last
write was under way. A slot is free again only once its outcome is in the database, so a database that stops answering
stops the claiming too, and nothing piles up. It ends when there was nothing to do for a while, or when told to stop:
then it claims no more and finishes what is in flight.
"""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import httpx
import psycopg
import redis.asyncio
import redis.exceptions
from psycopg_pool import AsyncConnectionPool

from deliveries import bell, prepare, retry, sweep
from deliveries.claim import Claimed, claim, close_lease, renew_lease
from deliveries.health import Breaker, read_signal
from deliveries.retry import Facts, read_retry_after
from deliveries.send import Answered, Outgoing, Unanswered, send
from deliveries.settle import Outcome, settle
from subscriptions import ids

# Endpoints visited by one claim.
_ENDPOINTS_PER_CLAIM = 200
# An endpoint another worker is claiming for right now is asked for again after this long (seconds), this often.
_PASSED_OVER_PAUSE = 0.005
_PASSED_OVER_TRIES = 3
# After a failed statement or ring, before the next try (seconds).
_ERROR_PAUSE = 0.5
# Endpoints the sweep hands over at once.
_SWEEP_LIMIT = 2000

logger = logging.getLogger(__name__)

Pool = AsyncConnectionPool[psycopg.AsyncConnection]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """How one pump works; read from the settings by the task that runs it."""

    concurrency: int
    schedule: Sequence[int]
    lease_seconds: float
    renew_seconds: float
    sweep_seconds: float
    idle_seconds: float
    breaker: Breaker
    user_agent: str
    worker: str


class Pump:
    """One run: made, run to its end, thrown away."""

    def __init__(
        self, *, pool: Pool, bell_client: "redis.asyncio.Redis", transport: httpx.AsyncBaseTransport, options: Options
    ) -> None:
        self._pool = pool
        self._bell = bell_client
        self._transport = transport
        self._options = options
        self._lease_id = ids.new_uuid()
        self._stopping = asyncio.Event()
        self._ready: dict[UUID, None] = {}  # an ordered set: endpoints take turns
        self._passed_over: Counter[UUID] = Counter()
        self._full: set[UUID] = set()  # at their cap, with more to send
        self._ailing: set[UUID] = set()  # failed here since they last succeeded here
        self._in_flight = 0
        self._outcomes: deque[tuple[Claimed, Outcome]] = deque()
        self._claimable = asyncio.Event()
        self._settleable = asyncio.Event()
        self._attempts: set[asyncio.Task[None]] = set()
        self._busy_at = time.monotonic()
        self._bell_works = True
        self.delivered_count = 0

    def stop(self) -> None:
        """Claims no more; `run` returns once what is in flight has been settled."""
        self._stopping.set()
        self._claimable.set()

    async def run(self) -> None:
        await self._with_database(
            lambda connection: renew_lease(
                connection,
                lease_id=self._lease_id,
                worker=self._options.worker,
                seconds=self._options.lease_seconds,
            )
        )
        helpers = [
            asyncio.create_task(helper())
            for helper in (self._listen, self._sweep, self._renew, self._settle, self._watch_idle)
        ]
        try:
            await self._claim()
            while self._in_flight:
                await asyncio.wait(helpers, timeout=0.05)
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            with suppress(psycopg.Error):
                async with self._pool.connection() as connection:
                    await close_lease(connection, lease_id=self._lease_id)

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _claim(self) -> None:
        while not self._stopping.is_set():
            free = self._options.concurrency - self._in_flight
            if not self._ready or free <= 0:
                self._claimable.clear()
                await self._claimable.wait()
                continue
            endpoint_ids = self._next_endpoints()
            share = max(1, free // len(endpoint_ids))
            try:
                async with self._pool.connection() as connection:
                    claimed = await claim(
                        connection, endpoint_ids=endpoint_ids, lease_id=self._lease_id, share=share, limit=free
                    )
            except psycopg.Error as error:
                logger.warning("claim.failed", extra={"fields": {"error": repr(error)}})
                self._make_ready(endpoint_ids)
                await asyncio.sleep(_ERROR_PAUSE)
                continue
            self._start(claimed.deliveries, share=share, closed=claimed.closed)
            self._ask_again(claimed.passed_over)
            self._come_back(claimed.closed)

    def _next_endpoints(self) -> list[UUID]:
        endpoint_ids = list(self._ready)[:_ENDPOINTS_PER_CLAIM]
        for endpoint_id in endpoint_ids:
            del self._ready[endpoint_id]
        return endpoint_ids

    def _start(self, deliveries: Sequence[Claimed], *, share: int, closed: Collection[UUID]) -> None:
        self._in_flight += len(deliveries)
        if deliveries:
            self._busy_at = time.monotonic()
        counts = Counter(delivery.endpoint_id for delivery in deliveries)
        for delivery in deliveries:
            count = counts.pop(delivery.endpoint_id, None)
            if count is not None and count >= delivery.room:
                self._full.add(delivery.endpoint_id)
            elif count is not None and count >= share and delivery.endpoint_id not in closed:
                self._make_ready([delivery.endpoint_id])
            attempt = asyncio.create_task(self._attempt(delivery))
            self._attempts.add(attempt)
            attempt.add_done_callback(self._attempts.discard)

    def _ask_again(self, endpoint_ids: Iterable[UUID]) -> None:
        """Another worker held these lanes. It may have looked before our work was there, so look again ourselves."""
        again = []
        for endpoint_id in endpoint_ids:
            self._passed_over[endpoint_id] += 1
            if self._passed_over[endpoint_id] < _PASSED_OVER_TRIES:
                again.append(endpoint_id)
            else:
                del self._passed_over[endpoint_id]
        if again:
            asyncio.get_running_loop().call_later(_PASSED_OVER_PAUSE, self._make_ready, again)

    def _come_back(self, closed: Mapping[UUID, float]) -> None:
        """A lane that opens before the next sweep is not left to it: a rate limit closes one many times a second."""
        for endpoint_id, seconds in closed.items():
            if seconds <= self._options.sweep_seconds:
                asyncio.get_running_loop().call_later(seconds, self._make_ready, [endpoint_id])

    def _make_ready(self, endpoint_ids: Iterable[UUID]) -> None:
        self._ready.update(dict.fromkeys(endpoint_ids))
        self._claimable.set()

    # ── one attempt ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _attempt(self, delivery: Claimed) -> None:
        outgoing: Outgoing | None = None
        try:
            outgoing = prepare.outgoing(delivery, user_agent=self._options.user_agent, timestamp=int(time.time()))
            sent = await send(outgoing, transport=self._transport)
        except Exception as error:  # A bug of ours must not leave a delivery in flight for ever.
            logger.exception("delivery.broken", extra={"fields": {"delivery": str(delivery.id)}})
            sent = Unanswered(
                error_kind="internal",
                detail=type(error).__name__,
                started_at=datetime.now(UTC),
                duration_ms=0,
                address=None,
            )
        self._outcomes.append((delivery, self._decided(delivery, outgoing, sent)))
        self._settleable.set()

    def _decided(self, delivery: Claimed, outgoing: Outgoing | None, sent: Answered | Unanswered) -> Outcome:
        now = datetime.now(UTC)
        facts = read_facts(sent, now=now)
        verdict = retry.decide(
            facts,
            attempt_in_round=delivery.attempt_in_round,
            schedule=delivery.retry_schedule or self._options.schedule,
            now=now,
            jitter=random.uniform(-1, 1),
        )
        failed = facts.status_code is not None and not isinstance(verdict, retry.Delivered)
        return Outcome(
            delivery_id=delivery.id,
            endpoint_id=delivery.endpoint_id,
            number=delivery.number,
            verdict=verdict,
            signal=read_signal(facts, verdict, now=now),
            endpoint_is_well=delivery.is_well and delivery.endpoint_id not in self._ailing,
            ordering=(delivery.consumer_id, delivery.ordering_key) if delivery.ordering_key is not None else None,
            decided_at=now,
            started_at=sent.started_at,
            duration_ms=sent.duration_ms,
            url=delivery.url,
            request_headers=prepare.signer(delivery).redacted(outgoing) if outgoing else (),
            address=sent.address,
            status_code=facts.status_code,
            error_kind=f"http_{facts.status_code}" if failed else facts.error_kind,
            error_detail=sent.detail if isinstance(sent, Unanswered) else None,
            response_headers=sent.headers if isinstance(sent, Answered) else None,
            response_body=sent.body if isinstance(sent, Answered) else None,
        )

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _settle(self) -> None:
        while True:
            await self._settleable.wait()
            self._settleable.clear()
            batch = [self._outcomes.popleft() for _ in range(len(self._outcomes))]
            if not batch:
                continue
            settled = await self._with_database(
                partial(settle, outcomes=[outcome for _, outcome in batch], breaker=self._options.breaker)
            )
            self._busy_at = time.monotonic()
            self._in_flight -= len(batch)
            for delivery, outcome in batch:
                self.delivered_count += isinstance(outcome.verdict, retry.Delivered)
                self._remember_health(outcome)
                _log(delivery, outcome, moved=delivery.id in settled.moved)
            freed = self._full.intersection(delivery.endpoint_id for delivery, _ in batch)
            self._full -= freed
            self._make_ready(freed | settled.unblocked)

    def _remember_health(self, outcome: Outcome) -> None:
        """Which endpoints failed here last: a success claimed before that failure ends the run all the same."""
        if outcome.signal is None:
            return
        if outcome.signal.succeeded:
            self._ailing.discard(outcome.endpoint_id)
        else:
            self._ailing.add(outcome.endpoint_id)

    async def _with_database(self, run: Callable[[psycopg.AsyncConnection], Awaitable[T]]) -> T:
        """Tries until the database answers: an outcome must not be lost to a restart of the server."""
        while True:
            try:
                async with self._pool.connection() as connection:
                    return await run(connection)
            except psycopg.Error as error:
                logger.warning("database.failed", extra={"fields": {"error": repr(error)}})
                await asyncio.sleep(_ERROR_PAUSE)

    # ── helpers that run beside ──────────────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        """Hears the bell. When Redis is out of reach, the sweep goes on alone."""
        while True:
            try:
                heard: Any = await self._bell.bzpopmin(bell.READY, timeout=1)
                self._bell_works = True
                if heard is None:
                    continue
                more: Any = await self._bell.zpopmin(bell.READY, _ENDPOINTS_PER_CLAIM)
                self._make_ready(UUID(member.decode()) for member in [heard[1], *(member for member, _ in more)])
            except (redis.exceptions.RedisError, OSError, ValueError) as error:
                if self._bell_works:
                    logger.warning("bell.unheard", extra={"fields": {"error": repr(error)}})
                self._bell_works = False
                await asyncio.sleep(_ERROR_PAUSE)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._options.sweep_seconds)
            try:
                async with self._pool.connection() as connection:
                    await sweep.recover_lost(
                        connection, schedule=list(self._options.schedule), breaker=self._options.breaker
                    )
                    self._make_ready(await sweep.due_endpoints(connection, limit=_SWEEP_LIMIT))
            except psycopg.Error as error:
                logger.warning("sweep.failed", extra={"fields": {"error": repr(error)}})

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._options.renew_seconds)
            try:
                async with self._pool.connection() as connection:
                    await renew_lease(
                        connection,
                        lease_id=self._lease_id,
                        worker=self._options.worker,
                        seconds=self._options.lease_seconds,
                    )
            except psycopg.Error as error:
                logger.warning("lease.failed", extra={"fields": {"error": repr(error)}})

    async def _watch_idle(self) -> None:
        """Without Redis no message could start a pump again, so this one stays."""
        while True:
            await asyncio.sleep(self._options.idle_seconds / 4)
            idle = time.monotonic() - self._busy_at > self._options.idle_seconds
            if idle and self._bell_works and not self._in_flight and not self._ready:
                self.stop()


def read_facts(sent: Answered | Unanswered, *, now: datetime) -> Facts:
    if isinstance(sent, Unanswered):
        return Facts(status_code=None, error_kind=sent.error_kind)
    headers = {name.lower(): value for name, value in sent.headers}
    return Facts(
        status_code=sent.status_code,
        error_kind=None,
        control=headers.get("webhook-delivery", "").strip().lower() or None,
        retry_after=read_retry_after(headers.get("retry-after"), status_code=sent.status_code, now=now),
    )


def _log(delivery: Claimed, outcome: Outcome, *, moved: bool) -> None:
    logger.info(
        "delivery.attempted",
        extra={
            "fields": {
                "delivery": ids.show("dlv", delivery.id),
                "event": delivery.producer_id or ids.show("evt", delivery.event_id),
                "endpoint": ids.show("ep", delivery.endpoint_id),
                "event_type": delivery.event_type,
                "attempt": delivery.number,
                "status_code": outcome.status_code,
                "error_kind": outcome.error_kind,
                "duration_ms": outcome.duration_ms,
                "verdict": type(outcome.verdict).__name__,
                "fenced": not moved,
            }
        },
    )
