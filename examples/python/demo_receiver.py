"""The receiver of `make up`: the kit with SQLite behind Python's own web server, and a line for each event.

WEBHOOK_SECRET=whsec_… python demo_receiver.py 8001        (WEBHOOK_DATABASE=receiver.sqlite3)
"""

import json
import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from webhooks_client.receive import DbApiStore, Event, Receiver

DATABASE = os.environ.get("WEBHOOK_DATABASE", "receiver.sqlite3")


def connect() -> sqlite3.Connection:
    return sqlite3.connect(DATABASE, timeout=30)


def work(event: Event, transaction: Any) -> None:
    """Your code goes here. What it writes through `transaction` commits with the event's key, or not at all."""


class Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    protocol_version = "HTTP/1.1"  # keep-alive
    timeout = 30  # seconds of silence that end a connection

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > self.receiver.max_body_bytes:
            self.close_connection = True  # its body stays unread
            return self.send_error(413 if length.isdecimal() else 400)
        body = self.rfile.read(int(length))
        answer = self.receiver.receive(body, dict(self.headers))
        if answer.status == 200:
            self.show(json.loads(body), json.loads(answer.body)["status"])
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        return None

    def show(self, event: dict[str, Any], verdict: str) -> None:
        attempt = self.headers.get("webhook-attempt", "?")
        line = f"{time.strftime('%H:%M:%S')}  {event['type']}  {event['id']}  attempt {attempt}  {verdict}\n"
        print(line, end="", flush=True)  # in one piece: other threads print as well

    def log_message(self, *args: object) -> None:
        """Nothing: each event has its line."""


if __name__ == "__main__":
    if not os.environ.get("WEBHOOK_SECRET"):
        sys.exit("WEBHOOK_SECRET is not set.")
    store = DbApiStore(connect)
    with sqlite3.connect(DATABASE) as setup:
        setup.execute("PRAGMA journal_mode = WAL")
    store.create_tables()
    Handler.receiver = Receiver(os.environ["WEBHOOK_SECRET"].split(","), store=store, work=work)
    ThreadingHTTPServer.request_queue_size = 128  # connections that may wait to be accepted
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
