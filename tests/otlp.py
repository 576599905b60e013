"""An OpenTelemetry collector on a real socket: it takes OTLP over HTTP in protobuf, and remembers the spans."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.local import wait_until
from tests.receiver import Receiver, Reply, running_receiver


@dataclass(frozen=True)
class Seen:
    """One span, with its ids in hex."""

    name: str
    service: str
    trace_id: str
    span_id: str
    # Empty for the first of a trace.
    parent_id: str
    kind: int
    # The span ids that it is linked with.
    links: tuple[str, ...]
    attributes: dict[str, Any]
    is_error: bool
    starts: int
    ends: int


class Collector:
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.endpoint = receiver.url.removesuffix("/hook")

    def spans(self, name: str = "") -> list[Seen]:
        """All that arrived, or those of a name."""
        found = [span for each in list(self._receiver.received) for span in _read(each.path, each.body)]
        return [span for span in found if name in ("", span.name)]

    def wait_for(self, name: str, count: int = 1) -> list[Seen]:
        wait_until(lambda: len(self.spans(name)) >= count, seconds=30)
        return self.spans(name)


@contextmanager
def running_collector() -> Iterator[Collector]:
    with running_receiver() as receiver:
        receiver.answer = lambda received: Reply(body=b"", headers={"Content-Type": "application/x-protobuf"})
        yield Collector(receiver)


def _read(path: str, body: bytes) -> Iterator[Seen]:
    assert path == "/v1/traces"
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Seen(
                    name=span.name,
                    service=service,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    kind=span.kind,
                    links=tuple(link.span_id.hex() for link in span.links),
                    attributes=_attributes(span.attributes),
                    is_error=span.status.code == 2,
                    starts=span.start_time_unix_nano,
                    ends=span.end_time_unix_nano,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
