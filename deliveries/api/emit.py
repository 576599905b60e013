"""POST events/ and events/batch/: a body in, its answer out. Whoever asks: the views (events.py), or the application
that answers before Django (answer_before_django.py)."""

from collections.abc import Callable, MutableMapping, Sequence
from functools import wraps
from typing import Any

import orjson
from django.conf import settings

from deliveries.accepting import group_commit
from deliveries.accepting.group_commit import Emit
from deliveries.api.shape import read_event, read_traceparent
from deliveries.api.show import EventOut, show_event
from deliveries.ingest import Accepted, Duplicate, NewEvent, RefusedEvent, Result
from subscriptions.access.caller import Caller
from subscriptions.api.authentication import key_refused
from subscriptions.api.problems import Problem, invalid
from subscriptions.api.rendering import render
from subscriptions.api.views import idempotency_problems, scope_of
from subscriptions.idempotency import StoredAnswer

# Where a request carries the error that answered it before Django: the view raises it, so that it is answered and
# logged as any other.
FAILED = "webhooks.emit_failed"
# Where it says that events were accepted, and that this is logged.
OWN_LINE = "webhooks.own_log_line"
# Where it carries its span, while it is traced (deliveries/tracing/requests.py).
TRACE = "webhooks.trace"

Environ = MutableMapping[str, Any]
EmitBody = Callable[[Environ, Caller, Any], StoredAnswer]


def _traced(emit: EmitBody) -> EmitBody:
    @wraps(emit)
    def traced(environ: Environ, caller: Caller, body: Any) -> StoredAnswer:
        trace = environ.get(TRACE)
        if trace is None:
            return emit(environ, caller, body)
        with trace.accepting(environ):
            return emit(environ, caller, body)

    return traced


@_traced
def emit_one(environ: Environ, caller: Caller, body: Any) -> StoredAnswer:
    new = read_event(body, traceparent=read_traceparent(environ.get("HTTP_TRACEPARENT")))
    if isinstance(new, Problem):
        raise new

    def present(results: Sequence[Result]) -> bytes:
        [result] = results
        if isinstance(result, RefusedEvent):
            raise _problem(result)
        if isinstance(result, Accepted):
            environ[OWN_LINE] = True
        return render(_shown(result, new))

    return _answer(environ, caller, body, [new], present)


@_traced
def emit_batch(environ: Environ, caller: Caller, body: Any) -> StoredAnswer:
    items = body.get("events")
    if not isinstance(items, list) or not 1 <= len(items) <= settings.MAX_BATCH_EVENTS:
        raise invalid([{"pointer": "/events", "detail": f"A list of 1 to {settings.MAX_BATCH_EVENTS} events."}])
    traceparent = read_traceparent(environ.get("HTTP_TRACEPARENT"))
    shapes = [read_event(item, traceparent=traceparent) for item in items]
    # No part is larger than the whole.
    if int(environ["CONTENT_LENGTH"]) > settings.MAX_BODY_BYTES:
        shapes = [_sized(shape, item) for shape, item in zip(shapes, items, strict=True)]

    def present(results: Sequence[Result]) -> bytes:
        rest = iter(results)
        if any(isinstance(result, Accepted) for result in results):
            environ[OWN_LINE] = True
        return render(
            {
                "results": [
                    _refused(shape) if isinstance(shape, Problem) else _show_result(next(rest), shape)
                    for shape in shapes
                ]
            }
        )

    return _answer(environ, caller, body, [shape for shape in shapes if isinstance(shape, NewEvent)], present)


def _answer(
    environ: Environ,
    caller: Caller,
    body: Any,
    new_events: Sequence[NewEvent],
    present: Callable[[Sequence[Result]], bytes],
) -> StoredAnswer:
    with idempotency_problems():
        try:
            return group_commit.emit(Emit(new_events, caller.key_id, scope_of(environ, caller, body), present))
        except group_commit.KeyEnded:
            raise key_refused() from None
        except group_commit.IdContended:
            detail = "An event of this id is being accepted right now. Send it again."
            raise Problem(409, "event_id_in_progress", detail) from None


def _sized(shape: NewEvent | Problem, item: Any) -> NewEvent | Problem:
    if isinstance(shape, NewEvent) and len(orjson.dumps(item)) > settings.MAX_BODY_BYTES:
        limit = settings.MAX_BODY_BYTES // 1024
        return Problem(413, "payload_too_large", f"This event is larger than {limit} KiB.")
    return shape


def _show_result(result: Result, new: NewEvent) -> dict[str, Any]:
    if isinstance(result, RefusedEvent):
        return _refused(_problem(result))
    return {"status": "accepted" if isinstance(result, Accepted) else "duplicate", "event": _shown(result, new)}


def _shown(result: Accepted | Duplicate, new: NewEvent) -> EventOut:
    data = new.data if isinstance(result, Accepted) else None
    return show_event(result.event, consumer=result.consumer, data=data)


def _refused(problem: Problem) -> dict[str, Any]:
    return {"status": "refused", "problem": problem.document()}


def _problem(refused: RefusedEvent) -> Problem:
    status = {"consumer_not_found": 404, "event_id_reused": 409}.get(refused.code, 400)
    return Problem(
        status, refused.code, refused.detail, errors=[{"pointer": refused.pointer, "detail": refused.detail}]
    )
