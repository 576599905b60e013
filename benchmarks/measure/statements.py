"""What PostgreSQL says of its own work: the statements that took its time, and the WAL they wrote.

pg_stat_statements and auto_explain (plans.py) must be loaded when the server starts, so the stand's own server is
restarted with them and, at the end, without them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from benchmarks.load.preload import database
from benchmarks.report.figures import significant
from benchmarks.stand import Stand

LOADED = {"shared_preload_libraries": "pg_stat_statements, auto_explain", "track_wal_io_timing": "on"}

TOP = """
    SELECT query, calls, rows, total_exec_time, wal_bytes::float8 FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY total_exec_time DESC
"""
SERVER = """
    SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8,
        (SELECT coalesce(sum(fsyncs), 0)::float8 FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'),
        (SELECT coalesce(sum(fsync_time), 0) FROM pg_stat_io WHERE object = 'wal' AND context = 'normal')
"""
"""Bytes of WAL so far, how often it was flushed to the disk, and the milliseconds this took."""

# Characters of a statement that tell it from others.
ENOUGH = 60
COMMENT = re.compile(r"--[^\n]*")
VALUE = re.compile(r"%\(\w+\)s|\$\d+|'[^']*'|\b\d+(?:\.\d+)?\b|\b(?:true|false|null)\b", re.IGNORECASE)


@dataclass
class Counted:
    """Filled when the counting ends."""

    statements: list[dict[str, Any]] = field(default_factory=list)
    wal_bytes: float = 0.0
    # The mean of one flush of WAL to the disk.
    flush_ms: float = 0.0

    def calls(self, name: str) -> int:
        return sum(one["calls"] for one in self.statements if one["name"] == name)


@contextmanager
def observed(bench: Stand) -> Iterator[None]:
    """The server counts its statements inside this block, and not outside of it."""
    with database(bench) as connection:
        for name, value in LOADED.items():
            connection.execute(f"ALTER SYSTEM SET {name} = {value}")
    _restart(bench)
    try:
        with database(bench) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        yield
    finally:
        with database(bench) as connection:
            connection.execute("DROP EXTENSION IF EXISTS pg_stat_statements")
            for name in LOADED:
                connection.execute(f"ALTER SYSTEM RESET {name}")
        _restart(bench)


def _restart(bench: Stand) -> None:
    from django.db import connections

    connections.close_all()
    bench.postgres.stop()
    bench.postgres.start()


@contextmanager
def counted(bench: Stand) -> Iterator[Counted]:
    found = Counted()
    with database(bench) as connection:
        connection.execute("SELECT pg_stat_statements_reset()")
        [before] = connection.execute(SERVER).fetchall()
        yield found
        connection.execute("SELECT pg_stat_force_next_flush()")
        [after] = connection.execute(SERVER).fetchall()
        found.statements = _named(connection.execute(TOP).fetchall())
    wal, flushes, milliseconds = (new - old for new, old in zip(after, before, strict=True))
    found.wal_bytes, found.flush_ms = wal, significant(milliseconds / max(1, flushes))


def _named(rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    whole = sum(row[3] for row in rows) or 1
    return [
        {
            "name": name_of(query),
            "calls": calls,
            "rows": count,
            "mean_ms": significant(milliseconds / max(1, calls)),
            "share": significant(milliseconds / whole, 3),
            "wal_bytes_per_call": round(wal / max(1, calls)),
        }
        for query, calls, count, milliseconds, wal in rows
    ]


def name_of(query: str) -> str:
    """As it is called in the code, `claim.CLAIM_DUE`; its first words where it has no name there."""
    names, told = _names(), plain(query)
    # The server may have kept a statement's text as it was sent: then its beginning has to do, if no other has it.
    alike = {name for text, name in names.items() if text[:ENOUGH] == told[:ENOUGH]}
    return names.get(told) or (alike.pop() if len(alike) == 1 else told[:ENOUGH])


def plain(query: str) -> str:
    """Without comments and values: what the code's text and the server's have in common."""
    return VALUE.sub("?", " ".join(COMMENT.sub("", query).replace("%%", "%").split()))


def _names() -> dict[str, str]:
    from deliveries import claim, settle, sweep
    from deliveries.accepting import insert
    from deliveries.statistics import deltas, totals
    from subscriptions import idempotency

    modules: Sequence[ModuleType] = (claim, settle, insert, sweep, deltas, totals, idempotency)
    return {
        plain(text): f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in modules
        for name, text in vars(module).items()
        if isinstance(text, str) and name.strip("_").isupper()
    }
