"""Each mutating POST happens once per Idempotency-Key. The database's unique constraint is the guarantee.

The record is written last, in the same transaction as the work: a first request pays two statements, and of two at the
same moment the slower one waits at the constraint, rolls its own work back and answers what the faster one stored.
Refusals are not stored: a corrected request may use the same key.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from subscriptions.process import counting
from subscriptions.secrets.vault import VaultError, vault

_KEY = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")

STORE_ANSWERS = """
    INSERT INTO subscriptions_idempotencyrecord (owner, operation, key, fingerprint, status_code, response_encrypted)
    SELECT owner, operation, key, decode(fingerprint, 'hex'), status_code, decode(response, 'hex')
    FROM json_to_recordset(%(answers)s::json) AS answer (
        owner text, operation text, key text, fingerprint text, status_code int, response text
    )
    -- In one order: two groups that wait for each other's keys would deadlock.
    ORDER BY owner, operation, key
    ON CONFLICT (owner, operation, key) DO NOTHING
    RETURNING owner, operation, key
"""
"""Stores answers, each unless one is there. Waits for a request under way, and stores nothing if that one commits."""

FIND_ANSWERS = """
    SELECT owner, operation, key, fingerprint, status_code, response_encrypted
    FROM unnest(%(owners)s::text[], %(operations)s::text[], %(keys)s::text[]) AS given (owner, operation, key)
    JOIN subscriptions_idempotencyrecord record USING (owner, operation, key)
"""
"""The answers that are kept under these keys."""

# An owner, an operation, and a key of theirs.
Name = tuple[str, str, str]


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

    @property
    def name(self) -> Name:
        return self.owner, self.operation, self.key


@dataclass(frozen=True, slots=True)
class StoredAnswer:
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


def once(scope: Scope | None, work: Callable[[], StoredAnswer]) -> StoredAnswer:
    """Runs `work` in a transaction; with a scope, at most once, and the stored answer ever after."""
    if scope is None:
        with transaction.atomic():
            return work()
    return counted(lambda: _once(scope, work))


def counted(work: Callable[[], StoredAnswer]) -> StoredAnswer:
    """Runs what answers a request with a key, and counts what came of it, for webhooks_idempotency_total."""
    try:
        answer = work()
    except KeyReused:
        counting.count("idempotency", "reused database")
        raise
    except InProgress:
        counting.count("idempotency", "in_progress database")
        raise
    counting.count("idempotency", "replayed database" if answer.replayed else "new database")
    return answer


def _once(scope: Scope, work: Callable[[], StoredAnswer]) -> StoredAnswer:
    if stored := find(scope):
        return stored
    try:
        with transaction.atomic():
            answer = work()
            if keep([(scope, answer)]):
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


def keep(answers: Sequence[tuple[Scope, StoredAnswer]]) -> set[Name]:
    """Stores answers in the caller's transaction, and says which keys are taken: roll back what belongs to them."""
    rows = [
        {
            "owner": scope.owner,
            "operation": scope.operation,
            "key": scope.key,
            "fingerprint": scope.fingerprint.hex(),
            "status_code": answer.status_code,
            "response": vault().seal(answer.body.decode(), belongs_to=_belongs_to(scope)).hex(),
        }
        for scope, answer in answers
    ]
    try:
        with connection.cursor() as cursor:
            cursor.execute(STORE_ANSWERS, {"answers": orjson.dumps(rows).decode()})
            return {scope.name for scope, _ in answers}.difference(cursor.fetchall())
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise InProgress from None
        raise


def find(scope: Scope) -> StoredAnswer | None:
    """The stored answer; KeyReused when it belongs to another body."""
    [found] = find_all([scope])
    if isinstance(found, Exception):
        raise found
    return found


def find_all(scopes: Sequence[Scope]) -> list[StoredAnswer | KeyReused | VaultError | None]:
    """For each scope: the stored answer, KeyReused when it belongs to another body, None when there is none.

    VaultError where the answer cannot be opened: that is the matter of this caller, and not of those beside it.
    """
    owners, operations, names = (list(column) for column in zip(*(scope.name for scope in scopes), strict=True))
    with connection.cursor() as cursor:
        cursor.execute(FIND_ANSWERS, {"owners": owners, "operations": operations, "keys": names})
        found = {(owner, operation, key): rest for owner, operation, key, *rest in cursor.fetchall()}
    return [_opened(scope, *found[scope.name]) if scope.name in found else None for scope in scopes]


def _opened(
    scope: Scope, fingerprint: bytes, status_code: int, response: bytes
) -> StoredAnswer | KeyReused | VaultError:
    if bytes(fingerprint) != scope.fingerprint:
        return KeyReused()
    try:
        body = vault().open(bytes(response), belongs_to=_belongs_to(scope))
    except VaultError as error:
        return error
    return StoredAnswer(status_code=status_code, body=body.encode(), replayed=True)


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


def _belongs_to(scope: Scope) -> str:
    return f"{scope.owner} {scope.operation} {scope.key}"
