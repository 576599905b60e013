"""Receivers on a real socket, one path each, that note every request: what came, when, and what it was answered."""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from aiohttp import web

_HOLD_SECONDS = {"/well": 0.02, "/busy": 0.01, "/ordered": 0.01, "/flaky": 0.005, "/sick": 0.005}
_HANG_SECONDS = 30
# Of linux/tcp.h. A socket that is closed under repair sends nothing: neither its end nor a reset.
_TCP_REPAIR = 19


@dataclass(slots=True)
class Request:
    path: str
    event: str
    attempt: int
    at: float
    body: dict[str, Any]
    # None for one that was cut off before it was answered.
    status: int | None = None
    answered_at: float = 0


class Receivers:
    """All answer 200 after a moment, but `/flaky` fails some events once, and `/sick` does as told."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.most_at_once: Counter[str] = Counter()
        self.sick_mode = "ok"  # or hang, reset, vanish, error, flap
        self._at_once: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="receivers", daemon=True)
        self.port = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10), "the receivers did not start"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self._application(), handler_cancellation=True, access_log=None)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        self._loop.run_until_complete(site.start())
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_post("/{name}", self._take)
        return application

    async def _take(self, request: web.Request) -> web.StreamResponse:
        at = time.monotonic()
        body = orjson.loads(await request.read())
        noted = Request(request.path, request.headers["webhook-id"], int(request.headers["webhook-attempt"]), at, body)
        self.requests.append(noted)
        self._at_once[noted.path] += 1
        self.most_at_once[noted.path] = max(self.most_at_once[noted.path], self._at_once[noted.path])
        try:
            status = await self._decide(noted, request)
        finally:
            self._at_once[noted.path] -= 1
        noted.status, noted.answered_at = status, time.monotonic()
        return web.Response(status=status, text="ok")

    async def _decide(self, noted: Request, request: web.Request) -> int:
        await asyncio.sleep(_HOLD_SECONDS[noted.path])
        if noted.path == "/flaky":
            is_first = (noted.path, noted.event) not in self._seen
            self._seen.add((noted.path, noted.event))
            return 500 if is_first and noted.body["data"]["number"] % 16 == 3 else 200
        if noted.path == "/sick" and self.sick_mode != "ok":
            return await self._be_sick(request)
        return 200

    async def _be_sick(self, request: web.Request) -> int:
        mode = self.sick_mode
        if mode == "hang":
            await asyncio.sleep(_HANG_SECONDS)
        elif mode == "reset" and request.transport is not None:
            request.transport.abort()
            await asyncio.sleep(_HANG_SECONDS)  # cancelled with the connection
        elif mode == "vanish" and request.transport is not None:
            _vanish(request.transport)
            await asyncio.sleep(_HANG_SECONDS)  # cancelled with the connection
        elif mode == "flap":
            return 503 if int(time.monotonic() * 2) % 2 else 200
        return 500


def _vanish(transport: asyncio.BaseTransport) -> None:
    """Ends a connection as a machine does that loses power: the other side is told nothing."""
    taken = transport.get_extra_info("socket")
    taken.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
    transport.abort()  # type: ignore[attr-defined]


@lru_cache(maxsize=1)
def why_no_repair() -> str:
    """Empty where connections can be ended without a word."""
    with socket.socket() as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
        except OSError as error:
            return f"connections can be ended without a word on Linux and as root only ({error.strerror})"
    return ""


@contextmanager
def running_receivers() -> Iterator[Receivers]:
    receivers = Receivers()
    receivers.start()
    try:
        yield receivers
    finally:
        receivers.stop()
