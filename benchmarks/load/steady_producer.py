"""A producer at a steady rate and the receiver of what it emits, in one process, so that one clock sees both ends.

Open loop: an event is due at its own moment whether or not earlier ones were answered, and its latency counts from
that moment, so a server that stalls cannot hide it. A path that begins with `/hang` is never answered.
"""

import asyncio
import json
import re
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import uvloop

from benchmarks.load.producer import Asking, Refusals, address, complain, request_bytes
from benchmarks.load.receiver import Receiving
from benchmarks.load.subprocesses import ask
from benchmarks.report.figures import latency

NUMBER = re.compile(rb'"n":\s?(\d+)')
# The first part of a run warms connections and caches, and is not counted.
WARM_SHARE = 0.2
ARRIVE_SECONDS = 60
# Beyond this, events queue here. Their latency counts all the same, so an overloaded server shows.
MAX_CONNECTIONS = 128


class NotArrived(Exception):
    """Events were accepted and not delivered in time."""


def steady(
    url: str,
    *,
    key: str,
    rate: float,
    seconds: float,
    consumers: Sequence[str],
    unheard: Sequence[str] = (),
    receiver_port: int,
    may_miss: bool = False,
) -> dict[str, Any]:
    """Latencies from emit to arrival. Events for `unheard` consumers come on top, at the same rate each.

    Where events may be missing in the end, their latency is the time they were waited for: the least it can be.
    """
    asked = {
        "url": f"{url}/api/v1/events/", "key": key, "rate": rate, "seconds": seconds, "consumers": list(consumers),
        "unheard": list(unheard), "receiver_port": receiver_port,
    }  # fmt: skip
    [result] = ask("benchmarks.load.steady_producer", asked)
    complain(url, result["refusals"])
    if result["missing"] and not may_miss:
        raise NotArrived(f"{result['missing']} events did not arrive at {rate:g}/s.")
    times = {what: latency(result[what]) for what in ("answer", "arrival")}
    return {**times, "missing": result["missing"]}


class Run:
    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key
        self._idle: list[Asking] = []
        self._connection_count = 0
        self._waiting: deque[tuple[bytes, float]] = deque()
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self.refusals = Refusals()
        self.due_at: dict[int, float] = {}
        self.arrived_at: dict[int, float] = {}
        self.answers: list[float] = []
        self._everything_emitted = False
        # Every heard event has arrived, or something was refused.
        self.complete = asyncio.Event()

    def emit(self, number: int, consumer: str, at: float, *, heard: bool) -> None:
        if heard:
            self.due_at[number] = at
        data = {"n": number, "filler": "x" * 290}
        body = json.dumps({"consumer": consumer, "type": "bench.event", "data": data}).encode()
        request = request_bytes(self._url, self._key, body)
        if self._idle:
            self._idle.pop().ask(request, at=at)
        elif self._connection_count >= MAX_CONNECTIONS:
            self._waiting.append((request, at))
        else:
            self._connection_count += 1
            task = self._loop.create_task(self._ask_on_a_new_connection(request, at))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _ask_on_a_new_connection(self, request: bytes, at: float) -> None:
        try:
            _, connection = await self._loop.create_connection(
                lambda: Asking(self._answered, self._lost), *address(self._url)
            )
        except OSError as error:
            self.refusals.note("no connection", str(error).encode())
            self.complete.set()
        else:
            connection.ask(request, at=at)

    def _answered(self, connection: Asking, status: str, body: bytes) -> None:
        self.answers.append(time.perf_counter() - connection.asked_at)
        if not status.startswith("2"):
            self.refusals.note(status, body)
            self.complete.set()
        if self._waiting:
            request, at = self._waiting.popleft()
            connection.ask(request, at=at)
        else:
            self._idle.append(connection)

    def _lost(self) -> None:
        self.refusals.note("closed", b"The server closed the connection.")
        self.complete.set()

    def arrived(self, body: bytes) -> None:
        if found := NUMBER.search(body):
            self.arrived_at.setdefault(int(found[1]), time.perf_counter())
            self._look()

    def all_emitted(self) -> None:
        self._everything_emitted = True
        self._look()

    def _look(self) -> None:
        if self._everything_emitted and self.due_at.keys() <= self.arrived_at.keys():
            self.complete.set()


async def run(
    *, url: str, key: str, rate: float, seconds: float, consumers: list[str], unheard: list[str], receiver_port: int
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    live = Run(url, key)
    await loop.create_server(lambda: Receiving(live.arrived), "127.0.0.1", receiver_port, backlog=4096)
    everyone = [*((name, True) for name in consumers), *((name, False) for name in unheard)]
    total_rate = rate * len(everyone) / len(consumers)
    begun, count = time.perf_counter() + 0.1, int(total_rate * seconds)
    for number in range(count):
        at = begun + number / total_rate
        if (wait := at - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        consumer, heard = everyone[number % len(everyone)]
        live.emit(number, consumer, at, heard=heard)
    live.all_emitted()
    with suppress(TimeoutError):
        await asyncio.wait_for(live.complete.wait(), ARRIVE_SECONDS)
    ended, counted = time.perf_counter(), [number for number in live.due_at if number >= int(count * WARM_SHARE)]
    return {
        "arrival": [live.arrived_at.get(number, ended) - live.due_at[number] for number in counted],
        "answer": live.answers[int(len(live.answers) * WARM_SHARE) :],
        "missing": len(live.due_at.keys() - live.arrived_at.keys()),
        "refusals": live.refusals.seen,
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(**json.loads(sys.stdin.read())))))
