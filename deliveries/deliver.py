"""Step: deliver. The pump: the only place with concurrency.

It claims as slots free up, sends up to `concurrency` requests at once, and settles what has gathered while the last
write was under way. A slot is free again only once its outcome is in the database, so a database that stops answering
stops the claiming too, and nothing piles up. It ends when there was nothing to do for a while, or when told to stop:
then it claims no more and finishes what is in flight.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
import psycopg
import redis.asyncio

from deliveries import sweep
from deliveries.claim import Claimed, claim, close_lease, renew_lease
from deliveries.health.breaker import Breaker
from deliveries.pump.attempt import attempt
from deliveries.pump.database import borrow, insist
from deliveries.pump.listener import Listener
from deliveries.pump.pool import Pool
from deliveries.pump.ready_queue import PER_CLAIM, ReadyQueue
from deliveries.pump.release import SHORTAGE
from deliveries.pump.settler import UnwrittenOutcomes
from deliveries.pump.slots import Slots
from subscriptions import ids
from subscriptions.process import fail_points

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from deliveries.tracing.attempts import Traces

# The last few free slots wait so long at most for others, before they are claimed for (seconds).
_GATHER_SLOTS = 0.1
# An endpoint another worker is claiming for right now is asked for again after this long (seconds).
_PASSED_OVER_PAUSE = 0.005
# A claim under way when the pump is told to stop may take this long (seconds); the sweep puts back what it got after.
_CLAIM_GRACE = 5
# Rings of so short a while share a claim (seconds). With half of it, claims of one or two deliveries took half of a
# worker's time at 200 events a second.
_GATHER_RINGS = 0.02
# After a failed statement or ring, before the next try (seconds).
_ERROR_PAUSE = 0.5
# A pump that is nearly full tells others what it cannot send, at most this often (seconds); one that has set endpoints
# aside, this often.
_HAND_ON_SECONDS = 0.02
_HAND_ON_ASIDE_SECONDS = 0.25
# On a machine that is out of files, memory, threads or ports nothing is claimed for this long (seconds), and slots come
# back only after so long without a shortage (seconds).
_SHORTAGE_PAUSE = 1
_SHORTAGE_OVER = 5
# Endpoints the sweep hands over at once.
_SWEEP_LIMIT = 2000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PumpOptions:
    """How one pump works; read from the settings by the task that runs it."""

    concurrency: int
    schedule: Sequence[int]
    lease_seconds: float
    renew_seconds: float
    sweep_seconds: float
    idle_seconds: float
    drain_seconds: float
    breaker: Breaker
    user_agent: str
    worker: str
    # Tells others on this machine when it has died (pump/process.py).
    process: str = ""


class Pump:
    """One run: made, run to its end, thrown away."""

    def __init__(
        self,
        *,
        pool: Pool,
        bell_client: "redis.asyncio.Redis",
        transport: httpx.AsyncBaseTransport,
        options: PumpOptions,
        traces: "Traces | None" = None,
    ) -> None:
        self._pool = pool
        self._listener = Listener(bell_client, sweep_seconds=options.sweep_seconds)
        self._transport = transport
        self._options = options
        # None while tracing is off.
        self._traces = traces
        self._lease_id = ids.new_uuid()
        self._stopping = asyncio.Event()
        self._slots = Slots(options.concurrency)
        self._turns = ReadyQueue(self._slots)
        # Leases of claims that failed: each with what else is in flight under it.
        self._retired_leases: dict[UUID, set[int]] = {}
        self._outcomes = UnwrittenOutcomes(
            pool, breaker=options.breaker, slots=self._slots, is_awaited=self._is_awaited
        )
        self._claimable = asyncio.Event()
        self._drained = asyncio.Event()
        self._over = False
        self._attempts: set[asyncio.Task[Any]] = set()
        self._handed_on_at = 0.0
        self._hand_on_timer: asyncio.TimerHandle | None = None
        self._given_back = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._busy_at = time.monotonic()
        self._short_until = 0.0
        self._clock_ahead = 0.0
        self._watch = sweep.LeaseWatch(lease_seconds=options.lease_seconds, renew_seconds=options.renew_seconds)

    def stop(self) -> None:
        """Claims no more; `run` returns once what is in flight has been settled."""
        self._stopping.set()
        self._claimable.set()
        self._outcomes.hurry()

    async def run(self) -> None:
        if not await self._unless_stopped(insist(self._pool, self._renew_lease), grace=0):
            return
        try:
            # A helper that breaks ends the run: better a new pump in a moment than one that only seems to work.
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(helper())
                    for helper in (
                        self._listen,
                        self._sweep,
                        self._renew,
                        self._settle,
                        self._watch_idle,
                    )
                ]
                try:
                    await self._unless_stopped(self._claim(), grace=_CLAIM_GRACE)
                    await self._drain()
                finally:
                    # Said as well as done: before Python 3.12, `asyncio.wait_for` now and then swallows a cancellation.
                    self._over = True
                    self._stopping.set()
                    for helper in helpers:
                        helper.cancel()
        finally:
            for task in self._attempts:
                task.cancel()
            # What is still in flight now goes out again at the next sweep, and is fenced from here.
            with suppress(psycopg.Error):
                async with self._pool.connection(seconds=_ERROR_PAUSE) as connection:
                    for lease_id in (self._lease_id, *self._retired_leases):
                        await close_lease(connection, lease_id=lease_id)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None], *, grace: float) -> bool:
        """Whether it ended by itself, or within so many seconds after `stop`: a database may never answer."""
        task, stopping = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            done, _ = await asyncio.wait([task], timeout=grace)
            for ended in done:
                ended.result()
            return bool(done)
        finally:
            task.cancel()
            stopping.cancel()

    async def _drain(self) -> None:
        """Every request ends by its own deadline; the rest is for a database that takes its time."""
        self._drained.clear()
        if self._slots.in_flight:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), self._options.drain_seconds)

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _claim(self) -> None:
        while not self._stopping.is_set():
            if (pause := self._short_until - time.monotonic()) > 0:
                await asyncio.sleep(pause)
                continue  # it may have been told to stop meanwhile
            turn = self._turns.next()
            self._note_room()
            if not turn.endpoint_ids:
                self._hand_on()
                self._claimable.clear()
                await self._claimable.wait()
                continue
            begun = time.monotonic()
            try:
                async with borrow(self._pool) as connection:
                    claimed = await claim(
                        connection,
                        endpoint_ids=turn.endpoint_ids,
                        lease_id=self._lease_id,
                        share=turn.share,
                        limit=turn.limit,
                    )
            except psycopg.Error as error:
                logger.warning("claim.failed", extra={"fields": {"error": repr(error)}})
                await self._start_over(turn.endpoint_ids)
                continue
            if claimed.deliveries:
                fail_points.reach("claim.after_commit")
            self._watch.answered()
            self._clock_ahead = claimed.clock_ahead
            if claimed.lease_is_over:
                # This process or the database was away for longer than a lease lasts.
                logger.warning("lease.ran_out")
                await insist(self._pool, self._renew_lease)
                self._make_ready(turn.endpoint_ids)
                continue
            self._start(claimed.deliveries, claim_seconds=time.monotonic() - begun)
            passed_over = self._turns.over(turn, claimed)
            self._note_room()
            if self._is_awaited():
                self._outcomes.hurry()
            self._come_back(claimed.closed)
            self._ask_again(passed_over)
            self._hand_on()
            if claimed.deliveries and self._turns.ready and self._slots.is_nearly_full:
                await self._let_slots_gather()

    async def _let_slots_gather(self) -> None:
        """A slot or two are not worth a claim of their own, and most others are free in a moment."""
        self._given_back.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._given_back.wait(), _GATHER_SLOTS)

    async def _start_over(self, endpoint_ids: Iterable[UUID]) -> None:
        """A failed claim may have been committed all the same, and nobody knows of what.

        So its lease ends as soon as everything else under it is settled, and the sweep puts back what is left.
        """
        self._retired_leases[self._lease_id] = self._slots.snapshot()
        self._lease_id = ids.new_uuid()
        await asyncio.sleep(_ERROR_PAUSE)
        await insist(self._pool, self._renew_lease)
        self._make_ready(endpoint_ids)

    def _hand_on(self) -> None:
        """Hardly a slot is left, but there is more to send: other pumps hear of it now instead of from the next sweep.

        They hear of those set aside too, though seldom: whoever hears them may be this pump again.
        """
        if self._hand_on_timer is not None:
            self._hand_on_timer.cancel()
        if self._stopping.is_set() or not (self._slots.is_nearly_full or self._turns.aside):
            return
        waiting, pause = self._turns.aside, _HAND_ON_ASIDE_SECONDS
        if self._slots.is_nearly_full:
            if self._turns.ready:
                waiting, pause = self._turns.ready, _HAND_ON_SECONDS
            # And again, because no claim comes to do it where all that is in flight hangs.
            self._hand_on_timer = asyncio.get_running_loop().call_later(_HAND_ON_SECONDS, self._hand_on)
        now = time.monotonic()
        if waiting and self._listener.works and now - self._handed_on_at >= pause:
            self._handed_on_at = now
            self._begin(self._listener.hand_on(list(islice(waiting, PER_CLAIM))))

    def _start(self, deliveries: Sequence[Claimed], *, claim_seconds: float) -> None:
        self._slots.take(deliveries)
        if deliveries:
            self._busy_at = time.monotonic()
        span = self._traces.claimed(deliveries, seconds=claim_seconds) if self._traces else None
        for delivery in deliveries:
            self._begin(self._attempt(delivery, span))

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._attempts.add(task)
        task.add_done_callback(self._attempts.discard)

    def _ask_again(self, endpoint_ids: Sequence[UUID]) -> None:
        if endpoint_ids:
            asyncio.get_running_loop().call_later(_PASSED_OVER_PAUSE, self._make_ready, endpoint_ids)

    def _come_back(self, closed: Mapping[UUID, float]) -> None:
        """A lane that opens before the next sweep is not left to it: a rate limit closes one many times a second."""
        for endpoint_id, seconds in closed.items():
            if seconds <= self._options.sweep_seconds:
                asyncio.get_running_loop().call_later(seconds, self._make_ready, [endpoint_id])

    def _make_ready(self, endpoint_ids: Iterable[UUID]) -> None:
        self._turns.add(endpoint_ids)
        self._look()

    def _look(self) -> None:
        """For the claiming: somebody may be ready, or a slot free."""
        self._claimable.set()
        self._note_room()

    def _note_room(self) -> None:
        """For the listener, wherever slots or turns have changed."""
        if self._turns.wanted() > 0:
            self._roomy.set()
        else:
            self._roomy.clear()

    async def _attempt(self, delivery: Claimed, claim_span: "Span | None") -> None:
        trace = self._traces.attempt(delivery, claim_span) if self._traces else None
        outcome = await attempt(
            trace.delivery if trace else delivery,
            transport=self._transport,
            schedule=self._options.schedule,
            user_agent=self._options.user_agent,
            is_well=self._outcomes.is_well,
            clock_ahead=self._clock_ahead,
        )
        if trace:
            trace.end(outcome)
        if outcome.error_kind == SHORTAGE:
            self._slow_down(outcome.error_detail or "")
        self._outcomes.add(delivery, outcome, is_awaited=delivery.endpoint_id in self._turns.full)

    def _slow_down(self, detail: str) -> None:
        """This machine cannot send as much as we claim. Once for all who find out in the same moment."""
        now = time.monotonic()
        if now < self._short_until:
            return
        self._short_until = now + _SHORTAGE_PAUSE
        self._slots.shrink()
        fields = {"detail": detail, "in_flight": self._slots.in_flight, "slots": self._slots.count}
        logger.error("pump.shortage", extra={"fields": fields})

    def _speed_up(self) -> None:
        if self._slots.is_shrunk and time.monotonic() > self._short_until + _SHORTAGE_OVER:
            self._slots.grow()
            self._look()

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _settle(self) -> None:
        while not self._over:
            written = await self._outcomes.write_next()
            self._busy_at = time.monotonic()
            given_back = self._slots.give_back(written.batch)
            for still_held in self._retired_leases.values():
                still_held -= given_back
            self._given_back.set()
            if not self._slots.in_flight:
                self._drained.set()
            self._turns.settled({delivery.endpoint_id for delivery, _ in written.batch})
            self._make_ready(written.unblocked)

    def _is_awaited(self) -> bool:
        """Whether the next request waits for a slot, which is free once an outcome is written."""
        return self._slots.is_nearly_full or self._stopping.is_set() or self._outcomes.has_any_of(self._turns.full)

    # ── helpers that run beside ──────────────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        while not self._stopping.is_set():
            await self._roomy.wait()
            if self._stopping.is_set():
                return
            heard = await self._listener.hear(self._turns.wanted)
            if heard and self._stopping.is_set():
                await self._listener.share(heard)  # for others: this pump claims no more
            elif heard:
                self._turns.heard(heard)
                self._look()
                # Where slots are few, those at hand would have all the turns until a long pause is over.
                few = min(1, self._slots.count / PER_CLAIM)
                await asyncio.sleep(_GATHER_RINGS * few)

    async def _sweep(self) -> None:
        """At once, and then again and again. One that was told to stop leaves it to others, who can send it."""
        while not self._stopping.is_set():
            try:
                if await self._listener.is_my_turn():
                    await self._sweep_for_all()
            except psycopg.Error as error:
                logger.warning("sweep.failed", extra={"fields": {"error": repr(error)}})
            await asyncio.sleep(self._options.sweep_seconds)
            self._speed_up()

    async def _sweep_for_all(self) -> None:
        """What one pump finds, all share."""
        plenty = await self._listener.has_plenty(at_hand=len(self._turns.ready))
        async with borrow(self._pool) as connection:
            await sweep.recover_lost(
                connection,
                schedule=list(self._options.schedule),
                breaker=self._options.breaker,
                believes=self._watch.believes,
            )
            due = [] if plenty else await sweep.due_endpoints(connection, limit=_SWEEP_LIMIT)
        if due and not await self._listener.share(due):
            self._make_ready(due)

    async def _renew(self) -> None:
        """A renewal without an answer is given up in time for the next one: the lease would run out meanwhile."""
        pause = self._options.renew_seconds
        while not self._over:
            await asyncio.sleep(pause)
            try:
                async with borrow(self._pool, seconds=self._options.renew_seconds) as connection:
                    await self._renew_lease(connection)
                    self._watch.answered()
                    await self._end_retired_leases(connection)
                pause = self._options.renew_seconds
            except psycopg.Error as error:
                logger.warning("lease.failed", extra={"fields": {"error": repr(error)}})
                pause = _ERROR_PAUSE

    async def _end_retired_leases(self, connection: psycopg.AsyncConnection) -> None:
        for lease_id, still_held in list(self._retired_leases.items()):
            if still_held:
                await self._renew_lease(connection, lease_id)
            else:
                await close_lease(connection, lease_id=lease_id)
                del self._retired_leases[lease_id]

    async def _renew_lease(self, connection: psycopg.AsyncConnection, lease_id: UUID | None = None) -> None:
        await renew_lease(
            connection,
            lease_id=lease_id or self._lease_id,
            worker=self._options.worker,
            process=self._options.process,
            seconds=self._options.lease_seconds,
        )

    async def _watch_idle(self) -> None:
        """Without Redis no message could start a pump again, so this one stays."""
        while not self._over:
            await asyncio.sleep(self._options.idle_seconds / 4)
            idle = time.monotonic() - self._busy_at > self._options.idle_seconds
            if idle and self._listener.works and not self._slots.in_flight and not self._turns.ready:
                self.stop()
