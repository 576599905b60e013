"""Columns of many rows for one statement, written as PostgreSQL itself keeps arrays.

Nothing is spelled out on this side to be read again on the other. psycopg writes lists too, a value at a time: for
UUIDs that takes twenty times as long.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from uuid import UUID

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEAD = Struct("!5i")
_NULL = b"\xff\xff\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Array(bytes):
    """A statement says of which type it is: `%(ids)s::uuid[]`."""


def uuids(values: Sequence[UUID]) -> Array:
    return _alike("uuid", [value.int.to_bytes(16, "big") for value in values])


def ints(values: Sequence[int]) -> Array:
    return _alike("int4", [value.to_bytes(4, "big", signed=True) for value in values])


def byte_strings(values: Sequence[bytes]) -> Array:
    return _array("bytea", [len(value).to_bytes(4, "big") + value for value in values])


def texts(values: Iterable[str | None]) -> Array:
    return _nullable("text", [None if value is None else value.encode() for value in values])


def bigints(values: Iterable[int | None]) -> Array:
    return _nullable("int8", [None if value is None else value.to_bytes(8, "big", signed=True) for value in values])


def times(values: Iterable[datetime | None]) -> Array:
    return _nullable("timestamptz", [None if value is None else _time(value) for value in values])


@lru_cache(maxsize=64)
def _time(at: datetime) -> bytes:
    """Often the same for all rows."""
    return ((at - _EPOCH) // _MICROSECOND).to_bytes(8, "big", signed=True)


def _alike(of: str, values: list[bytes]) -> Array:
    """No nulls, and all of one length."""
    length = len(values[0]).to_bytes(4, "big") if values else b""
    return Array(_head(of, len(values)) + length + length.join(values))


def _nullable(of: str, values: list[bytes | None]) -> Array:
    return _array(of, [_NULL if value is None else len(value).to_bytes(4, "big") + value for value in values])


def _array(of: str, written: list[bytes]) -> Array:
    return Array(_head(of, len(written)) + b"".join(written))


@lru_cache(maxsize=4096)
def _head(of: str, count: int) -> bytes:
    """Of one dimension, may hold nulls, of which type, how many, the first is number 1."""
    return _HEAD.pack(1, 1, psycopg.adapters.types[of].oid, count, 1)


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> Array:
        return obj


def teach_psycopg() -> None:
    """Before the first connection is made: each knows what was known then."""
    psycopg.adapters.register_dumper(Array, _ArrayDumper)
