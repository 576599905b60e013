"""Read a consumer's feed instead of offering an endpoint: no public address, and a restart goes on where it stopped.

WEBHOOKS_URL=… WEBHOOKS_KEY=… python feed_listener.py acme shipments.sqlite3

Kill it whenever you like. The shipment and the event's key are one transaction, and the position follows.
"""

import os
import sqlite3
import sys
from contextlib import closing

from webhooks_client import Client
from webhooks_client.receive import DbApiStore, Event, FeedListener, Receiver

consumer, path = sys.argv[1:]


def ship(event: Event, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO shipments (event) VALUES (?)", (event.id,))


def main() -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS shipments (event TEXT NOT NULL)")
    store = DbApiStore(lambda: sqlite3.connect(path))
    store.create_tables()
    # The secrets are for requests to an endpoint; where there is none, nothing needs one.
    receiver = Receiver([], store=store, work=ship)
    with Client(os.environ["WEBHOOKS_URL"], os.environ["WEBHOOKS_KEY"]) as client:
        FeedListener(client, consumer, receiver, positions=store).run()


if __name__ == "__main__":
    main()
