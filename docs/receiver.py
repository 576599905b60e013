"""A webhook receiver to copy: it verifies, dedupes, answers fast and works afterwards. Needs nothing but Python.

WEBHOOK_SECRET=whsec_… python docs/receiver.py 8001        (during a rotation: WEBHOOK_SECRET=whsec_new,whsec_old)
"""

import hashlib
import hmac
import json
import os
import re
import sqlite3
import sys
import threading
import time
import traceback
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRETS = [secret.encode() for secret in os.environ.get("WEBHOOK_SECRET", "").split(",") if secret]
INBOX = os.environ.get("WEBHOOK_INBOX", "inbox.sqlite3")
MAX_BODY_BYTES = 1_000_000
TOLERANCE_SECONDS = 300
work_waits = threading.Event()


def is_authentic(header: str, body: bytes, now: float) -> bool:
    """`t=<seconds>,v1=<hex>[,v1=<hex>]`: HMAC-SHA256 of `<t>.<body>`, over the body's bytes exactly as they came."""
    fields = [field.strip().partition("=")[::2] for field in header.split(",")]
    timestamp = next((value for name, value in fields if name == "t"), "")
    if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False  # too old: a request that somebody recorded and now plays again
    signed = timestamp.encode() + b"." + body
    expected = [hmac.new(secret, signed, hashlib.sha256).hexdigest().encode() for secret in SECRETS]
    return any(hmac.compare_digest(value.encode(), each) for name, value in fields if name == "v1" for each in expected)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keep-alive
    timeout = 30  # seconds of silence that end a connection

    def do_POST(self) -> None:
        self.send_response(self.receive())
        self.send_header("Content-Length", "0")
        self.end_headers()
        work_waits.set()

    def receive(self) -> int:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY_BYTES:
            self.close_connection = True  # its body stays unread
            return 413 if length.isdecimal() else 400
        body = self.rfile.read(int(length))
        if not is_authentic(self.headers.get("webhook-signature", ""), body, time.time()):
            return 401
        try:
            event_id, event_type = (json.loads(body)[name] for name in ("id", "type"))
        except (ValueError, KeyError, TypeError):
            return 400
        if event_id != self.headers.get("webhook-id"):
            return 400  # the signature covers the body and not the headers, so the id inside is the one to trust
        verdict = "new" if keep(event_id, body) else "duplicate"
        attempt = self.headers.get("webhook-attempt", "?")
        line = f"{time.strftime('%H:%M:%S')}  {event_type}  {event_id}  attempt {attempt}  {verdict}\n"
        print(line, end="", flush=True)  # in one piece: other threads print as well
        return 200  # for a duplicate as well: anything else only brings it once more

    def log_message(self, *args: object) -> None:
        """Nothing: each event has its line."""


def keep(event_id: str, body: bytes) -> bool:
    """True for an id not seen before. One atomic statement, so of two at the same moment exactly one is new."""
    with closing(open_inbox()) as db:
        kept = db.execute("INSERT INTO inbox VALUES (?, ?, FALSE) ON CONFLICT DO NOTHING", (event_id, body))
        return kept.rowcount == 1


def work() -> None:
    """Events are on disk before they are answered, so what a crash cut short is found here after the restart."""
    with closing(open_inbox()) as db:
        while True:
            work_waits.clear()
            for event_id, body in db.execute("SELECT id, body FROM inbox WHERE NOT done").fetchall():
                try:
                    handle(json.loads(body))
                    db.execute("UPDATE inbox SET done = TRUE WHERE id = ?", (event_id,))
                except Exception:
                    traceback.print_exc()  # stays in the inbox and is tried again
            work_waits.wait(timeout=60)


def handle(event: dict[str, Any]) -> None:
    """Your code goes here. After a crash it runs again: do its work and `done = TRUE` in one transaction if you can."""


def open_inbox() -> sqlite3.Connection:
    return sqlite3.connect(INBOX, timeout=10, isolation_level=None)


if __name__ == "__main__":
    if not SECRETS:
        sys.exit("WEBHOOK_SECRET is not set.")
    with closing(open_inbox()) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, body BLOB NOT NULL, done BOOLEAN NOT NULL)")
    threading.Thread(target=work, daemon=True).start()
    ThreadingHTTPServer.request_queue_size = 128  # connections that may wait to be accepted
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
