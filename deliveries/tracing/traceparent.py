"""W3C trace context, in and out: a `traceparent` as OpenTelemetry's context, and a span as a `traceparent`."""

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, set_span_in_context


def read(traceparent: str | None) -> SpanContext | None:
    """Of one that is well-formed (`read_traceparent`); None where its ids are all zeros."""
    if not traceparent:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    found = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    return found if found.is_valid else None


def parent(context: SpanContext | None) -> Context:
    """An empty one makes the span the first of its trace."""
    return set_span_in_context(NonRecordingSpan(context), Context()) if context else Context()


def write(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
