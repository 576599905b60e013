"""A receiver on a real socket that remembers what it got and answers as it is told."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Received:
    path: str
    headers: Message
    body: bytes
    at: float


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = field(default_factory=dict)


class Receiver:
    """`answer` decides, per request, what to reply; it may block, to hold a request open."""

    def __init__(self) -> None:
        self.answer: Callable[[Received], Reply] = lambda received: Reply()
        self.received: list[Received] = []
        self.most_at_once = 0
        self._at_once = 0
        self._changed = threading.Condition()
        self.server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def take(self, received: Received) -> Reply:
        with self._changed:
            self.received.append(received)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self._changed.notify_all()
        try:
            return self.answer(received)
        finally:
            with self._changed:
                self._at_once -= 1

    def wait_for(self, count: int, *, seconds: float = 15) -> list[Received]:
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.received) >= count, timeout=seconds)
        assert arrived, f"{len(self.received)} of {count} requests arrived within {seconds} s"
        return self.received


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that was killed leaves broken pipes behind; they are not the test's business."""


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = receiver.take(Received(self.path, self.headers, body, time.time()))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join(5)
