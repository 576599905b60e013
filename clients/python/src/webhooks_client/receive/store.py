"""Where a receiver remembers what it has dealt with. Every store keeps one promise:

`run_once(key, work)` runs `work` in a transaction that also stores `key`. Both commit or neither does; for a key that
is stored, `work` is not run. Of many calls for one key at the same moment, exactly one commits.

`work` is called with the transaction's own handle (a DB-API connection, a SQLAlchemy session, nothing of use in Django,
whose ORM knows its transaction), so that what it writes is part of it.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

Outcome = Literal["new", "duplicate"]
Work = Callable[[Any], object]

# Longer than a sender goes on by itself (a day and a half with the platform's schedule), and than people take to
# replay what failed.
RETENTION_SECONDS = 30 * 86_400


class EndedTransaction(Exception):
    """The work committed, rolled back or broke the transaction that holds its event's key.

    It broke it where it swallowed an error of the database: PostgreSQL then answers COMMIT with ROLLBACK, without an
    error, so the event would count as done with nothing of it stored.
    """

    def __init__(self) -> None:
        super().__init__(
            "The work ended or broke its transaction: leave commit and rollback to the store, and put what may fail in "
            "the database into a savepoint of its own."
        )


class Store(Protocol):
    def run_once(self, key: str, work: Work) -> Outcome: ...

    def seen(self, key: str) -> bool:
        """Whether this key is stored. A read; it may be wrong a moment later."""
        ...

    def forget(self, *, older_than_seconds: float = RETENTION_SECONDS) -> int:
        """Deletes old keys; how many. Call it daily."""
        ...


class SequencedStore(Store, Protocol):
    """A store that also remembers how far each ordering key has come, in the same transaction as the work."""

    def applied(self, transaction: Any, ordering_key: str) -> int:
        """The last sequence that was applied, 0 for none. Locks the key until the transaction ends."""
        ...

    def set_applied(self, transaction: Any, ordering_key: str, sequence: int) -> None: ...
