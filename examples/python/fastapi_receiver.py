"""A FastAPI receiver.        WEBHOOK_SECRET=whsec_… uvicorn fastapi_receiver:app --port 8001"""

import os
import sqlite3
from typing import Any

from fastapi import FastAPI
from webhooks_client.receive import DbApiStore, Event, Receiver
from webhooks_client.receive.adapters import starlette_endpoint

DATABASE = os.environ.get("SHOP_DATABASE", "shipments.sqlite3")
store = DbApiStore(lambda: sqlite3.connect(DATABASE, timeout=30))
store.create_tables()
with store.transaction() as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS shipments (reference TEXT NOT NULL)")


def ship(event: Event, connection: Any) -> None:
    connection.execute("INSERT INTO shipments (reference) VALUES (?)", (event.data["order"],))


receiver = Receiver(os.environ["WEBHOOK_SECRET"].split(","), store=store, work=ship)
app = FastAPI()
app.add_route("/webhooks", starlette_endpoint(receiver), methods=["POST"])
