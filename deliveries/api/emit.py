"""POST events/ and events/batch/, the short way: before Django, for a caller who was here a moment ago.

Most emits need none of what a general request goes through. Whatever is out of the ordinary takes the
long way through `deliveries/api/events.py`, which knows every rule and every refusal.
"""

import io
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, cast
from wsgiref.types import StartResponse, WSGIApplication

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.middleware.common import CommonMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils import timezone

from deliveries.accepting import group_commit
from deliveries.accepting.group_commit import Gathered
from deliveries.api.shape import BATCH_FIELDS, read_event, read_traceparent
from deliveries.api.show import EventOut, show_event
from deliveries.ingest import NewEvent
from subscriptions import idempotency, keys
from subscriptions.access.caller import Caller
from subscriptions.access.scopes import EVENTS_WRITE
from subscriptions.api.authentication import may
from subscriptions.api.parsing import loads
from subscriptions.api.problems import Problem
from subscriptions.api.rendering import render
from subscriptions.api.views import ALLOWANCE, PRODUCERS, operation_of
from subscriptions.idempotency import Scope
from subscriptions.limits import rate_limit

# Where the long way finds the error that the short way met: only there can it be answered and logged as any other.
FAILED = "webhooks.emit_failed"

# What Django looks at when it decides whether to let a request in at all.
_DOOR = ("wsgi.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "HTTP_X_FORWARDED_PROTO")

# As nearly every client spells it.
_JSON = {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}

Environ = dict[str, Any]


class Answer(NamedTuple):
    headers: list[tuple[str, str]]
    body: bytes


class ShortWay:
    """The WSGI application in front of Django's."""

    def __init__(self, django: WSGIApplication) -> None:
        self._django = django

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        answer = quickly(environ)
        if answer is None:
            return self._django(environ, start_response)
        start_response("202 Accepted", answer.headers)
        return [answer.body]


def quickly(environ: Environ) -> Answer | None:
    """The answer to events that are stored; or None for the long way, with nothing done or with what FAILED."""
    try:
        return _answer(environ)
    except Exception as error:
        environ[FAILED] = error
        return None


def _answer(environ: Environ) -> Answer | None:
    way = _WAYS.get(environ["PATH_INFO"]) if environ["REQUEST_METHOD"] == "POST" else None
    caller = _caller(environ) if way is not None and _is_ordinary(environ) else None
    headers = _usual_headers(*map(environ.get, _DOOR)) if caller is not None else None
    raw = _read(environ) if headers is not None else None
    if way is None or caller is None or headers is None or raw is None:
        return None
    read, show = way
    allowance = rate_limit.take(caller.owner)
    # Taken once, whichever way this request goes on.
    environ[ALLOWANCE] = allowance
    if allowance is not None and allowance.retry_after_seconds is not None:
        return None
    try:
        given = loads(raw)
        news = read(given, read_traceparent(environ.get("HTTP_TRACEPARENT")))
        scope = _scope(environ, caller, given)
    except (Problem, idempotency.KeyInvalid):
        return None
    if news is None:
        return None
    body = group_commit.accept(group_commit.Emit(news, caller.key_id, timezone.now(), scope, show))
    if body is None:
        return None
    limits = allowance.headers.items() if allowance else ()
    return Answer([*headers, *limits, ("Content-Length", str(len(body)))], body)


def _read_one(given: Any, traceparent: str | None) -> list[NewEvent] | None:
    new = read_event(given, traceparent=traceparent)
    return [new] if isinstance(new, NewEvent) else None


def _read_batch(given: Any, traceparent: str | None) -> list[NewEvent] | None:
    items = given.get("events") if isinstance(given, dict) and given.keys() <= BATCH_FIELDS.keys() else None
    if not isinstance(items, list) or not 1 <= len(items) <= settings.MAX_BATCH_EVENTS:
        return None
    news = []
    for item in items:
        new = read_event(item, traceparent=traceparent)
        if not isinstance(new, NewEvent):
            return None
        news.append(new)
    return news


def _show_one(gathered: list[Gathered]) -> bytes:
    return render(_shown(gathered[0]))


def _show_batch(gathered: list[Gathered]) -> bytes:
    return render({"results": [{"status": "accepted", "event": _shown(one)} for one in gathered]})


_WAYS = {
    "/api/v1/events/": (_read_one, _show_one),
    "/api/v1/events": (_read_one, _show_one),
    "/api/v1/events/batch/": (_read_batch, _show_batch),
    "/api/v1/events/batch": (_read_batch, _show_batch),
}


def _shown(gathered: Gathered) -> EventOut:
    return show_event(gathered.event, consumer=gathered.known.consumer, data=gathered.data)


def _caller(environ: Environ) -> Caller | None:
    scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    caller = keys.remembered(secret) if scheme == "Bearer" else None
    return caller if caller is not None and may(caller, PRODUCERS, EVENTS_WRITE) else None


@lru_cache(maxsize=256)
def _usual_headers(*door: Any) -> list[tuple[str, str]] | None:
    """What Django's own middleware puts on every answer; None where it would not let the request in."""
    given = {name: value for name, value in zip(_DOOR, door, strict=True) if value is not None}
    like_this = {"REQUEST_METHOD": "POST", "PATH_INFO": "/api/v1/events/", "wsgi.input": io.BytesIO()}
    through = SecurityMiddleware(CommonMiddleware(lambda _: HttpResponse(status=202, content_type="application/json")))
    try:
        response = cast(HttpResponse, through(WSGIRequest({**given, **like_this})))
    except SuspiciousOperation:
        return None
    kept = [(name, value) for name, value in response.items() if name != "Content-Length"]
    return kept if response.status_code == 202 else None


def _is_ordinary(environ: Environ) -> bool:
    """Whether the long way would have nothing to say about how the body comes, and no parameters to look at."""
    return (
        environ.get("CONTENT_TYPE", "").lower() in _JSON
        and not environ.get("QUERY_STRING")
        and not environ.get("SCRIPT_NAME")
    )


def _scope(environ: Environ, caller: Caller, given: Any) -> Scope | None:
    header = environ.get("HTTP_IDEMPOTENCY_KEY")
    if header is None:
        return None
    return Scope(
        owner=caller.owner,
        operation=operation_of("POST", environ["PATH_INFO"]),
        key=idempotency.parse_key(header),
        fingerprint=idempotency.fingerprint(given),
    )


def _read(environ: Environ) -> bytes | None:
    """The body, which the long way can then read again; None where it has something to say about its length."""
    try:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        # A batch may be larger than that, but no event in it: then there is something to measure.
        if not 0 < length <= settings.MAX_BODY_BYTES:
            return None
        raw: bytes = environ["wsgi.input"].read(length)
    except (ValueError, OSError):  # a length that is no number, or nobody there any more
        return None
    environ["wsgi.input"] = io.BytesIO(raw)
    return raw if len(raw) == length else None
