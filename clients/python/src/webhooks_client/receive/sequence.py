"""Events of one ordering key in their order, though retries and parallel deliveries bring them out of it."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal

from webhooks_client.client import Client
from webhooks_client.receive.event import Event
from webhooks_client.receive.store import SequencedStore

OnGap = Literal["wait", "skip"]
Start = Literal["first", "arrival"]
Fetch = Callable[[str, int, int], Iterable[Event]]

# So many missing events are applied at most for one that arrived; its next try goes on from there.
MOST_FETCHED = 1000


class Gap(Exception):
    """Events before this one have not been applied. The sender is asked to bring it again later (503)."""

    def __init__(self, event: Event, applied: int) -> None:
        super().__init__(f"{event.ordering_key}: sequence {event.sequence} arrived, {applied} was the last applied.")
        self.event = event
        self.applied = applied


class SequenceGuard:
    """Asked inside the transaction of an event's work. An event without a sequence passes.

    1. At or below what was applied: ignored.
    2. The next one: applied.
    3. Beyond a gap: `Gap` is raised, which undoes the transaction. With `fetch`, the receiver then gets what is missing
       and applies it first; without, the sender's next try brings it again. `on_gap="skip"` applies it at once, for
       events that carry the whole state, where only the newest matters.

    A key that was never seen begins at its first event, so a receiver that is new to an old key has to fetch its past.
    With `start="arrival"` it begins at whatever arrives first, for an ordered endpoint, which brings them in order.
    """

    def __init__(
        self, store: SequencedStore, *, on_gap: OnGap = "wait", start: Start = "first", fetch: Fetch | None = None
    ) -> None:
        self._store = store
        self._on_gap = on_gap
        self._start = start
        self.fetch = fetch

    def admits(self, transaction: Any, event: Event) -> bool:
        """Whether the work is to be done; False for an event that is older than what was applied."""
        if event.ordering_key is None or event.sequence is None:
            return True
        applied = self._store.applied(transaction, event.ordering_key)
        if event.sequence <= applied:
            return False
        begins = applied == 0 and self._start == "arrival"
        if event.sequence > applied + 1 and self._on_gap == "wait" and not begins:
            raise Gap(event, applied)
        self._store.set_applied(transaction, event.ordering_key, event.sequence)
        return True


def missing_from(client: Client, consumer: str) -> Fetch:
    """Gets missing events from the platform, with a consumer's key: `SequenceGuard(store, fetch=missing_from(…))`."""

    def fetch(ordering_key: str, after: int, before: int) -> list[Event]:
        # Newest first, so the wanted ones are together. Of too many the oldest are kept: they have to be applied first.
        found: deque[Event] = deque(maxlen=MOST_FETCHED)
        for shown in client.events(consumer=consumer, ordering_key=ordering_key, limit=200):
            sequence = shown["sequence"] or 0
            if sequence <= after:
                break
            if sequence < before and shown["data"] is not None:
                found.append(Event.of(shown))
        return sorted(found, key=lambda event: event.sequence or 0)

    return fetch
