"""Setup files for tests, and the commands that read and write them."""

import json
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from django.core.management import CommandError, call_command

SECRET = "legacy secret/of-1999 ~ 'quoted'"
OLDER = "the one before/of-1998 ~"
URL = "https://globex.example/hook"


class Ran(NamedTuple):
    out: str
    err: str
    failed: str


def consumer(uid: str = "globex", **fields: Any) -> dict[str, Any]:
    return {"kind": "consumer", "uid": uid, **fields}


def endpoint(uid: str = "main", *, consumer: str = "globex", **fields: Any) -> dict[str, Any]:
    return {"kind": "endpoint", "consumer": consumer, "uid": uid, "url": URL, "secret": SECRET, **fields}


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def run(*arguments: str) -> Ran:
    out, err = StringIO(), StringIO()
    failed = ""
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except CommandError as error:
        failed = str(error)
    return Ran(out.getvalue(), err.getvalue(), failed)


def counts(shown: str) -> dict[str, list[int]]:
    """The rows of the command's table: created, unchanged, updated, different, deleted here."""
    rows = [
        line.rsplit(None, 5) for line in shown.splitlines() if line.startswith(("event type", "consumer", "endpoint"))
    ]
    return {name: [int(cell.replace(",", "")) for cell in cells] for name, *cells in rows}
