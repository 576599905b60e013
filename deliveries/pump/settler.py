"""Part of deliver: outcomes gather here, and are settled together.

While one settlement is written, the outcomes of the next one gather. Nobody waits for most of them, so they wait for
each other a moment; where a slot or an ordering key waits, they are written at once.

Somebody may hold a row that an outcome needs: an endpoint's lane, an ordering key, the delivery itself. Such outcomes
are set aside and tried again a few times a second, apart from the others, who never wait for them. They keep their
slots, so there are never more of them than requests in flight.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
from psycopg.errors import LockNotAvailable

from deliveries.claim import Claimed
from deliveries.health.breaker import Breaker
from deliveries.pump.database import insist
from deliveries.pump.pool import Pool
from deliveries.pump.release import UNSENT, release
from deliveries.pump.slots import Slots
from deliveries.settle import Outcome, Settled, settle
from subscriptions import ids
from subscriptions.process import fail_points

# Outcomes of such a while share a settlement, unless somebody waits for one of them (seconds). With few requests in
# flight there are few to share with, and sooner written is less sent twice should this process be killed.
_GATHER_SECONDS = 0.05
_GATHER_FEW_SECONDS = 0.02
_FEW = 20
# Outcomes that were set aside are tried again after this long (seconds).
_ASIDE_SECONDS = 0.1
# How much later than asked for a timer is set, so that it does not ring too early.
_TIMER_SLACK_SECONDS = 0.002
# So few that a pipe takes them in one piece (4 KiB), whoever else writes to it: a line has 900 bytes at most.
_LINES_AT_ONCE = 4

logger = logging.getLogger(__name__)

Batch = list[tuple[Claimed, Outcome]]

_NOTHING = Settled(moved=set(), unblocked=set())


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    batch: Batch
    # Endpoints with something new to send: the next of an ordering key.
    unblocked: set[UUID]


class UnwrittenOutcomes:
    """What became of a pump's requests and is not in the database yet. Filled by attempts, emptied by the pump."""

    def __init__(self, pool: Pool, *, breaker: Breaker, slots: Slots, is_awaited: Callable[[], bool]) -> None:
        self._pool = pool
        self._slots = slots
        self._breaker = breaker
        self._is_awaited = is_awaited
        self._waiting: deque[tuple[Claimed, Outcome]] = deque()
        self._any = asyncio.Event()
        self._hurry = asyncio.Event()
        self._aside: list[tuple[Claimed, Outcome]] = []
        self._try_aside_at = 0.0
        self._ailing: set[UUID] = set()  # failed here since they last succeeded here

    def add(self, delivery: Claimed, outcome: Outcome, *, is_awaited: bool) -> None:
        self._waiting.append((delivery, outcome))
        self._any.set()
        if is_awaited or outcome.ordering:
            self._hurry.set()

    def has_any_of(self, endpoint_ids: set[UUID]) -> bool:
        return bool(endpoint_ids) and any(delivery.endpoint_id in endpoint_ids for delivery, _ in self._waiting)

    def hurry(self) -> None:
        """Somebody waits for what is here."""
        self._hurry.set()

    def is_well(self, delivery: Claimed) -> bool:
        """A success claimed before its endpoint failed here ends that run of failures all the same."""
        return delivery.is_well and delivery.endpoint_id not in self._ailing

    async def write_next(self) -> WrittenBatch:
        """Waits for outcomes, for as many as come within a moment, and for the database."""
        await self._any.wait()
        await self._gather()
        self._any.clear()
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if self._aside:
            batch = self._without_those_behind_others(batch)
        fail_points.reach("settle.before_write")
        settled = await self._settled([outcome for _, outcome in batch]) if batch else _NOTHING
        written = self._without_set_aside(batch, settled)
        if self._aside and (seconds := self._try_aside_at - time.monotonic()) > 0:
            # A timer may ring a little early (uvloop counts whole milliseconds), and nothing else may ever come.
            asyncio.get_running_loop().call_later(seconds + _TIMER_SLACK_SECONDS, self._any.set)
        elif self._aside:
            aside, self._aside = self._aside, []
            more = await self._settled([outcome for _, outcome in aside], past_locks=True)
            written += self._without_set_aside(aside, more)
            settled = _merged([settled, more])
        for _, outcome in written:
            self._remember_health(outcome)
        _log([(delivery, outcome) for delivery, outcome in written if outcome.error_kind not in UNSENT], settled.moved)
        return WrittenBatch(written, settled.unblocked)

    def _without_those_behind_others(self, batch: Batch) -> Batch:
        """Outcomes of an endpoint that waits already join it: the lock would be met again, and all would wait."""
        held = {delivery.endpoint_id for delivery, _ in self._aside}
        self._aside += [each for each in batch if each[0].endpoint_id in held]
        return [each for each in batch if each[0].endpoint_id not in held]

    def _without_set_aside(
        self, batch: list[tuple[Claimed, Outcome]], settled: Settled
    ) -> list[tuple[Claimed, Outcome]]:
        if not settled.set_aside:
            return batch
        aside = [each for each in batch if (each[0].id, each[0].number) in settled.set_aside]
        self._aside += aside
        self._try_aside_at = time.monotonic() + _ASIDE_SECONDS
        asyncio.get_running_loop().call_later(_ASIDE_SECONDS, self._any.set)
        return [each for each in batch if (each[0].id, each[0].number) not in settled.set_aside]

    async def _gather(self) -> None:
        if not self._is_awaited() and not any(outcome.ordering for _, outcome in self._waiting):
            self._hurry.clear()
            seconds = _GATHER_FEW_SECONDS if self._slots.in_flight <= _FEW else _GATHER_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), seconds)

    async def _settled(self, outcomes: list[Outcome], *, past_locks: bool = False) -> Settled:
        unsent = [outcome for outcome in outcomes if outcome.error_kind in UNSENT]
        if not unsent:
            return await (self._settled_past_locks(outcomes) if past_locks else self._settled_sent(outcomes))
        sent = [outcome for outcome in outcomes if outcome.error_kind not in UNSENT]
        released = await self._released(unsent)
        return _merged([released, await self._settled(sent, past_locks=past_locks)]) if sent else released

    async def _released(self, outcomes: list[Outcome]) -> Settled:
        try:
            await insist(self._pool, partial(release, outcomes=outcomes))
        except LockNotAvailable:
            return _all_aside(outcomes)
        return _NOTHING

    async def _settled_sent(self, outcomes: list[Outcome]) -> Settled:
        try:
            return await insist(self._pool, partial(settle, outcomes=outcomes, breaker=self._breaker))
        except LockNotAvailable:
            settled = await self._settled_past_locks(outcomes)
            endpoints = len({o.endpoint_id for o in outcomes if (o.delivery_id, o.number) in settled.set_aside})
            fields = {"outcomes": len(settled.set_aside), "endpoints": endpoints}
            logger.warning("settle.set_aside", extra={"fields": fields})
            return settled
        except psycopg.Error:
            # One of them holds something the database will not take. Alone, each stands for itself.
            logger.exception("settle.refused", extra={"fields": {"outcomes": len(outcomes)}})
            if len(outcomes) == 1:
                bare = [outcomes[0]._replace(request_headers=(), response_headers=None, response_body=None)]
                return await insist(self._pool, partial(settle, outcomes=bare, breaker=self._breaker))
            return _merged([await self._settled_sent([outcome]) for outcome in outcomes])

    async def _settled_past_locks(self, outcomes: list[Outcome]) -> Settled:
        """Waits for no row that somebody holds, but for the next of an ordering key: then each endpoint is alone."""
        run = partial(settle, outcomes=outcomes, breaker=self._breaker, skip_locked=True)
        try:
            return await insist(self._pool, run)
        except LockNotAvailable:
            by_endpoint: dict[UUID, list[Outcome]] = defaultdict(list)
            for outcome in outcomes:
                by_endpoint[outcome.endpoint_id].append(outcome)
            if len(by_endpoint) == 1:
                return _all_aside(outcomes)
            return _merged([await self._settled_past_locks(each) for each in by_endpoint.values()])

    def _remember_health(self, outcome: Outcome) -> None:
        if outcome.signal is None or outcome.signal.succeeded is None:
            return
        if outcome.signal.succeeded:
            self._ailing.discard(outcome.endpoint_id)
        else:
            self._ailing.add(outcome.endpoint_id)


