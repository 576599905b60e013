"""Where spans go: to the collector that the settings name, in batches, by a thread of the process."""

import os
import socket
from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings

from subscriptions.process.ending import at_end

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

# Of a claim, one for each traced delivery.
_MOST_LINKS = 1_000


@lru_cache(maxsize=1)
def tracer() -> "Tracer | None":
    """This process's; None while no collector is named. Asked for after any fork, since it starts a thread."""
    endpoint: str = settings.OTEL_EXPORTER_OTLP_ENDPOINT
    if not endpoint:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return tracer_to(OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces"))


def tracer_to(exporter: "SpanExporter") -> "Tracer":
    """What is still waiting when the process ends in order is sent then."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create(
        {
            "service.name": settings.OTEL_SERVICE_NAME,
            "service.version": settings.VERSION,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        }
    )
    limits = SpanLimits(max_links=_MOST_LINKS)
    provider = TracerProvider(resource=resource, span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    at_end(provider.shutdown)
    return provider.get_tracer("webhooks-platform", settings.VERSION)
