"""`/healthz`: this process is alive. `/readyz`: the database and the broker answer too."""

from collections.abc import Callable

import orjson
from django.db import connection
from django.http import HttpRequest, HttpResponse

from deliveries import bell


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b'{"status": "ok"}', content_type="application/json")


def readyz(request: HttpRequest) -> HttpResponse:
    checks = {"database": _answers(_ask_database), "broker": _answers(_ask_broker)}
    ready = all(checks.values())
    body = {"status": "ok" if ready else "unavailable", **{name: "ok" if ok else "down" for name, ok in checks.items()}}
    return HttpResponse(orjson.dumps(body), status=200 if ready else 503, content_type="application/json")


def _answers(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except Exception:  # Whatever it is, the answer is "not ready"; the logs of the component say why.
        return False
    return True


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_broker() -> None:
    client = bell.connect()
    try:
        client.ping()
    finally:
        client.close()
