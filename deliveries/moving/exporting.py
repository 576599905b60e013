"""Everything that an import takes, as lines: the catalogue, then consumers, each before its endpoints."""

from collections.abc import Iterator
from typing import Any

from django.utils import timezone

from deliveries.api.endpoints import show_endpoint
from deliveries.moving.lines import LineKind
from deliveries.moving.reading import ConsumerShape, EndpointShape, EventTypeShape
from subscriptions.api.consumers import show_consumer
from subscriptions.api.event_types import show_event_type
from subscriptions.endpoints import headers_of, overlap_until, secrets_of
from subscriptions.models import Consumer, Endpoint, EventType

# So many consumers at a time, and of their endpoints as many as the database hands over at once.
_PAGE = 200


def export(*, with_secrets: bool) -> Iterator[dict[str, Any]]:
    """`VaultError` where a secret cannot be opened."""
    declared = EventType.objects.filter(declared_at__isnull=False).prefetch_related("versions").order_by("name")
    for event_type in declared.iterator(chunk_size=_PAGE):
        yield {"kind": LineKind.EVENT_TYPE, **_kept(EventTypeShape, show_event_type(event_type))}
    for page in _pages():
        for consumer in page:
            yield {"kind": LineKind.CONSUMER, **_kept(ConsumerShape, show_consumer(consumer))}
        living = Endpoint.objects.filter(consumer__in=page, deleted_at__isnull=True).select_related("consumer")
        for endpoint in living.order_by("consumer_id", "id").iterator(chunk_size=_PAGE):
            yield {"kind": LineKind.ENDPOINT, **_endpoint(endpoint), **(_secrets(endpoint) if with_secrets else {})}


def _pages() -> Iterator[list[Consumer]]:
    living = Consumer.objects.filter(deleted_at__isnull=True).order_by("id")
    page = list(living[:_PAGE])
    while page:
        yield page
        page = list(living.filter(id__gt=page[-1].id)[:_PAGE])


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    shown = _kept(EndpointShape, show_endpoint(endpoint))
    # Their names alone are nothing that could be imported.
    del shown["headers"]
    return {**shown, **({"uid": endpoint.uid} if endpoint.uid else {})}


def _secrets(endpoint: Endpoint) -> dict[str, Any]:
    now = timezone.now()
    secret, previous = secrets_of(endpoint, now=now)
    found: dict[str, Any] = {"secret": secret}
    if headers := headers_of(endpoint):
        found["headers"] = headers
    if previous is not None:
        found |= {"previous_secret": previous, "previous_secret_expires_at": overlap_until(endpoint, now=now)}
    return found


def _kept(shape: Any, shown: Any) -> dict[str, Any]:
    """What an import reads, of what the API shows."""
    names = shape().fields
    return {name: value for name, value in shown.items() if name in names}
