"""The receiver: verify, dedupe, do the work or hand it over, answer. The web framework comes on top (see the adapters).

Only a 2xx tells the sender that an event has arrived, so 200 is answered after the commit, and for duplicates as well.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from webhooks_client.receive.counters import Counters
from webhooks_client.receive.event import Event
from webhooks_client.receive.sequence import Gap, SequenceGuard
from webhooks_client.receive.store import Outcome, Store
from webhooks_client.receive.verify import TOLERANCE_SECONDS, VerificationError, verify

logger = logging.getLogger(__name__)

Secrets = str | Sequence[str] | Callable[[], str | Sequence[str]]
# What became of an event: as of a store, or older than what was applied (sequence guard).
Processed = Outcome | Literal["stale"]

MAX_BODY_BYTES = 1_000_000
# A wrong signature is explained in the log at most so often: the search costs, and strangers can ask for it (seconds).
_EXPLAIN_EVERY_SECONDS = 10.0
_GAP_RETRY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    # A JSON object.
    body: bytes
    headers: Mapping[str, str]


class Receiver:
    """`work(event, transaction)` runs once for each event, in the transaction that stores the event's key.

    With `hand_over(event)` the answer goes out as soon as the event is handed over (see `hand_over.py`), and whoever
    takes it calls `process_once`.
    """

    def __init__(
        self,
        secrets: Secrets,
        *,
        store: Store,
        work: Callable[[Event, Any], object],
        hand_over: Callable[[Event], object] | None = None,
        guard: SequenceGuard | None = None,
        key: Callable[[Event], str] = lambda event: event.id,
        tolerance: float = TOLERANCE_SECONDS,
        max_body_bytes: int = MAX_BODY_BYTES,
        counters: Counters | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._secrets = secrets
        self._store = store
        self._work = work
        self._hand_over = hand_over
        self._guard = guard
        self._key = key
        self._tolerance = tolerance
        self.max_body_bytes = max_body_bytes
        # One set of numbers, also where Redis stands in front and counts its part.
        self.counters: Counters = counters or getattr(store, "counters", None) or Counters()
        self._now = now
        self._explained_at = float("-inf")
        self._explaining = threading.Lock()

    def receive(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The whole request: what to answer. Raises nothing."""
        begun = time.perf_counter()
        try:
            return self._receive(body, headers)
        finally:
            self.counters.took(time.perf_counter() - begun)

    def process_once(self, event: Event) -> Processed:
        """Runs the work if this event was not dealt with before. Raises what it raises; then nothing is stored."""
        try:
            outcome = self._run(event)
        except Gap as gap:
            self.counters.count("gap")
            outcome = self._fill(gap)
        self.counters.count(outcome)
        return outcome

    def _receive(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        if len(body) > self.max_body_bytes:
            self.counters.count("rejected")
            return _answer(413, "too_large")
        secrets = self._secrets() if callable(self._secrets) else self._secrets
        try:
            event = verify(body, headers, secrets, self._tolerance, now=self._now())
        except VerificationError as error:
            self.counters.count("rejected")
            logger.warning("Webhook rejected: %s", self._explained(error))
            # Not why: whoever tries out forgeries need not know.
            return _answer(400 if error.reason == "no_event" else 401, "rejected")
        try:
            if self._hand_over is not None:
                self._hand_over(event)
                return _answer(200, "accepted")
            return _answer(200, self.process_once(event))
        except Gap as gap:
            logger.info("Webhook held back: %s", gap)
            return _answer(503, "out_of_order", **{"retry-after": str(_GAP_RETRY_SECONDS)})
        except Exception:
            self.counters.count("failed")
            logger.exception("Webhook %s (%s) failed; the sender will bring it again.", event.id, event.type)
            return _answer(500, "failed")

    def _run(self, event: Event) -> Processed:
        stale = False

        def work(transaction: Any) -> None:
            nonlocal stale
            if self._guard is not None and not self._guard.admits(transaction, event):
                stale = True
                return
            self._work(event, transaction)

        outcome = self._store.run_once(self._key(event), work)
        return "stale" if stale and outcome == "new" else outcome

    def _fill(self, gap: Gap) -> Processed:
        """Gets what is missing, applies it in order, then the event that arrived; or raises the gap again."""
        fetch = self._guard.fetch if self._guard else None
        if fetch is None or gap.event.ordering_key is None or gap.event.sequence is None:
            raise gap
        for missing in fetch(gap.event.ordering_key, gap.applied, gap.event.sequence):
            self.counters.count(self._run(missing))
        return self._run(gap.event)

    def _explained(self, error: VerificationError) -> str:
        now = time.monotonic()
        with self._explaining:
            may = now - self._explained_at >= _EXPLAIN_EVERY_SECONDS
            if may:
                self._explained_at = now
        return error.explain() if may else error.detail


def _answer(status: int, outcome: str, **headers: str) -> Answer:
    body = json.dumps({"status": outcome}).encode()
    return Answer(status, body, {"content-type": "application/json", **headers})
