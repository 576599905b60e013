"""POST events/, the short way: a plain event from a caller who was here a moment ago.

Most emits are that, and need none of what a general view does. Whatever is out of the ordinary takes the long way
through `EventList.post`, which knows every rule and every refusal.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from deliveries import gather
from deliveries.api.shape import read_event, read_traceparent
from deliveries.api.show import show_event
from deliveries.ingest import NewEvent, log_accepted
from subscriptions import keys, rate_limit
from subscriptions.api.parsing import loads
from subscriptions.api.problems import Problem
from subscriptions.api.rendering import render
from subscriptions.api.views import PRODUCERS
from subscriptions.keys import Caller


def quickly(request: HttpRequest) -> HttpResponse | None:
    """202 with the event, stored; or None, with nothing done, for the long way."""
    caller, new = _caller(request), _plain_event(request)
    if caller is None or new is None:
        return None
    allowance = rate_limit.take(str(caller.key_id))
    if allowance is not None and allowance.retry_after_seconds is not None:
        return None
    # Taken once, whichever way this request goes on.
    request.allowance = allowance  # type: ignore[attr-defined]
    gathered = gather.accept(new, key_id=caller.key_id, now=timezone.now())
    if gathered is None:
        return None
    log_accepted([gathered.event])
    shown = show_event(gathered.event, consumer=gathered.consumer, data=new.data)
    headers = allowance.headers if allowance else None
    return HttpResponse(render(shown), status=202, content_type="application/json", headers=headers)


def _caller(request: HttpRequest) -> Caller | None:
    scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    caller = keys.remembered(secret) if scheme == "Bearer" else None
    return caller if caller is not None and caller.role in PRODUCERS else None


def _plain_event(request: HttpRequest) -> NewEvent | None:
    meta = request.META
    if meta.get("CONTENT_TYPE") != "application/json" or "HTTP_IDEMPOTENCY_KEY" in meta:
        return None
    try:
        if not 0 < int(meta.get("CONTENT_LENGTH") or 0) <= settings.MAX_BODY_BYTES:
            return None
        shape = read_event(loads(request.body), traceparent=read_traceparent(meta.get("HTTP_TRACEPARENT")))
    except (Problem, ValueError):  # not JSON, or a length that is no number
        return None
    return shape if isinstance(shape, NewEvent) else None
