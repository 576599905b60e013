"""consumers/{id}/feed/: catch up from a cursor."""

from typing import Annotated, Any, TypedDict
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from deliveries import feed
from deliveries.api.show import EventOut, show_event
from deliveries.feed import Position
from deliveries.models import DeliveryState
from subscriptions import ids
from subscriptions.access.scopes import EVENTS_READ
from subscriptions.api.describe import Operation, Page, choices, id_of
from subscriptions.api.pagination import PAGE, invalid_cursor, limit_of, next_url, read_cursor
from subscriptions.api.views import EVERYONE, ApiView, consumer_or_404

_LARGEST_XID = 2**64 - 1


class FeedDeliveryOut(TypedDict):
    """How it stands with one endpoint."""

    id: Annotated[str, id_of("dlv")]
    endpoint: Annotated[str, id_of("ep")]
    state: Annotated[str, choices(*DeliveryState.values)]


class FeedEventOut(EventOut):
    """An event, and how it stands with each endpoint that wanted it."""

    deliveries: list[FeedDeliveryOut]


class Feed(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": EVENTS_READ}
    parameters = {"GET": PAGE}
    operations = {"GET": Operation("read_feed", Page[FeedEventOut])}

    def get(self, request: Request, consumer: str) -> Response:
        """Catch up: every event for a consumer, oldest first, from a cursor.

        `next` is null only on an empty page: ask the same URL again later, and nothing is missed.
        """
        found = consumer_or_404(request, consumer)
        page = feed.read(found, after=_position(request), limit=limit_of(request))
        results: list[FeedEventOut] = [
            {
                **show_event(event, consumer=str(found)),
                "deliveries": [
                    {
                        "id": delivery.public_id,
                        "endpoint": ids.show("ep", delivery.endpoint_id),
                        "state": delivery.state,
                    }
                    for delivery in page.deliveries[event.id]
                ],
            }
            for event in page.events
        ]
        following = next_url(request, [page.position.xid, page.position.id.hex]) if results else None
        return Response({"results": results, "next": following})


def _position(request: Request) -> Position:
    cursor: list[Any] | None = read_cursor(request)
    if cursor is None:
        return feed.START
    try:
        xid, event_id = cursor
        if not isinstance(xid, str) or not xid.isascii() or not xid.isdigit() or int(xid) > _LARGEST_XID:
            raise invalid_cursor()
        return Position(xid, UUID(hex=event_id))
    except (ValueError, TypeError, AttributeError):
        raise invalid_cursor() from None
