"""Each mutating POST happens once per Idempotency-Key. The database's unique constraint is the guarantee.

The record is written last, in the same transaction as the work: a first request pays one statement, and of two at the
same moment the slower one waits at the constraint, rolls its own work back and answers what the faster one stored.
Refusals are not stored: a corrected request may use the same key.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import orjson
import redis
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from subscriptions import fail_points
from subscriptions.limits.optional_redis import quick_redis
from subscriptions.models import IdempotencyRecord
from subscriptions.vault import vault

# A hint is there for the client that sends again because it heard nothing, and must not fill Redis (seconds). A later
# repeat meets the constraint.
_HINT_SECONDS = 300

_KEY = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")

STORE_ANSWER = """
    INSERT INTO subscriptions_idempotencyrecord (owner, operation, key, fingerprint, status_code, response_encrypted)
    VALUES (%(owner)s, %(operation)s, %(key)s, %(fingerprint)s, %(status_code)s, %(response)s)
    ON CONFLICT (owner, operation, key) DO NOTHING
"""
"""Stores an answer unless one is there. Waits for a request still under way; stores nothing if that one commits."""

STORE_ANSWERS = """
    INSERT INTO subscriptions_idempotencyrecord (owner, operation, key, fingerprint, status_code, response_encrypted)
    SELECT owner, operation, key, decode(fingerprint, 'hex'), 202, decode(response, 'hex')
    FROM json_to_recordset(%(answers)s::json) AS answer (
        owner text, operation text, key text, fingerprint text, response text
    )
    -- In one order: two groups that wait for each other's keys would deadlock.
    ORDER BY owner, operation, key
    ON CONFLICT (owner, operation, key) DO NOTHING
"""
"""The same for many answers of 202 at once."""

FIND_TAKEN = """
    SELECT owner, operation, key
    FROM unnest(%(owners)s::text[], %(operations)s::text[], %(keys)s::text[]) AS given (owner, operation, key)
    JOIN subscriptions_idempotencyrecord record USING (owner, operation, key)
"""
"""Of these keys, those that an answer is kept under."""


class KeyInvalid(ValueError):
    """Not a usable Idempotency-Key."""


class KeyReused(Exception):
    """The key came before with another body."""


class InProgress(Exception):
    """A request with this key is still under way."""


class _Taken(Exception):
    """Somebody else stored an answer first: roll back what this request did."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a key is unique within, and what it was sent with."""

    owner: str
    operation: str
    key: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status_code: int
    body: bytes
    replayed: bool = False


def parse_key(header: str) -> str:
    """`"abc"` and `abc` are the same key."""
    key = header.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if _KEY.fullmatch(key) is None:
        raise KeyInvalid
    return key


def fingerprint(body: Any) -> bytes:
    """The same for bodies that mean the same, whatever their white space and the order of their keys."""
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()


def once(scope: Scope | None, work: Callable[[], Answer], *, one_statement: bool = False) -> Answer:
    """Runs `work` in a transaction; with a scope, at most once, and the stored answer ever after.

    Work that writes in one statement needs no transaction around it, as long as there is no answer to store with it.
    """
    if scope is None:
        with nullcontext() if one_statement else transaction.atomic():
            return work()
    # A hint that spares a repeated request its work. Wrong or absent, it costs one look-up and no more.
    if _hints([scope]) == [True] and (stored := find(scope)):
        return stored
    try:
        with transaction.atomic():
            answer = work()
            fail_points.reach("accept.before_commit")
            if not _store(scope, answer):
                raise _Taken
            return answer
    except Exception as error:
        # Whatever the refusal: the first request may be what stands in the way, as when its uid is taken now.
        if stored := find(scope):
            return stored
        if isinstance(error, _Taken):
            # Swept in this very moment: 72 hours are over, and the next try will find the key free.
            raise InProgress from None
        raise