def _all_aside(outcomes: Sequence[Outcome]) -> Settled:
    return replace(_NOTHING, set_aside=frozenset((outcome.delivery_id, outcome.number) for outcome in outcomes))


def _merged(parts: Sequence[Settled]) -> Settled:
    return Settled(
        moved=set().union(*(part.moved for part in parts)),
        unblocked=set().union(*(part.unblocked for part in parts)),
        set_aside=frozenset().union(*(part.set_aside for part in parts)),
    )


def _log(batch: Batch, moved: set[tuple[UUID, int]]) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    for start in range(0, len(batch), _LINES_AT_ONCE):
        lines = [_line(*each, moved) for each in batch[start : start + _LINES_AT_ONCE]]
        logger.info("delivery.attempted", extra={"fields": lines})


def _line(delivery: Claimed, outcome: Outcome, moved: set[tuple[UUID, int]]) -> dict[str, Any]:
    trace = {"trace_id": delivery.traceparent[3:35]} if delivery.traceparent else {}
    return {
        "delivery": ids.show("dlv", delivery.id),
        "event": delivery.producer_id or ids.show("evt", delivery.event_id),
        "endpoint": ids.show_often("ep", delivery.endpoint_id),
        "event_type": delivery.event_type,
        "attempt": delivery.number,
        "status_code": outcome.status_code,
        "error_kind": outcome.error_kind,
        "duration_ms": outcome.duration_ms,
        "verdict": type(outcome.verdict).__name__,
        "fenced": (delivery.id, delivery.number) not in moved,
        **trace,
    }
