"""A second database on the same server, with the same endpoints, that carries a burden the first one does not.

So "with" and "without" can take turns within one run, on one server, in the same minutes.
"""

from collections.abc import Callable
from typing import Any

import psycopg

from benchmarks.load.preload import PreloadedEndpoint, add_endpoints, database, empty
from benchmarks.measure.drain import drain
from benchmarks.report.figures import paired, spread, take_turns
from benchmarks.report.progress import say
from benchmarks.stand import Stand

NAME = "laden"
ENDPOINTS = 20


def with_and_without(
    bench: Stand, *, fill: Callable[[psycopg.Connection, list[PreloadedEndpoint]], None], turns: int, count: int
) -> dict[str, Any]:
    """Drains on a database that `fill` has burdened, and on one that it has not, in turns; one worker each."""
    empty(bench)
    targets = add_endpoints(
        name="laden", count=ENDPOINTS, url=f"{bench.receiver_url}/laden/{{number}}", max_in_flight=100
    )
    _copy(bench)
    try:
        with database(bench, NAME) as connection:
            connection.execute("SET synchronous_commit = off")
            fill(connection, targets)
        for name in ("webhooks", NAME):
            with database(bench, name) as connection:
                connection.execute("VACUUM ANALYZE")
                connection.execute("CHECKPOINT")
        seen: dict[str, list[Any]] = {"webhooks": [], NAME: []}
        for turn in range(turns):
            for name, drains in take_turns(list(seen.items()), turn):
                drains.append(drain(bench, targets, count=count, workers=1, database_name=name))
            shown = f"without {seen['webhooks'][-1].rate:,.0f}/s, with {seen[NAME][-1].rate:,.0f}/s"
            say(f"pair {turn + 1}: {shown}, worker {seen[NAME][-1].memory_mib:.0f} MiB")
    finally:
        _drop(bench)
    return _summary(seen["webhooks"], seen[NAME])


def _summary(without: list[Any], laden: list[Any]) -> dict[str, Any]:
    return {
        "without": spread([one.rate for one in without]),
        "with": spread([one.rate for one in laden]),
        "ratio": paired([one.rate for one in laden], [one.rate for one in without]),
        "without_cpu_ms": spread([one.system_cpu_ms for one in without]),
        "with_cpu_ms": spread([one.system_cpu_ms for one in laden]),
        "without_memory_mib": spread([one.memory_mib for one in without]),
        "with_memory_mib": spread([one.memory_mib for one in laden]),
    }


def _copy(bench: Stand) -> None:
    from django.db import connections

    # A database that somebody is connected to cannot be copied.
    connections.close_all()
    with database(bench, "postgres") as connection:
        connection.execute(f"CREATE DATABASE {NAME} TEMPLATE webhooks")


def _drop(bench: Stand) -> None:
    with database(bench, "postgres") as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
