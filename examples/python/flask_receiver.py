"""A Flask receiver that answers first and works later.        WEBHOOK_SECRET=whsec_… flask --app flask_receiver run"""

import os
import sqlite3
import threading
from typing import Any

from flask import Flask
from webhooks_client.receive import DbApiStore, Event, Inbox, Receiver
from webhooks_client.receive.adapters import flask_view

DATABASE = os.environ.get("SHOP_DATABASE", "shipments.sqlite3")
store = DbApiStore(lambda: sqlite3.connect(DATABASE, timeout=30))
store.create_tables()
inbox = Inbox(store)
inbox.create_table()
with store.transaction() as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS shipments (reference TEXT NOT NULL)")


def ship(event: Event, connection: Any) -> None:
    connection.execute("INSERT INTO shipments (reference) VALUES (?)", (event.data["order"],))


def work_off(stopped: threading.Event) -> None:
    """In production a process of its own; any number of them share the inbox."""
    while not stopped.is_set():
        if not inbox.work_off(ship):
            stopped.wait(1)


receiver = Receiver(os.environ["WEBHOOK_SECRET"].split(","), store=store, work=ship, hand_over=inbox.keep)
app = Flask(__name__)
app.add_url_rule("/webhooks", view_func=flask_view(receiver), methods=["POST"])

if __name__ == "__main__":
    threading.Thread(target=work_off, args=(threading.Event(),), daemon=True).start()
    app.run(port=8001)
