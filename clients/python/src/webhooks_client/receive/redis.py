"""Redis in front of a store: most duplicates end here, and nothing depends on it. Needs the extra `redis`.

A mark in Redis is a hint. It is set (`SET … NX EX`) after the store has committed, and a duplicate that finds it is
confirmed by one read of the store, without a transaction and without waiting for anybody. So Redis may be gone, empty,
restored from last week or hold keys that nobody set: the store has the last word.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from webhooks_client.receive.counters import Counters
from webhooks_client.receive.store import RETENTION_SECONDS, Outcome, SequencedStore, Store, Work

logger = logging.getLogger(__name__)

# After Redis has failed, nobody asks it for so long: each would wait for its time-out (seconds).
PAUSE_SECONDS = 5.0


class RedisFront:
    """`client` is a `redis.Redis`. Give it a short `socket_timeout`: a slow Redis is worth less than none.

    `confirm=False` believes a mark without asking the store. That spares the read, and loses an event whenever Redis
    remembers what the store has forgotten, for instance after the database was restored from a backup.
    """

    def __init__(
        self,
        client: Any,
        store: Store,
        *,
        prefix: str = "webhook:",
        seconds: int = 3 * 86_400,
        confirm: bool = True,
        counters: Counters | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._store = store
        self._prefix = prefix
        self._seconds = seconds
        self._confirm = confirm
        self.counters = counters or Counters()
        self._clock = clock
        self._paused_until = float("-inf")

    def run_once(self, key: str, work: Work) -> Outcome:
        if self._is_marked(key) and (not self._confirm or self._store.seen(key)):
            self.counters.count("fast_path_hit")
            return "duplicate"
        outcome = self._store.run_once(key, work)
        self._mark(key)
        return outcome

    def seen(self, key: str) -> bool:
        return self._store.seen(key)

    def forget(self, *, older_than_seconds: float = RETENTION_SECONDS) -> int:
        return self._store.forget(older_than_seconds=older_than_seconds)

    def applied(self, transaction: Any, ordering_key: str) -> int:
        return self._sequenced().applied(transaction, ordering_key)

    def set_applied(self, transaction: Any, ordering_key: str, sequence: int) -> None:
        self._sequenced().set_applied(transaction, ordering_key, sequence)

    def position(self, name: str) -> str | None:
        positions: Any = self._store
        return positions.position(name)  # type: ignore[no-any-return]

    def set_position(self, name: str, cursor: str) -> None:
        positions: Any = self._store
        positions.set_position(name, cursor)

    def _sequenced(self) -> SequencedStore:
        store: Any = self._store
        return store  # type: ignore[no-any-return]

    def _is_marked(self, key: str) -> bool:
        return bool(self._ask(lambda: self._client.exists(self._prefix + key)))

    def _mark(self, key: str) -> None:
        self._ask(lambda: self._client.set(self._prefix + key, b"1", nx=True, ex=self._seconds))

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The answer, or None without one: whatever is wrong with Redis, the store knows better."""
        if self._clock() < self._paused_until:
            return None
        try:
            return question()
        except Exception as error:
            self._paused_until = self._clock() + PAUSE_SECONDS
            self.counters.count("fallback")
            logger.warning("Redis cannot be asked (%s); duplicates are found in the store.", error)
            return None
