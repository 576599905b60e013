"""A receiver with the kit and Python's own web server: SQLite remembers, Redis may stand in front. It ships orders.

WEBHOOK_SECRET=whsec_… python plain_receiver.py 8001        (SHOP_DATABASE=shipments.sqlite3, REDIS_URL=redis://…)
"""

import os
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from webhooks_client.receive import DbApiStore, Event, Receiver, RedisFront, Store

DATABASE = os.environ.get("SHOP_DATABASE", "shipments.sqlite3")


def connect() -> sqlite3.Connection:
    return sqlite3.connect(DATABASE, timeout=30)


def ship(event: Event, connection: Any) -> None:
    """In the transaction that stores the event's key: both are there, or neither. No unique key guards this table."""
    connection.execute("INSERT INTO shipments (reference) VALUES (?)", (event.data["order"],))


def make_receiver() -> Receiver:
    rows = DbApiStore(connect)
    rows.create_tables()
    with rows.transaction() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS shipments (reference TEXT NOT NULL)")
    store: Store = rows
    if url := os.environ.get("REDIS_URL"):
        import redis

        store = RedisFront(redis.Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5), rows)
    return Receiver(os.environ["WEBHOOK_SECRET"].split(","), store=store, work=ship)


class Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > self.receiver.max_body_bytes:
            self.close_connection = True
            return self.send_error(413)
        answer = self.receiver.receive(self.rfile.read(int(length)), dict(self.headers))
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        return None

    def do_GET(self) -> None:
        """/metrics, for Prometheus."""
        shown = self.receiver.counters.prometheus().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(shown)))
        self.end_headers()
        self.wfile.write(shown)

    def log_message(self, *args: object) -> None: ...


if __name__ == "__main__":
    with sqlite3.connect(DATABASE) as setup:
        setup.execute("PRAGMA journal_mode = WAL")
    Handler.receiver = make_receiver()
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
