"""The outermost WSGI application: every request has an id, which its answer and its log lines carry, and one log line.

That line is `request.answered`. An emit that was accepted has `event.accepted` instead, which says more of it; looking
whether we live, at metrics and at static files is no work worth a line.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from deliveries.api.emit import OWN_LINE
from subscriptions.process import request_id

logger = logging.getLogger(__name__)

Environ = dict[str, Any]

_SILENT = ("/healthz", "/readyz", "/metrics", "/static/")


class RequestLog:
    def __init__(self, inner: WSGIApplication) -> None:
        self._inner = inner

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        own_id, token = request_id.begin(environ.get("HTTP_X_REQUEST_ID"))
        begun = time.monotonic()
        status = ""

        def start(status_line: str, headers: list[tuple[str, str]], *more: Any) -> Callable[[bytes], object]:
            nonlocal status
            status = status_line
            return start_response(status_line, [*headers, ("X-Request-Id", own_id)], *more)

        # The web server makes a new one for each request, and does not look at it again.
        environ["HTTP_X_REQUEST_ID"] = own_id
        try:
            return self._inner(environ, start)
        finally:
            if OWN_LINE not in environ and not environ["PATH_INFO"].startswith(_SILENT):
                _log(environ, status, time.monotonic() - begun)
            request_id.end(token)


def _log(environ: Environ, status: str, seconds: float) -> None:
    fields = {
        "method": environ["REQUEST_METHOD"],
        "path": environ["PATH_INFO"][:500],
        # Without one, the body was late, and another thread has answered (bodies.py).
        "status": int(status[:3]) if status else 408,
        "duration_ms": round(seconds * 1000, 1),
    }
    logger.info("request.answered", extra={"fields": fields})
