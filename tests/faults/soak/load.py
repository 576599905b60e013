"""The soak's producer: batches of events at a steady rate, each sent with the same key until it is answered 202."""

import threading
import time
from collections import Counter

import httpx

from tests.faults.soak.receivers import COUNT

BATCH = 20
_THREADS = 4


class Load:
    """Emits until it is stopped, at `per_second` events, or as fast as it can where that is None."""

    def __init__(self, client: httpx.Client, *, name: str, per_second: float | None) -> None:
        self._client = client
        self._name = name
        self._interval = BATCH / per_second if per_second else 0.0
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._next = 0
        self._begun_at = time.monotonic()
        self._threads = [threading.Thread(target=self._run, name=f"load{n}") for n in range(_THREADS)]
        # Events answered with 202, by the number of their endpoint; and what else was answered.
        self.accepted: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        # Batches sent later than they were due: the load could not be kept up.
        self.worst_delay = 0.0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                number = self._next
                self._next += 1
            due_at = self._begun_at + number * self._interval
            if self._stopping.wait(max(0.0, due_at - time.monotonic())):
                return
            if self._interval:
                self.worst_delay = max(self.worst_delay, time.monotonic() - due_at)
            self._emit(number)

    def _emit(self, number: int) -> None:
        events = [
            {"consumer": "acme", "type": f"soak.n{part % COUNT}", "data": {"at": time.time(), "text": "x" * 200}}
            for part in range(BATCH)
        ]
        while True:
            try:
                key = {"Idempotency-Key": f"{self._name}-{number}"}
                answer = self._client.post("events/batch/", json={"events": events}, headers=key)
            except httpx.TransportError as error:
                self.refused[type(error).__name__] += 1
                continue
            if answer.status_code == 202:
                break
            self.refused[str(answer.status_code)] += 1
            time.sleep(0.05)
        with self._lock:
            for event in events:
                self.accepted[int(str(event["type"]).removeprefix("soak.n"))] += 1
