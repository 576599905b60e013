"""Who is alive: each worker process says so every few seconds, in the database, which the console reads anyway.

A pump ends when there is nothing to do and its lease with it, so leases alone cannot tell an idle worker from a dead
one. Beat's heartbeat is the sweep's: a task that beat sent, the broker carried and a background worker ran.

Each process also looks, every second, whether others on this machine have died. It ends their leases and puts back what
they held, which goes out at once instead of when the lease has run out.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from celery.signals import worker_shutting_down
from django.db import connection as django_connection

from deliveries.claim import end_leases_of_the_dead
from deliveries.pump import database, process
from deliveries.sql import clock
from subscriptions.limits.answer_deadline import BoundedConnection

BEAT = "beat"
EVERY_SECONDS = 5.0
# How often the processes of this machine are looked at (seconds).
_LOOK_SECONDS = 1.0
# After so long without beat, other workers do what must not be left undone (seconds).
SILENT_SECONDS = 30
# After a failure, before the next try (seconds).
_ERROR_PAUSE = 1.0

WRITE_HEARTBEAT = """
    INSERT INTO deliveries_pulse (name, at, clock_ahead_ms) VALUES (%(name)s, now(), %(clock_ahead_ms)s)
    ON CONFLICT (name) DO UPDATE SET at = now(), clock_ahead_ms = excluded.clock_ahead_ms
"""
"""Says that somebody is alive, and how far its clock is ahead of the database's."""

FORGET_SILENT = "DELETE FROM deliveries_pulse WHERE at < now() - interval '1 hour'"
"""Forgets processes of deployments gone by."""

SAY_GOODBYE = "DELETE FROM deliveries_pulse WHERE name = %(name)s"
"""A process that ends in order is not missed."""

IS_BEAT_SILENT = """
    SELECT NOT EXISTS (
        SELECT FROM deliveries_pulse WHERE name = %(name)s AND at > now() - %(seconds)s * interval '1 second'
    )
"""
"""Whether no task of beat's has run for so long."""

logger = logging.getLogger(__name__)

_ended = threading.Event()
_last_beat_at = 0.0


def beat_ran() -> None:
    """Called by the sweep's task."""
    global _last_beat_at
    if time.monotonic() - _last_beat_at >= EVERY_SECONDS:
        _last_beat_at = time.monotonic()
        with django_connection.cursor() as cursor:
            # Beat's own clock is not known here: only that its message came.
            cursor.execute(WRITE_HEARTBEAT, {"name": BEAT, "clock_ahead_ms": 0})


def beat_once(connection: psycopg.Connection, *, name: str, read_clock: Callable[[], float] = time.time) -> float:
    """Says that this process is alive. Returns how far its clock is ahead of the database's (seconds)."""
    before = read_clock()
    [database] = connection.execute(clock.READ).fetchone() or [before]
    ahead = clock.ahead(before=before, database=database, after=read_clock())
    if abs(ahead) > clock.TOLERATED_SECONDS:
        logger.warning("clock.differs", extra={"fields": {"process": name, "ahead_seconds": round(ahead, 3)}})
    connection.execute(WRITE_HEARTBEAT, {"name": name, "clock_ahead_ms": round(ahead * 1000)})
    return ahead


def is_beat_silent(connection: psycopg.Connection) -> bool:
    row = connection.execute(IS_BEAT_SILENT, {"name": BEAT, "seconds": SILENT_SECONDS}).fetchone()
    return bool(row and row[0])


def begin(name: str, *, put_back: Callable[[], None], stand_in: Callable[[], None]) -> None:
    """Called once by each worker process, when it is ready. `put_back` is called after leases of the dead were ended,
    `stand_in` every few seconds while nothing is heard of beat or of a worker that runs what it sends.

    A thread of its own, so that nothing a worker does can delay it.
    """
    threading.Thread(target=_run, args=[name, put_back, stand_in], name="heartbeat", daemon=True).start()


@worker_shutting_down.connect
def _end(**_: Any) -> None:
    _ended.set()


def _run(name: str, put_back: Callable[[], None], stand_in: Callable[[], None]) -> None:
    while not _ended.is_set():
        # One connection for as long as it lasts: a new one each time would be most of what an idle worker costs.
        try:
            with BoundedConnection.connect(database.conninfo(), **database.session(), connect_timeout=3) as connection:
                _beat_until_ended(connection, name, put_back, stand_in)
                connection.execute(SAY_GOODBYE, {"name": name})
        except psycopg.Error as error:  # A database that is away has louder messengers.
            logger.debug("heartbeat.missed", extra={"fields": {"error": repr(error)}})
            _ended.wait(_ERROR_PAUSE)


def _beat_until_ended(
    connection: psycopg.Connection, name: str, put_back: Callable[[], None], stand_in: Callable[[], None]
) -> None:
    next_beat_at = 0.0
    while not _ended.is_set():
        if end_leases_of_the_dead(connection, place=process.place(), is_dead=process.is_dead):
            do_beside(put_back)
        if time.monotonic() >= next_beat_at:
            next_beat_at = time.monotonic() + EVERY_SECONDS
            beat_once(connection, name=name)
            connection.execute(FORGET_SILENT)
            if is_beat_silent(connection):
                do_beside(stand_in)
        _ended.wait(_LOOK_SECONDS)


def do_beside(work: Callable[[], None]) -> None:
    """Work that the heartbeat's thread does for others: its failure ends no heartbeat, and leaves no connection behind.

    What was not done is done when it is looked at again, or by a sweep."""
    try:
        work()
    except Exception as error:
        logger.warning("heartbeat.work_failed", extra={"fields": {"error": repr(error)}})
    finally:
        django_connection.close()
