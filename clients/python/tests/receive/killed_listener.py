"""A listener as a process of its own, which kills itself (-9) at a point on its way.

python -m tests.receive.killed_listener URL FOLDER STORE POINT        (a point that is never reached: it ends by itself)
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from webhooks_client import Client
from webhooks_client.receive import Event, FeedListener, FilePositions, Receiver

from tests.receive import stores

KILLED_AT_EVENT, KILLED_AT_CURSOR = "evt_3", "4"


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Keys:
    """The store of keys, and the points around its commit."""

    def __init__(self, store: Any, point: str) -> None:
        self._store, self._point = store, point

    def run_once(self, key: str, work: Any) -> Any:
        outcome = self._store.run_once(key, work)
        if self._point == "after the commit" and key == KILLED_AT_EVENT:
            kill()
        return outcome


class Places:
    """The store of positions, and the points around its write."""

    def __init__(self, positions: Any, point: str) -> None:
        self._positions, self._point = positions, point

    def position(self, name: str) -> Any:
        return self._positions.position(name)

    def set_position(self, name: str, cursor: str) -> None:
        if self._point == "before the position" and cursor == KILLED_AT_CURSOR:
            kill()
        self._positions.set_position(name, cursor)
        if self._point == "after the position" and cursor == KILLED_AT_CURSOR:
            kill()


def main(url: str, folder: Path, kind: str, point: str) -> None:
    make = stores.sqlalchemy if kind == "sqlalchemy" else stores.dbapi
    stand = make(folder / "receiver.sqlite3")
    positions: Any = FilePositions(folder / "positions.json") if kind == "file" else stand.store

    def work(event: Event, transaction: Any) -> None:
        stand.work(event, transaction)
        if point == "in the work" and event.id == KILLED_AT_EVENT:
            kill()

    receiver = Receiver([], store=Keys(stand.store, point), work=work)  # type: ignore[arg-type]
    with Client(url, "key") as client:
        FeedListener(client, "acme", receiver, positions=Places(positions, point), limit=2).catch_up()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
