"""A producer that costs next to nothing: prepared bytes over keep-alive sockets, and just enough HTTP to read answers.

As fast as it is answered here; at a steady rate in steady.py.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

from benchmarks.load.subprocesses import ask
from benchmarks.report.figures import latency


class LoadRefused(Exception):
    """A load run got an answer that was not 2xx, or none; the text shows each kind once, with its body."""


# Stands for a number of each request's own.
NUMBER = "0" * 24


def load(url: str, *, key: str, bodies: Sequence[Any], count: int, at_once: int, headers: str = "") -> dict[str, Any]:
    """Rate, latencies and the last answer of so many requests, so many at a time, the bodies taking turns.

    Whole lines in `headers`.
    """
    asked = {
        "url": url, "key": key, "bodies": [json.dumps(body) for body in bodies], "count": count, "at_once": at_once,
        "headers": headers,
    }  # fmt: skip
    [result] = ask("benchmarks.load.producer", asked)
    complain(url, result["refusals"])
    return dict(result)


def complain(url: str, refusals: dict[str, dict[str, Any]]) -> None:
    if refusals:
        kinds = [f"  {one['count']} x {status}: {one['body']}" for status, one in refusals.items()]
        raise LoadRefused("\n".join([f"Not every request to {url} was answered with 2xx:", *kinds]))


@dataclass
class Refusals:
    """Answers that were not 2xx: how many of each status, and the first body of each."""

    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def note(self, status: str, body: bytes) -> None:
        one = self.seen.setdefault(status, {"count": 0, "body": body[:1000].decode(errors="replace")})
        one["count"] += 1


class Asking(asyncio.Protocol):
    """One connection: a request at a time, and `answered(connection, status, body)` for each."""

    def __init__(self, answered: "Callable[[Asking, str, bytes], None]", lost: Callable[[], None]) -> None:
        self._answered = answered
        self._lost = lost
        self._seen = b""
        self.asked_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, request: bytes, *, at: float) -> None:
        self.asked_at = at
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        end = self._seen.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._seen[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._seen) >= end + 4 + length:
            body, self._seen = self._seen[end + 4 : end + 4 + length], self._seen[end + 4 + length :]
            self._answered(self, head[9:12].decode(), body)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost()

    def close(self) -> None:
        self._lost = lambda: None
        self._transport.close()


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def request_bytes(url: str, key: str, body: bytes, headers: str = "") -> bytes:
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    head = f"POST {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n{headers}"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def as_fast_as_answered(
    *, url: str, key: str, bodies: Sequence[str], count: int, at_once: int, headers: str = ""
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    requests, number = [request_bytes(url, key, body.encode(), headers) for body in bodies], time.time_ns()
    to_ask, times, refusals, done = count, [], Refusals(), loop.create_future()
    last = b""

    def ask_next(connection: Asking) -> None:
        nonlocal to_ask
        if to_ask > 0:
            to_ask -= 1
            own = requests[to_ask % len(requests)].replace(NUMBER.encode(), b"%024d" % (number + to_ask))
            connection.ask(own, at=time.perf_counter())

    def answered(connection: Asking, status: str, answer: bytes) -> None:
        nonlocal last
        times.append(time.perf_counter() - connection.asked_at)
        if status.startswith("2"):
            last = answer
        else:
            refusals.note(status, answer)
        if len(times) == count:
            done.set_result(None)
        else:
            ask_next(connection)

    def lost() -> None:
        refusals.note("closed", b"The server closed the connection.")
        if not done.done():
            done.set_result(None)

    connections = [
        (await loop.create_connection(lambda: Asking(answered, lost), *address(url)))[1] for _ in range(at_once)
    ]
    begun, cpu = time.perf_counter(), time.process_time()
    for connection in connections:
        ask_next(connection)
    await done
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    for connection in connections:
        connection.close()
    figures = {"rate": len(times) / seconds, "cpu": used, **(latency(times) if times else {})}
    return {**figures, "refusals": refusals.seen, "last": last.decode(errors="replace")}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(as_fast_as_answered(**json.loads(sys.stdin.read())))))
