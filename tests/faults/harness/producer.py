"""A producer that does what producers should: a key per event, and the same request until it is answered."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

_THREADS = 4
_PAUSE_SECONDS = 0.05
# What a producer takes for "send it again"; anything else is a defect.
_AGAIN = (409, 429, 502, 503, 504)


@dataclass(slots=True)
class Emit:
    """One request, from its first try to its 202."""

    number: int
    type: str
    begun_at: float
    accepted_at: float = 0
    event_ids: list[str] = field(default_factory=list)
    tries: int = 0


class Producer:
    """Threads that emit at a steady rate until told to stop. `emits` holds everything that was answered with 202."""

    def __init__(self, client: httpx.Client, *, seed: str, per_second: float, patience: float = 120) -> None:
        self._client = client
        self._seed = seed
        self._interval = _THREADS / per_second
        # Seconds until it takes an event for refused that had no 202.
        self._patience = patience
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._next = 0
        self._threads = [threading.Thread(target=self._run, name=f"producer{n}") for n in range(_THREADS)]
        self.emits: list[Emit] = []
        self.unanswered: Counter[str] = Counter()
        self.defects: list[str] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, *, seconds: float) -> list[str]:
        """No new events; what was begun is sent until it is answered. Names what never was."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.1, deadline - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def emit_one(self) -> None:
        """The next one, by the caller's own thread."""
        with self._lock:
            number = self._next
            self._next += 1
        self._emit(number)

    def _run(self) -> None:
        while not self._stopping.is_set():
            begun_at = time.monotonic()
            self.emit_one()
            self._stopping.wait(max(0, begun_at + self._interval - time.monotonic()))

    def _emit(self, number: int) -> None:
        path, body, type = self._request(number)
        emit = Emit(number, type, time.monotonic())
        give_up_at = emit.begun_at + self._patience
        while time.monotonic() < give_up_at:
            emit.tries += 1
            answer = self._post(path, body, f"{self._seed}-{number}")
            if answer is None:
                time.sleep(_PAUSE_SECONDS)
                continue
            emit.accepted_at = time.monotonic()
            events = [each["event"] for each in answer["results"]] if "results" in answer else [answer]
            emit.event_ids = [event["id"] for event in events]
            with self._lock:
                self.emits.append(emit)
            return
        self.defects.append(f"emit {number} had no 202 within {self._patience:.0f} s")

    def _request(self, number: int) -> tuple[str, dict[str, Any], str]:
        """Mostly single events; each kind of them goes to an endpoint of its own."""
        data = {"number": number, "seed": self._seed}
        if number % 25 == 24:
            # More at once than their endpoint may have in flight.
            events = [{"consumer": "acme", "type": "load.busy", "data": {**data, "part": part}} for part in range(20)]
            return "events/batch/", {"events": events}, "load.busy"
        kind = ("well", "ordered", "well", "flaky", "well", "sick", "well", "ordered")[number % 8]
        event: dict[str, Any] = {"consumer": "acme", "type": f"load.{kind}", "data": data}
        if kind == "ordered":
            event["ordering_key"] = f"{self._seed}-{number % 3}"
        if number % 3 == 0:
            event["id"] = f"own-{self._seed}-{number}"
        return "events/", event, event["type"]

    def _post(self, path: str, body: dict[str, Any], key: str) -> dict[str, Any] | None:
        try:
            answer = self._client.post(path, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError as error:
            self.unanswered[type(error).__name__] += 1
            return None
        if answer.status_code == 202:
            found: dict[str, Any] = answer.json()
            return found
        self.unanswered[str(answer.status_code)] += 1
        if answer.status_code not in _AGAIN:
            self.defects.append(f"an emit was answered {answer.status_code}: {answer.text[:200]}")
        return None
