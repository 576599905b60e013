"""POST events/ and events/batch/ of a caller who was here a moment ago, answered before Django.

It does what Django and the views would do, by the same functions, without what a general request needs. Whatever is
out of the ordinary goes on to Django: another content type, a query string, a key that is not remembered, a refusal.
"""

import io
import logging
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple
from wsgiref.types import StartResponse, WSGIApplication

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.middleware.common import CommonMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.module_loading import import_string

from deliveries.api.emit import FAILED, EmitBody, emit_batch, emit_one
from deliveries.api.shape import BATCH_FIELDS, EVENT_FIELDS
from subscriptions import keys
from subscriptions.access.caller import Caller
from subscriptions.access.scopes import EVENTS_WRITE
from subscriptions.api.authentication import may
from subscriptions.api.known_names import Names, refuse_unknown_fields
from subscriptions.api.parsing import loads
from subscriptions.api.views import ALLOWANCE, PRODUCERS
from subscriptions.limits import rate_limit

logger = logging.getLogger(__name__)

# What they do to an answer depends on nothing but where the request was sent to.
_SAME_FOR_A_HOST = (SecurityMiddleware, CommonMiddleware)
# What of a request says that.
_HOST = ("wsgi.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "HTTP_X_FORWARDED_PROTO")

# As nearly every client spells it.
_JSON = {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}

_ROUTES: dict[str, tuple[EmitBody, Names]] = {
    "/api/v1/events/": (emit_one, EVENT_FIELDS),
    "/api/v1/events": (emit_one, EVENT_FIELDS),
    "/api/v1/events/batch/": (emit_batch, BATCH_FIELDS),
    "/api/v1/events/batch": (emit_batch, BATCH_FIELDS),
}

Environ = dict[str, Any]
Headers = list[tuple[str, str]]


class Response(NamedTuple):
    headers: Headers
    body: bytes


class AnswerBeforeDjango:
    """The WSGI application in front of Django's. Every answer of its own is a 202."""

    def __init__(self, django: WSGIApplication) -> None:
        self._django = django
        loaded = {path: import_string(path) for path in settings.MIDDLEWARE}
        for_api = {path: each for path, each in loaded.items() if not getattr(each, "skips_api", False)}
        others = [path for path, each in for_api.items() if each not in _SAME_FOR_A_HOST]
        if others:
            # It may look at each request, change each answer, or refuse: only Django can tell.
            logger.warning("emits.through_django", extra={"fields": {"middleware": others}})
        self._headers = _headers_by_host(list(for_api.values())) if not others else None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        response = self.answer(environ)
        if response is None:
            return self._django(environ, start_response)
        start_response("202 Accepted", response.headers)
        return [response.body]

    def answer(self, environ: Environ) -> Response | None:
        """None leaves the request to Django, with nothing done or with what FAILED."""
        if self._headers is None or environ["REQUEST_METHOD"] != "POST":
            return None
        route = _ROUTES.get(environ["PATH_INFO"])
        try:
            caller = _caller(environ) if route is not None and _is_ordinary(environ) else None
            headers = self._headers(*map(environ.get, _HOST)) if caller is not None else None
            raw = _read(environ) if headers is not None else None
            if route is None or caller is None or headers is None or raw is None:
                return None
            return _answer(environ, caller, raw, route, headers)
        except Exception as error:
            environ[FAILED] = error
            return None


def _answer(
    environ: Environ, caller: Caller, raw: bytes, route: tuple[EmitBody, Names], headers: Headers
) -> Response | None:
    allowance = rate_limit.take(caller.owner)
    # Taken once, whether it is answered here or there.
    environ[ALLOWANCE] = allowance
    if allowance is not None and allowance.retry_after_seconds is not None:
        return None
    emit_body, fields = route
    body = loads(raw)
    if not isinstance(body, dict):
        return None
    if emit_body is emit_batch:
        refuse_unknown_fields(body, known=fields, parameters=())
    answer = emit_body(environ, caller, body)
    own = [("Content-Length", str(len(answer.body)))]
    if answer.replayed:
        own.append(("Idempotent-Replayed", "true"))
    return Response([*headers, *(allowance.headers.items() if allowance else ()), *own], answer.body)


def _caller(environ: Environ) -> Caller | None:
    scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    caller = keys.remembered(secret) if scheme == "Bearer" else None
    return caller if caller is not None and may(caller, PRODUCERS, EVENTS_WRITE) else None


def _headers_by_host(middleware: list[Callable[[Any], Any]]) -> Callable[..., Headers | None]:
    """What the middleware puts on every answer, asked once for each host; None where it would not let a request in."""

    @lru_cache(maxsize=256)
    def headers(*host: Any) -> Headers | None:
        given = {name: value for name, value in zip(_HOST, host, strict=True) if value is not None}
        like_this = {"REQUEST_METHOD": "POST", "PATH_INFO": "/api/v1/events/", "wsgi.input": io.BytesIO()}
        chain: Callable[[HttpRequest], HttpResponse] = _accepted
        for each in reversed(middleware):
            chain = each(chain)
        try:
            response = chain(WSGIRequest({**given, **like_this}))
        except SuspiciousOperation:
            return None
        kept = [(name, value) for name, value in response.items() if name != "Content-Length"]
        return kept if response.status_code == 202 else None

    return headers


def _accepted(_: HttpRequest) -> HttpResponse:
    return HttpResponse(status=202, content_type="application/json")


def _is_ordinary(environ: Environ) -> bool:
    """Whether the view would have nothing to say about how the body comes, and no parameters to look at."""
    return (
        environ.get("CONTENT_TYPE", "").lower() in _JSON
        and not environ.get("QUERY_STRING")
        and not environ.get("SCRIPT_NAME")
    )


def _read(environ: Environ) -> bytes | None:
    """The body, which Django can then read again; None where it has something to say about its length."""
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
