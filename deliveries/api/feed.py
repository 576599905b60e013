"""consumers/{id}/feed/: catch up from a cursor."""

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.api.show import EventOut, show_event
from deliveries.browse import feed
from deliveries.browse.feed import FeedPosition, FeedReader
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.access.scopes import EVENTS_READ
from subscriptions.api.describe import Operation, Page, Parameter, choices, id_of
from subscriptions.api.pagination import PAGE, flag_of, invalid_cursor, limit_of, next_url, read_cursor
from subscriptions.api.problems import Problem
from subscriptions.api.views import EVERYONE, ApiView, consumer_or_404

_LARGEST_XID = 2**64 - 1
MAX_WAIT_SECONDS = 30

# Where a request carries what it waits for, to whoever can wait without holding up others
# (webhooks_platform/web/long_poll.py). Gone once it has waited.
WAITS_FOR = "webhooks.waits_for"
HAS_WAITED = "webhooks.has_waited"

_WAIT = Parameter(
    "wait",
    "Hold an empty page back for up to so many seconds, until there is something to show. Answered at once where too"
    " many wait already.",
    {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0},
)
_UNDELIVERED = Parameter(
    "undelivered",
    "Only events that have not reached every endpoint they are owed to, and those that no endpoint wanted. A page may"
    " then be empty and still have a next one.",
    {"type": "boolean", "default": False},
)


@dataclass(frozen=True, slots=True)
class FeedWait:
    place: FeedReader
    seconds: int


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
    parameters = {"GET": (*PAGE, _WAIT, _UNDELIVERED)}
    operations = {"GET": Operation("read_feed", Page[FeedEventOut])}

    def get(self, request: Request, consumer: str) -> Response:
        """Catch up: every event for a consumer, oldest first, from a cursor.

        `next` is null only where nothing follows: ask the same URL again later, and nothing is missed.
        """
        seconds, after = _seconds(request), _position(request)
        found = consumer_or_404(request, consumer)
        page = feed.read(found, after=after, limit=limit_of(request), undelivered=flag_of(request, "undelivered"))
        moved = page.position != after
        if seconds and not moved and not request.META.get(HAS_WAITED):
            request.META[WAITS_FOR] = FeedWait(FeedReader(found.id, after), seconds)
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
        following = next_url(request, [page.position.xid, page.position.id.hex]) if moved else None
        return Response({"results": results, "next": following})


def _seconds(request: Request) -> int:
    text = request.query_params.get("wait", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 2 or int(text) > MAX_WAIT_SECONDS:
        raise Problem(400, "invalid_parameter", f"`wait` is a number of seconds from 0 to {MAX_WAIT_SECONDS}.")
    return int(text)


def _position(request: Request) -> FeedPosition:
    cursor: list[Any] | None = read_cursor(request)
    if cursor is None:
        return feed.START
    try:
        xid, event_id = cursor
        if not isinstance(xid, str) or not xid.isascii() or not xid.isdigit() or int(xid) > _LARGEST_XID:
            raise invalid_cursor()
        return FeedPosition(xid, UUID(hex=event_id))
    except (ValueError, TypeError, AttributeError):
        raise invalid_cursor() from None
