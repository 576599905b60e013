"""`/healthz`: this process is alive. `/readyz`: the database and the broker answer too, and Redis where it is not the
broker.

`/readyz` also says by how many seconds the clock of this process or of a worker differs from the database's, where that
is more than one. That alone makes nobody unready: everything is due by the database's clock.
"""

import time
from collections.abc import Callable

import orjson
from celery import current_app
from django.db import connection
from django.http import HttpRequest, HttpResponse

from deliveries import bell
from deliveries.sql import clock

READ_CLOCKS = """
    SELECT extract(epoch FROM clock_timestamp())::float8, min(clock_ahead_ms), max(clock_ahead_ms)
    FROM deliveries_pulse WHERE at > now() - interval '15 seconds'
"""
"""The database's clock, and how far those of living workers are behind and ahead of it."""


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b'{"status": "ok"}', content_type="application/json")


def readyz(request: HttpRequest) -> HttpResponse:
    checks = {"database": _answers(_ask_database), "broker": _answers(_ask_broker)}
    if _is_another_broker():
        checks["redis"] = _answers(_ask_redis)
    ready = all(checks.values())
    body = {"status": "ok" if ready else "unavailable", **{name: "ok" if ok else "down" for name, ok in checks.items()}}
    if checks["database"]:
        off = worst_clock()
        body["clock"] = "ok" if abs(off) <= clock.TOLERATED_SECONDS else f"differs by {off:+.1f} s"
    return HttpResponse(orjson.dumps(body), status=200 if ready else 503, content_type="application/json")


def _answers(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except Exception:  # Whatever it is, the answer is "not ready"; the logs of the component say why.
        return False
    return True


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def worst_clock(read_clock: Callable[[], float] = time.time) -> float:
    """How many seconds the clock that differs most is ahead of the database's: this process's, or a living worker's."""
    before = read_clock()
    with connection.cursor() as cursor:
        cursor.execute(READ_CLOCKS)
        [database, behind_ms, ahead_ms] = cursor.fetchone() or [before, 0, 0]
    own = clock.ahead(before=before, database=database, after=read_clock())
    return max([own, (behind_ms or 0) / 1000, (ahead_ms or 0) / 1000], key=abs)


def _is_another_broker() -> bool:
    return not current_app.conf.broker_url.startswith(("redis", "unix"))


def _ask_broker() -> None:
    if _is_another_broker():
        # Given up after CELERY_BROKER_CONNECTION_TIMEOUT.
        with current_app.connection_for_write() as broker:
            broker.connect()
    else:
        _ask_redis()


def _ask_redis() -> None:
    client = bell.connect()
    try:
        client.ping()
    finally:
        client.close()
