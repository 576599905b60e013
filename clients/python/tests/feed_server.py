"""A feed on a loopback port, for readers that are processes of their own. A cursor counts the events before it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


def feed_event(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"evt_{number}",
        "consumer": "acme",
        "type": "order.placed",
        "api_version": "1",
        "created_at": "2026-01-02T00:00:00Z",
        "occurred_at": None,
        "ordering_key": None,
        "sequence": None,
        "data": {"order": number},
        "deliveries": [],
        **fields,
    }


class FeedServer(ThreadingHTTPServer):
    def __init__(self, count: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events = [feed_event(number) for number in range(1, count + 1)]
        # The cursor of every request, in order.
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FeedServer

    def do_GET(self) -> None:
        given = parse_qs(urlsplit(self.path).query)
        cursor, limit = given.get("cursor", [None])[0], int(given["limit"][0])
        self.server.asked.append(cursor)
        begin = int(cursor or 0)
        shown = self.server.events[begin : begin + limit]
        following = f"http://inner/?cursor={begin + len(shown)}" if shown else None
        body = json.dumps({"results": shown, "next": following}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def feed_server(count: int) -> Iterator[FeedServer]:
    with FeedServer(count) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
