"""What the platform answers, field by field. Fields that a newer platform adds are simply there as well."""

from typing import Any, Literal, NotRequired, TypedDict


class Event(TypedDict):
    id: str
    consumer: str
    type: str
    api_version: str | None
    created_at: str
    occurred_at: str | None
    ordering_key: str | None
    sequence: int | None
    data: dict[str, Any] | None
    delivery_count: int


class NewEvent(TypedDict):
    """What `emit_many` takes, one for each event."""

    consumer: str
    type: str
    data: dict[str, Any]
    id: NotRequired[str]
    api_version: NotRequired[str]
    occurred_at: NotRequired[str]
    ordering_key: NotRequired[str]


class FeedDelivery(TypedDict):
    id: str
    endpoint: str
    state: str


class FeedEvent(Event):
    deliveries: list[FeedDelivery]


class Consumer(TypedDict):
    id: str
    uid: str | None
    name: str


class Endpoint(TypedDict):
    id: str
    consumer: str
    url: str
    event_types: list[str]
    description: str
    signature_scheme: str
    status: Literal["active", "paused", "disabled"]
    created_at: str
    # Only in the answer to create and rotate.
    secret: NotRequired[str]


class EventType(TypedDict):
    name: str
    description: str


class Attempt(TypedDict):
    id: str
    number: int
    started_at: str
    duration_ms: int
    url: str
    status_code: int | None
    error_kind: str | None
    request_headers: Any
    response_headers: Any
    response_body: str | None


class Delivery(TypedDict):
    id: str
    event: str
    endpoint: str
    state: Literal["pending", "in_flight", "delivered", "dead"]
    attempt_count: int
    next_attempt_at: str | None
    dead_reason: str | None
    created_at: str
    finished_at: str | None
    attempts: NotRequired[list[Attempt]]


class Replay(TypedDict):
    id: str
    status: Literal["running", "done", "cancelled"]
    matched: int
    replayed: int
    rate_per_second: int | None
    created_at: str
    finished_at: str | None


class ReplayPreview(TypedDict):
    matched: int
    by_endpoint: list[dict[str, Any]]
