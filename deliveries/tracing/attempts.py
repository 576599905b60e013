"""Claims and attempts as spans, for the pump.

An attempt is a child of the span that accepted its event, however many hours later, and the receiver's `traceparent`
names the attempt. A claim that got one delivery belongs to that delivery's trace. One that got many is a trace of its
own: it is linked with each of theirs, and each attempt with its claim.
"""

import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer

from deliveries.claim import Claimed
from deliveries.retry import Delivered
from deliveries.settle import Outcome
from deliveries.tracing import exporting, traceparent
from subscriptions import ids


def of_this_process() -> "Traces | None":
    """None while tracing is off."""
    tracer = exporting.tracer()
    return Traces(tracer) if tracer is not None else None


class Traces:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def claimed(self, deliveries: Sequence[Claimed], *, seconds: float) -> Span | None:
        """The span of a claim that is over and took so long; None where none of its deliveries is traced."""
        traced = [context for each in deliveries if (context := _sampled(each))]
        if not traced:
            return None
        now = time.time_ns()
        span = self._tracer.start_span(
            "claim",
            context=traceparent.parent(traced[0]) if len(deliveries) == 1 else Context(),
            kind=SpanKind.CONSUMER,
            links=[Link(context) for context in traced] if len(deliveries) > 1 else None,
            attributes={"webhooks.deliveries": len(deliveries)},
            start_time=now - int(seconds * 1e9),
        )
        if not span.is_recording():
            return None
        span.end(now)
        return span

    def attempt(self, delivery: Claimed, claim: Span | None) -> "AttemptTrace | None":
        """None where it is not sampled: then what the producer sent goes on to the receiver."""
        span = self._tracer.start_span(
            "attempt",
            context=traceparent.parent(traceparent.read(delivery.traceparent)),
            kind=SpanKind.CLIENT,
            links=[Link(claim.get_span_context())] if claim is not None else None,
        )
        return AttemptTrace(delivery, span) if span.is_recording() else None


class AttemptTrace:
    def __init__(self, delivery: Claimed, span: Span) -> None:
        # The same, but what it sends names the attempt.
        self.delivery = delivery._replace(traceparent=traceparent.write(span))
        self._span = span

    def end(self, outcome: Outcome) -> None:
        delivery, span = self.delivery, self._span
        target = urlsplit(delivery.url)
        span.set_attributes(
            {
                "http.request.method": "POST",
                # Without path and query: they may hold what opens something.
                "server.address": target.hostname or "",
                "webhooks.delivery": ids.show("dlv", delivery.id),
                "webhooks.event": delivery.producer_id or ids.show("evt", delivery.event_id),
                "webhooks.event_type": delivery.event_type,
                "webhooks.endpoint": ids.show_often("ep", delivery.endpoint_id),
                "webhooks.consumer": ids.show_often("con", delivery.consumer_id),
                "webhooks.attempt": delivery.number,
                "webhooks.verdict": type(outcome.verdict).__name__,
            }
        )
        if outcome.status_code is not None:
            span.set_attribute("http.response.status_code", outcome.status_code)
        if not isinstance(outcome.verdict, Delivered):
            span.set_attribute("error.type", outcome.error_kind or "")
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _sampled(delivery: Claimed) -> SpanContext | None:
    context = traceparent.read(delivery.traceparent)
    return context if context is not None and context.trace_flags.sampled else None
