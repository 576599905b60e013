"""What Celery runs. `deliver_due` is the pump, alone on its queue; the rest is short and lives in `background`."""

import asyncio
import gc
import logging
import os
import resource
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any
from uuid import UUID

import redis.asyncio
import redis.exceptions
import uvloop
from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings

from deliveries import bell, replay, sweep
from deliveries.deliver import Pump, PumpOptions
from deliveries.health.breaker import Breaker
from deliveries.pump import database, held_messages, process
from deliveries.pump.pool import Pool
from deliveries.pump.transport import GuardedTransport
from deliveries.replaying import results
from deliveries.sql import clock
from deliveries.statistics import rollup, totals
from deliveries.upkeep import announce, heartbeat, mail, overdue, retention
from subscriptions.guards.targets import policy
from subscriptions.limits.answer_deadline import AsyncBoundedConnection

if TYPE_CHECKING:
    from deliveries.tracing.attempts import Traces

logger = logging.getLogger(__name__)

_SWEEP_LIMIT = 10_000
# A pump that has not ended so long after its time to drain is left behind (seconds).
_GIVE_UP_AFTER = 15


def one_at_a_time(work: Callable[[], None]) -> Callable[[], None]:
    """For tasks that are started again and again, and do what the last one left: in one process, one that is started
    while another is under way does nothing. So none of them holds all threads of the worker, however long it takes."""
    under_way = threading.Lock()

    @wraps(work)
    def alone() -> None:
        if under_way.acquire(blocking=False):
            try:
                work()
            finally:
                under_way.release()

    return alone


@shared_task(name=bell.PUMP, ignore_result=True)
def deliver_due() -> None:
    """Delivers until there has been nothing to do for a moment."""
    engine().run()


@shared_task(name="deliveries.sweep", ignore_result=True)
def sweep_due() -> None:
    """Wakes the pumps for due work that no message announced, puts back what dead workers held, starts what waits."""
    heartbeat.beat_ran()
    _watch().answered()
    for waits, task in zip(sweep.chores_waiting(), (advance_replays, announce_notices), strict=True):
        if waits:
            task.apply_async(retry=False, expiration=10)  # type: ignore[call-arg]  # kombu knows it
    if _is_swept_by_pumps():
        return
    if sweep.anything_lost():
        asyncio.run(_recover_lost(believes=_watch().believes))
    endpoint_ids = sweep.due_endpoints_now(limit=_SWEEP_LIMIT)
    if endpoint_ids:
        try:
            bell.ring_now(endpoint_ids, client=_bell_client())
        except redis.exceptions.RedisError as error:
            logger.warning("bell.missed", extra={"fields": {"endpoints": len(endpoint_ids), "error": repr(error)}})


@shared_task(name="deliveries.advance_replays", ignore_result=True)
@one_at_a_time
def advance_replays() -> None:
    """Moves running replay jobs on."""
    replay.advance_all()


@shared_task(name="deliveries.take_care", ignore_result=True)
@one_at_a_time
def take_care() -> None:
    """Expires, warns, disables and buries what time has come for."""
    overdue.expire_late(default_schedule=settings.DELIVERY_RETRY_SCHEDULE)
    overdue.watch_failing()
    overdue.bury_orphans()
    overdue.drop_old_leases()
    overdue.advance_feed_horizon()
    results.count_over()


@shared_task(name="deliveries.upkeep.announce", ignore_result=True)
@one_at_a_time
def announce_notices() -> None:
    """Tells operators and consumers what happened to endpoints and deliveries."""
    announce.announce_next()


@shared_task(name="deliveries.upkeep.mail", ignore_result=True)
@one_at_a_time
def send_mail() -> None:
    """Sends what recipients of mail are owed."""
    mail.send_due()


@shared_task(name="deliveries.fold_counts", ignore_result=True)
@one_at_a_time
def fold_counts() -> None:
    """Adds up what was counted, for /metrics and the charts."""
    totals.fold()


@shared_task(name="deliveries.forget", ignore_result=True)
@one_at_a_time
def forget() -> None:
    """Forgets what has been kept for as long as the settings say; statistics are summed up before."""
    days = retention.Days(
        attempts=settings.RETENTION_ATTEMPT_DAYS,
        payloads=settings.RETENTION_PAYLOAD_DAYS,
        delivered=settings.RETENTION_DELIVERED_DAYS,
        dead=settings.RETENTION_DEAD_DAYS,
        audit_entries=settings.RETENTION_AUDIT_DAYS,
        deleted_endpoints=settings.RETENTION_DELETED_ENDPOINT_DAYS,
    )
    now = clock.now()
    logger.info("retention.forgotten", extra={"fields": retention.forget(days, now=now)})
    rollup.sum_up(now=now)
    rollup.forget(kept_days=settings.RETENTION_STATISTICS_DAYS, now=now)
    totals.forget(kept_days=settings.RETENTION_STATISTICS_DAYS, now=now)


def _is_swept_by_pumps() -> bool:
    """A running pump does all of this itself, for everybody. A mark that lasts longer was left by another clock."""
    try:
        return bool(0 < _bell_client().pttl(bell.SWEPT) <= settings.DELIVERY_SWEEP_SECONDS * 1000)
    except redis.exceptions.RedisError:
        return False