def seen_before(scopes: Sequence[Scope]) -> list[bool]:
    """Hints for many at once. Without Redis the table is asked: a hint too few, and `keep` refuses all of them."""
    seen = _hints(scopes)
    return _taken_before(scopes) if seen is None else seen


def _hints(scopes: Sequence[Scope]) -> list[bool] | None:
    """Whether each was here before, as Redis has it. None where it does not answer."""

    def ask(client: "redis.Redis") -> list[bool] | None:
        pipeline = client.pipeline(transaction=False)
        for scope in scopes:
            pipeline.set(_hint(scope), 1, nx=True, ex=_HINT_SECONDS)
        return [not first for first in pipeline.execute()]

    return quick_redis().ask(ask, default=None)


def _taken_before(scopes: Sequence[Scope]) -> list[bool]:
    names = [(scope.owner, scope.operation, scope.key) for scope in scopes]
    owners, operations, keys = (list(column) for column in zip(*names, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(FIND_TAKEN, {"owners": owners, "operations": operations, "keys": keys})
        taken = set(cursor.fetchall())
    # The second of two with one key has seen the first.
    return [name in taken or name in names[:place] for place, name in enumerate(names)]


def keep(answers: Sequence[tuple[Scope, bytes]]) -> bool:
    """Answers of 202, in the caller's transaction. False if one of the keys is taken: then roll back."""
    if not answers:
        return True
    rows = [
        {
            "owner": scope.owner,
            "operation": scope.operation,
            "key": scope.key,
            "fingerprint": scope.fingerprint.hex(),
            "response": vault().seal(body.decode(), belongs_to=_belongs_to(scope)).hex(),
        }
        for scope, body in answers
    ]
    with connection.cursor() as cursor:
        cursor.execute(STORE_ANSWERS, {"answers": orjson.dumps(rows).decode()})
        return bool(cursor.rowcount == len(rows))


def find(scope: Scope) -> Answer | None:
    """The stored answer; KeyReused when it belongs to another body."""
    record = IdempotencyRecord.objects.filter(owner=scope.owner, operation=scope.operation, key=scope.key).first()
    if record is None:
        return None
    if bytes(record.fingerprint) != scope.fingerprint:
        raise KeyReused
    body = vault().open(bytes(record.response_encrypted), belongs_to=_belongs_to(scope))
    return Answer(status_code=record.status_code, body=body.encode(), replayed=True)


FORGET_ANSWERS = """
    DELETE FROM subscriptions_idempotencyrecord WHERE id = ANY (ARRAY(
        SELECT id FROM (
            SELECT id, created_at FROM subscriptions_idempotencyrecord ORDER BY id LIMIT %(limit)s
        ) oldest
        WHERE created_at < now() - %(hours)s * interval '1 hour'
    ))
"""
"""Of the oldest answers, forgets those that are older than promised. Ids grow with time, so it looks no further."""


def forget_old(*, hours: int, batch: int = 2000, batches: int = 500) -> int:
    """In small batches, so that nobody waits; what is left over goes with the next run."""
    forgotten = 0
    for _ in range(batches):
        with connection.cursor() as cursor:
            cursor.execute(FORGET_ANSWERS, {"hours": hours, "limit": batch})
            forgotten += cursor.rowcount
            if cursor.rowcount < batch:
                break
    return forgotten


def _hint(scope: Scope) -> bytes:
    return b"webhooks:idem:" + hashlib.blake2b(_belongs_to(scope).encode(), digest_size=16).digest()


def _store(scope: Scope, answer: Answer) -> bool:
    sealed = vault().seal(answer.body.decode(), belongs_to=_belongs_to(scope))
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                STORE_ANSWER,
                {
                    "owner": scope.owner,
                    "operation": scope.operation,
                    "key": scope.key,
                    "fingerprint": scope.fingerprint,
                    "status_code": answer.status_code,
                    "response": sealed,
                },
            )
            return bool(cursor.rowcount == 1)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise InProgress from None
        raise


def _belongs_to(scope: Scope) -> str:
    return f"{scope.owner} {scope.operation} {scope.key}"
