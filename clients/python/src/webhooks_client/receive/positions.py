"""Where a reader of the feed remembers how far it has come.

A position is stored after the events before it were dealt with. One that is lost or goes back brings events again, and
the dedupe swallows them; nothing is ever skipped. `DbApiStore`, `SQLAlchemyStore` and `DjangoStore` keep positions
beside their keys; here are two places that keep nothing else.
"""

import json
import os
from pathlib import Path
from typing import Any, Protocol


class Positions(Protocol):
    def position(self, name: str) -> str | None:
        """What was stored last under this name; None before the first time: then a feed begins at its start."""
        ...

    def set_position(self, name: str, cursor: str) -> None:
        """On return it is stored. Of two writers the last one wins."""
        ...


class FilePositions:
    """A JSON file, for one process at a time. It is replaced as a whole, and on disk before `set_position` returns."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def position(self, name: str) -> str | None:
        return self._read().get(name)

    def set_position(self, name: str, cursor: str) -> None:
        kept = {**self._read(), name: cursor}
        temporary = self._path.with_name(f"{self._path.name}.new")
        with temporary.open("w") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        _sync_folder(self._path.parent)

    def _read(self) -> dict[str, str]:
        try:
            kept = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            kept = None
        if not isinstance(kept, dict):
            # Beginning anew would be safe and slow; whoever damaged the file should know.
            raise ValueError(f"{self._path} holds no positions. Delete it to read the feed from its start.")
        return kept


class RedisPositions:
    """`client` is a `redis.Redis`. Where Redis forgets, the feed is read from its start: cheap, unless it is long."""

    def __init__(self, client: Any, *, prefix: str = "webhook:position:") -> None:
        self._client = client
        self._prefix = prefix

    def position(self, name: str) -> str | None:
        found = self._client.get(self._prefix + name)
        return found.decode() if isinstance(found, bytes) else found

    def set_position(self, name: str, cursor: str) -> None:
        self._client.set(self._prefix + name, cursor)


def _sync_folder(folder: Path) -> None:
    """The new name is on disk, too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