def put_back_of_ended_leases() -> None:
    """What was held under leases that somebody has ended is due again, and pumps hear of it now, not from a sweep.

    Leases that have run out are left to the sweep, which knows when to believe them."""
    bell.ring(asyncio.run(_recover_lost(believes=lambda: False)))
    bell.ask_for_pump()


async def _recover_lost(*, believes: Callable[[], bool]) -> list[UUID]:
    """Returns the endpoints with something to send, if anything was lost."""
    async with await AsyncBoundedConnection.connect(database.conninfo(), **database.session()) as connection:
        schedule = settings.DELIVERY_RETRY_SCHEDULE
        recovered = await sweep.recover_lost(connection, schedule=schedule, breaker=breaker(), believes=believes)
        return await sweep.due_endpoints(connection, limit=_SWEEP_LIMIT) if recovered else []


@lru_cache(maxsize=1)
def _watch() -> sweep.LeaseWatch:
    lease_seconds, renew_seconds = settings.DELIVERY_LEASE_SECONDS, settings.DELIVERY_LEASE_RENEW_SECONDS
    return sweep.LeaseWatch(lease_seconds=lease_seconds, renew_seconds=renew_seconds)


@lru_cache(maxsize=1)
def _bell_client() -> Any:
    return bell.connect()


class Engine:
    """What a worker process keeps for life: one event loop, one database pool, one transport."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._pump: Pump | None = None
        self._stopping = False
        self._lock = threading.Lock()
        self._given_up = asyncio.Event()
        self._kept: _Kept | None = None

    def run(self) -> None:
        if not self._stopping:
            self._loop.run_until_complete(self._run())

    def stop(self) -> None:
        """Called from the worker's main thread, while the pump runs in another."""
        with self._lock:
            self._stopping = True
            if self._pump is not None:
                self._loop.call_soon_threadsafe(self._stop_pump, self._pump)

    def _stop_pump(self, pump: Pump) -> None:
        pump.stop()
        self._loop.call_later(settings.DELIVERY_DRAIN_SECONDS + _GIVE_UP_AFTER, self._given_up.set)

    async def _run(self) -> None:
        if self._kept is None:
            self._kept = _keep()
        pump = Pump(
            pool=self._kept.pool,
            bell_client=self._kept.bell_client,
            transport=self._kept.transport,
            options=options(),
            traces=self._kept.traces,
        )
        with self._lock:
            if self._stopping:
                return
            self._pump = pump
        running, given_up = asyncio.ensure_future(pump.run()), asyncio.ensure_future(self._given_up.wait())
        try:
            await asyncio.wait([running, given_up], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            else:
                # A database that took a statement and never answers: what was in flight goes out again elsewhere.
                logger.error("pump.abandoned")
        finally:
            given_up.cancel()
            with self._lock:
                self._pump = None


@dataclass(frozen=True, slots=True)
class _Kept:
    pool: Pool
    bell_client: Any
    transport: GuardedTransport
    traces: "Traces | None"


def _keep() -> _Kept:
    # A connection is a file, and the usual limit of 1,024 is for programs that have a few.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What was imported stays: the collector need not look at it again for every few hundred requests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    return _Kept(
        pool=database.new_pool(),
        # How long each question may take, the listener says (pump/listener.py).
        bell_client=redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=2),
        transport=GuardedTransport(policy=policy(), proxy_url=settings.DELIVERY_PROXY_URL or None),
        traces=_traces(),
    )


def _traces() -> "Traces | None":
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return None
    from deliveries.tracing.attempts import of_this_process

    return of_this_process()


def options() -> PumpOptions:
    return PumpOptions(
        concurrency=settings.DELIVERY_CONCURRENCY,
        schedule=settings.DELIVERY_RETRY_SCHEDULE,
        lease_seconds=settings.DELIVERY_LEASE_SECONDS,
        renew_seconds=settings.DELIVERY_LEASE_RENEW_SECONDS,
        sweep_seconds=settings.DELIVERY_SWEEP_SECONDS,
        idle_seconds=settings.DELIVERY_IDLE_SECONDS,
        drain_seconds=settings.DELIVERY_DRAIN_SECONDS,
        breaker=breaker(),
        user_agent=settings.DELIVERY_USER_AGENT,
        worker=f"{socket.gethostname()}:{os.getpid()}",
        process=process.identity(),
    )


def breaker() -> Breaker:
    return Breaker(
        failures=settings.BREAKER_FAILURES,
        first_cooldown=settings.BREAKER_COOLDOWN_SECONDS,
        longest_cooldown=settings.BREAKER_MAX_COOLDOWN_SECONDS,
    )


@lru_cache(maxsize=1)
def engine() -> Engine:
    return Engine()


@worker_ready.connect
def _begin_heartbeat(sender: Any, **_: Any) -> None:
    heartbeat.begin(str(sender.hostname), put_back=put_back_of_ended_leases, stand_in=fold_counts)


@worker_shutting_down.connect
def _stop_pump(**_: Any) -> None:
    engine().stop()


held_messages.acknowledge_in_time()
