"""`/metrics` for Prometheus: plain text, or OpenMetrics where it is asked for. Never open: it takes a bearer token."""

import hmac
import platform
import threading
import time
from functools import lru_cache
from typing import NamedTuple

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from deliveries.statistics import gauges, totals
from subscriptions import keys
from subscriptions.access.scopes import METRICS_READ
from subscriptions.api.authentication import may
from subscriptions.api.problems import CONTENT_TYPE, Problem
from subscriptions.models import Role


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    problem = _refusal(request)
    if problem is not None:
        body = orjson.dumps(problem.document())
        return HttpResponse(body, status=problem.status, headers=problem.headers, content_type=CONTENT_TYPE)
    # Loaded by the first scrape: who is never scraped need not have it.
    from deliveries.statistics.exposition import written

    reading = _readings().take(seconds=settings.METRICS_CACHE_SECONDS)
    body, content_type = written(
        reading.sums,
        reading.gauges,
        build={"version": settings.VERSION, "python": platform.python_version()},
        accept=request.headers.get("Accept", ""),
    )
    return HttpResponse(body, content_type=content_type, headers={"Cache-Control": "no-store"})


class Reading(NamedTuple):
    """What one answer is made from."""

    sums: totals.Sums
    # None where they took too long.
    gauges: gauges.Gauges | None


def _refusal(request: HttpRequest) -> Problem | None:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    secret = secret.strip() if scheme.lower() == "bearer" else ""
    if not _is_the_token(secret):
        caller = keys.verify(secret) if secret else None
        if caller is None:
            return Problem(
                401,
                "not_authenticated",
                "Send an operator's API key, or METRICS_TOKEN, as `Authorization: Bearer …`.",
                headers={"WWW-Authenticate": 'Bearer realm="webhooks"'},
            )
        if not may(caller, (Role.OPERATOR,), METRICS_READ):
            return Problem(403, "forbidden", "Metrics tell of all consumers: this takes an operator's key.")
    if request.GET:
        return Problem(400, "unknown_parameter", "This address knows no parameters.")
    return None


def _is_the_token(secret: str) -> bool:
    token: str = settings.METRICS_TOKEN
    # Of bytes: text that is not ASCII cannot be compared in constant time.
    return bool(token) and hmac.compare_digest(secret.encode(), token.encode())


class _Readings:
    """The last reading of this process: those who ask within the same moment share it, also while it is being made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Reading | None = None
        self._read_at = 0.0

    def take(self, *, seconds: float) -> Reading:
        with self._lock:
            now = time.monotonic()
            if self._last is None or now - self._read_at >= seconds:
                self._last = _read()
                self._read_at = now
            return self._last


@lru_cache(maxsize=1)
def _readings() -> _Readings:
    return _Readings()


def _read() -> Reading:
    return Reading(sums=totals.read(), gauges=gauges.read(up_to=settings.METRICS_COUNT_UP_TO))
