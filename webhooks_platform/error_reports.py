"""Errors to Sentry, where SENTRY_DSN says so: what was logged as an error, with where it happened.

A report says which error in which line of which file, the log line's name and its fields. It holds no request, no local
variables and no text of an exception: a driver quotes the row that it could not store. What an exception said stays in
the log, under the same fields.
"""

import logging
from typing import TYPE_CHECKING, Any

from django.conf import settings

from subscriptions.process import request_id
from webhooks_platform.logs import redact

if TYPE_CHECKING:
    from sentry_sdk.types import Event, Hint

# Of a frame of a stack: nothing that a variable could be in.
_FRAME = ("filename", "abs_path", "function", "module", "lineno", "in_app")
# Of a report. Whatever else there is was collected by Sentry's library and is not sent.
_KEPT = ("event_id", "timestamp", "level", "logger", "platform", "release", "environment", "sdk", "logentry", "message",
         "exception", "extra", "tags")  # fmt: skip


def start() -> None:
    """Once in each process that serves or works."""
    if not settings.SENTRY_DSN:
        return
    import sentry_sdk
    from sentry_sdk.integrations.logging import LoggingIntegration

    sentry_sdk.init(
        dsn=settings.SENTRY_DSN,
        release=f"webhooks-platform@{settings.VERSION}",
        environment=settings.SENTRY_ENVIRONMENT,
        # Nothing that looks into requests, tasks, statements or the machine.
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[LoggingIntegration(level=None, event_level=logging.ERROR)],
        include_local_variables=False,
        include_source_context=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        server_name="",
        before_send=_cut,
    )


def _cut(event: "Event", hint: "Hint") -> "Event":
    kept: dict[str, Any] = {name: value for name, value in event.items() if name in _KEPT}
    for exception in kept.get("exception", {}).get("values", []):
        exception.pop("value", None)
        frames = (exception.get("stacktrace") or {}).get("frames", [])
        for frame in frames:
            for name in [name for name in frame if name not in _FRAME]:
                del frame[name]
    fields = getattr(hint.get("log_record"), "fields", None)
    kept["extra"] = _texts(fields) if isinstance(fields, dict) else {}
    # The errors that we log have names. Others' may be sentences with anything in them.
    message = kept.pop("logentry", {}).get("message") or ""
    kept["message"] = redact(str(message).split("\n")[0][:200])
    if own_id := request_id.current():
        kept["tags"] = {"request_id": own_id}
    return kept  # type: ignore[return-value]  # what is left of one


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    """An error that was caught says in `error` what it is: of that, its class."""
    return {
        name: str(value).partition("(")[0][:100] if name in ("error", "detail") else redact(str(value)[:500])
        for name, value in fields.items()
    }
