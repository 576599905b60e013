"""Log lines: one wide object per unit of work. `logger.info("event.accepted", extra={"fields": {...}})`.

Work that ended together may be logged together: with a list of fields, one record makes a line for each.

No line holds what opens something. Django logs the address of a refused request, and an address may hold a token; an
exception may quote a key. What looks like one is cut out of the finished line, whoever logged it.
"""

import logging
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from subscriptions.process import request_id

# Who logged it says the message; the rest of what logging would look up for every line is never shown.
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
# logging's own documented way not to search the stack for the caller.
logging._srcfile = None


# The token in an address of the portal or of a page that shows something once; signing secrets; API keys.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TOKENS = re.compile(
    r"(?i)(/enter(?:/|%2f)+|/portal/mail(?:/|%2f)+|/secret/|/portal-link/|/recovery-codes/|[?&]tested=)[\w:-]{20,}|(whsec_)[\w+/=-]+|(whk_[a-z]_)\w+"
)
# One of these is in whatever the pattern matches. Looking for them first takes a twentieth of the time.
_MARKS = ("/enter", "/portal/mail", "/secret/", "/portal-link/", "/recovery-codes/", "tested=", "whsec_", "whk_")


def redact(line: str) -> str:
    lowered = line.lower()
    if not any(mark in lowered for mark in _MARKS):
        return line
    return _TOKENS.sub(lambda found: (found[1] or found[2] or found[3]) + "…", line)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if own_id := request_id.current():
            head["request_id"] = own_id
        tail = {"exception": self.formatException(record.exc_info)} if record.exc_info else {}
        lines = [orjson.dumps({**head, **each, **tail}, default=str) for each in _fields(record)]
        return redact(b"\n".join(lines).decode())


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname:<7} {record.getMessage()} "
        own_id = request_id.current()
        own = {"request_id": own_id} if own_id else {}
        lines = [
            (head + " ".join([f"{name}={_in_one_line(value)}" for name, value in {**own, **each}.items()])).rstrip()
            for each in _fields(record)
        ]
        return redact("\n".join([*lines, self.formatException(record.exc_info)] if record.exc_info else lines))


def _in_one_line(value: object) -> str:
    """Strangers choose some of these values (a path, for one): none begins a line of its own or moves the cursor."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], str(value))


class RefusalsInOneLine(logging.Filter):
    """Django logs a refused request (a Host that is not ours, too many fields) with its stack, as if we had failed.

    Anybody can send such a request, so it is worth one line and no more.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security"):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args = " ".join(record.getMessage()[:300].split()), ()
        return True


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _fields(record: logging.LogRecord) -> Sequence[dict[str, Any]]:
    fields = getattr(record, "fields", None)
    if isinstance(fields, list):
        return fields
    return [fields if isinstance(fields, dict) else {}]
