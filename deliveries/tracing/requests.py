"""Requests to the API as spans: `TracedRequests` stands in front of everything that answers them, emits that are
answered before Django among them.

A request's span is a child of what the caller sent as `traceparent`. While it accepts events, there is a span `accept`
below it, whose context takes the `traceparent`'s place: so it is stored with the events, and attempts are its children.
A request that is not sampled is left alone: what the producer sent goes on to the receivers as it is.
"""

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from django.urls import Resolver404, resolve
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from deliveries.api.emit import TRACE
from deliveries.api.shape import read_traceparent
from deliveries.tracing import traceparent

Environ = dict[str, Any]


class TracedRequests:
    def __init__(self, inner: WSGIApplication, *, tracer: Tracer) -> None:
        self._inner = inner
        self._tracer = tracer

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith("/api/v1/"):
            return self._inner(environ, start_response)
        caller = traceparent.read(read_traceparent(environ.get("HTTP_TRACEPARENT")))
        name = _name(environ)
        span = self._tracer.start_span(name, context=traceparent.parent(caller), kind=SpanKind.SERVER)
        if not span.is_recording():
            return self._inner(environ, start_response)
        _describe(span, environ, route=name.partition(" ")[2])
        environ["HTTP_TRACEPARENT"] = traceparent.write(span)
        environ[TRACE] = RequestTrace(self._tracer, span)

        def start(status_line: str, headers: list[tuple[str, str]], *more: Any) -> Callable[[bytes], object]:
            _note_status(span, int(status_line[:3]))
            return start_response(status_line, headers, *more)

        try:
            return self._inner(environ, start)
        finally:
            span.end()


class RequestTrace:
    """What a traced request carries to where its events are accepted."""

    def __init__(self, tracer: Tracer, request: Span) -> None:
        self._tracer = tracer
        self._request = request

    @contextmanager
    def accepting(self, environ: MutableMapping[str, Any]) -> Iterator[None]:
        """A refusal is the caller's business, and no error of the span."""
        span = self._tracer.start_span("accept", context=set_span_in_context(self._request), kind=SpanKind.PRODUCER)
        environ["HTTP_TRACEPARENT"] = traceparent.write(span)
        try:
            yield
        finally:
            span.end()


def _name(environ: Environ) -> str:
    """With the route's pattern: a span's name must not hold ids."""
    try:
        match = resolve(environ["PATH_INFO"])
    except Resolver404:
        return str(environ["REQUEST_METHOD"])
    route = match.route.removeprefix("^").removesuffix("/?$").replace("(?P<", "{").replace(">[^/]+)", "}")
    return f"{environ['REQUEST_METHOD']} /{route}"


def _describe(span: Span, environ: Environ, *, route: str) -> None:
    span.set_attributes(
        {
            "http.request.method": environ["REQUEST_METHOD"],
            "http.route": route,
            "webhooks.request_id": environ.get("HTTP_X_REQUEST_ID", ""),
        }
    )


def _note_status(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
