"""Every call of the API as a value. `Client` and `AsyncClient` make their methods from these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from webhooks_client.protocol import Call, get, post, write
from webhooks_client.types import (
    Consumer,
    Delivery,
    Endpoint,
    Event,
    EventType,
    FeedEvent,
    Replay,
    ReplayPreview,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: list[T]
    # Where the next page begins; None when this was the last one.
    cursor: str | None


@dataclass(frozen=True, slots=True)
class FeedPage:
    events: list[FeedEvent]
    # The position after this page. Store it once the events are dealt with; it never becomes invalid.
    cursor: str | None
    # Whether the feed goes on behind this page. Without, ask again from the same position later.
    more: bool


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def emit(
    *,
    consumer: str,
    type: str,
    data: Mapping[str, Any],
    id: str | None = None,
    api_version: str | None = None,
    occurred_at: datetime | str | None = None,
    ordering_key: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Event]:
    """Emit one event. When this returns, it is stored and will be delivered or shown as a dead letter.

    `id` is your own stable id of the event: sent twice, under whatever idempotency key, it is accepted once.
    """
    event = {
        "consumer": consumer,
        "type": type,
        "data": data,
        "id": id,
        "api_version": api_version,
        "occurred_at": _time(occurred_at),
        "ordering_key": ordering_key,
    }
    return post("events/", _stored, _given(event), idempotency_key=idempotency_key)


def event(id: str, *, consumer: str | None = None) -> Call[Event]:
    """One event by the platform's id or by yours."""
    return get(f"events/{_segment(id)}/", _same, consumer=consumer)


def event_page(
    *,
    consumer: str | None = None,
    type: str | None = None,
    ordering_key: str | None = None,
    state: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Call[Page[Event]]:
    """Newest first."""
    return get(
        "events/",
        _page,
        consumer=consumer,
        type=type,
        ordering_key=ordering_key,
        state=state,
        since=_time(since),
        until=_time(until),
        cursor=cursor,
        limit=limit,
    )


def feed_page(
    consumer: str,
    *,
    cursor: str | None = None,
    limit: int | None = None,
    wait: int | None = None,
    undelivered: bool | None = None,
) -> Call[FeedPage]:
    """The next events of a consumer, oldest first. With `wait`, an empty page is held back for up to so many seconds
    until there is something to show."""

    def read(document: Any) -> FeedPage:
        following = _cursor(document["next"])
        return FeedPage(document["results"], following or cursor, more=following is not None)

    return get(
        f"consumers/{_segment(consumer)}/feed/",
        read,
        wait_seconds=wait or 0,
        cursor=cursor,
        limit=limit,
        wait=wait,
        undelivered=undelivered,
    )


# ── consumers, endpoints, event types ────────────────────────────────────────────────────────────────────────────────


def consumer_page(*, cursor: str | None = None, limit: int | None = None) -> Call[Page[Consumer]]:
    return get("consumers/", _page, cursor=cursor, limit=limit)


def consumer(id: str) -> Call[Consumer]:
    return get(f"consumers/{_segment(id)}/", _same)


def create_consumer(
    *,
    uid: str | None = None,
    name: str | None = None,
    contact_email: str | None = None,
    metadata: Mapping[str, str] | None = None,
    why: str | None = None,
) -> Call[Consumer]:
    fields = {"uid": uid, "name": name, "contact_email": contact_email, "metadata": metadata, "why": why}
    return post("consumers/", _same, _given(fields))


def update_consumer(id: str, **fields: Any) -> Call[Consumer]:
    return write("PATCH", f"consumers/{_segment(id)}/", _same, fields)


def delete_consumer(id: str, *, why: str | None = None) -> Call[None]:
    return _delete(f"consumers/{_segment(id)}/", why)


def endpoint_page(consumer: str, *, cursor: str | None = None, limit: int | None = None) -> Call[Page[Endpoint]]:
    return get(f"consumers/{_segment(consumer)}/endpoints/", _page, cursor=cursor, limit=limit)


def endpoint(id: str) -> Call[Endpoint]:
    return get(f"endpoints/{_segment(id)}/", _same)


def create_endpoint(
    consumer: str, *, url: str, event_types: Sequence[str] | None = None, **settings: Any
) -> Call[Endpoint]:
    """The answer carries the endpoint's `secret`, this once."""
    fields = {"url": url, "event_types": event_types, **settings}
    return post(f"consumers/{_segment(consumer)}/endpoints/", _same, _given(fields))


def update_endpoint(id: str, **settings: Any) -> Call[Endpoint]:
    return write("PATCH", f"endpoints/{_segment(id)}/", _same, settings)


def delete_endpoint(id: str, *, why: str | None = None) -> Call[None]:
    return _delete(f"endpoints/{_segment(id)}/", why)


def rotate_secret(
    id: str, *, overlap_seconds: int | None = None, force: bool | None = None, why: str | None = None
) -> Call[dict[str, Any]]:
    fields = {"overlap_seconds": overlap_seconds, "force": force, "why": why}
    return post(f"endpoints/{_segment(id)}/rotate-secret/", _same, _given(fields))


def pause_endpoint(id: str, *, why: str | None = None) -> Call[Endpoint]:
    return post(f"endpoints/{_segment(id)}/pause/", _same, _given({"why": why}))


def resume_endpoint(id: str, *, why: str | None = None) -> Call[Endpoint]:
    return post(f"endpoints/{_segment(id)}/resume/", _same, _given({"why": why}))


def test_endpoint(id: str) -> Call[dict[str, Any]]:
    return post(f"endpoints/{_segment(id)}/test/", _same, {})


def check_up(id: str) -> Call[dict[str, Any]]:
    """Sends the endpoint a genuine, a forged, an old and a doubled request; the report says how it did."""
    return post(f"endpoints/{_segment(id)}/check-up/", _same, {})


def event_type_page(
    *, archived: bool | None = None, cursor: str | None = None, limit: int | None = None
) -> Call[Page[EventType]]:
    return get("event-types/", _page, archived=archived, cursor=cursor, limit=limit)


def event_type(name: str) -> Call[EventType]:
    return get(f"event-types/{_segment(name)}/", _same)


def create_event_type(
    *,
    name: str,
    description: str | None = None,
    versions: Sequence[Mapping[str, Any]] | None = None,
    why: str | None = None,
) -> Call[EventType]:
    fields = {"name": name, "description": description, "versions": versions, "why": why}
    return post("event-types/", _same, _given(fields))


def update_event_type(name: str, **fields: Any) -> Call[EventType]:
    return write("PATCH", f"event-types/{_segment(name)}/", _same, fields)


def delete_event_type(name: str, *, why: str | None = None) -> Call[None]:
    return _delete(f"event-types/{_segment(name)}/", why)


# ── deliveries and replays ───────────────────────────────────────────────────────────────────────────────────────────


def delivery_page(
    *,
    state: str | None = None,
    consumer: str | None = None,
    endpoint: str | None = None,
    event: str | None = None,
    event_type: str | None = None,
    dead_reason: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Call[Page[Delivery]]:
    """Newest first."""
    return get(
        "deliveries/",
        _page,
        state=state,
        consumer=consumer,
        endpoint=endpoint,
        event=event,
        event_type=event_type,
        dead_reason=dead_reason,
        since=_time(since),
        until=_time(until),
        cursor=cursor,
        limit=limit,
    )


def delivery(id: str) -> Call[Delivery]:
    return get(f"deliveries/{_segment(id)}/", _same)


def replay_delivery(id: str, *, why: str | None = None) -> Call[Delivery]:
    return post(f"deliveries/{_segment(id)}/replay/", _same, _given({"why": why}))


def start_replay(*, rate_per_second: int | None = None, why: str | None = None, **filter: Any) -> Call[Replay]:
    """Deliveries again: by `endpoint`, `consumer`, `event_type`, `since`, `until` and so on, or `all=True`."""
    return post("replays/", _same, _given({"rate_per_second": rate_per_second, "why": why, **_times(filter)}))


def preview_replay(**filter: Any) -> Call[ReplayPreview]:
    """What a replay with this filter would take; nothing is sent."""
    return post("replays/", _same, _given({**_times(filter), "dry_run": True}))


def replay(id: str) -> Call[Replay]:
    return get(f"replays/{_segment(id)}/", _same)


def replay_page(*, cursor: str | None = None, limit: int | None = None) -> Call[Page[Replay]]:
    return get("replays/", _page, cursor=cursor, limit=limit)


def cancel_replay(id: str, *, why: str | None = None) -> Call[Replay]:
    return post(f"replays/{_segment(id)}/cancel/", _same, _given({"why": why}))


# ── what they share ──────────────────────────────────────────────────────────────────────────────────────────────────


def _same(document: Any) -> Any:
    return document


def _stored(document: Any) -> Any:
    """An event that was stored has an id; an empty answer of somebody in between has none."""
    if not isinstance(document["id"], str):
        raise TypeError("The answer is no event.")
    return document


def _page(document: Any) -> Page[Any]:
    return Page(document["results"], _cursor(document["next"]))


def _cursor(next_url: str | None) -> str | None:
    """Only the cursor: the host in that URL is the platform's own view of itself, behind whatever proxy."""
    return parse_qs(urlsplit(next_url).query)["cursor"][0] if next_url else None


def _delete(path: str, why: str | None) -> Call[None]:
    return Call("DELETE", path, lambda _: None, params={"why": why} if why else {})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _times(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _time(value) if isinstance(value, datetime) else value for name, value in fields.items()}


def _time(value: datetime | str | None) -> str | None:
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("A time needs its zone: datetime.now(UTC), for instance.")
    return value.isoformat()


def _segment(text: str) -> str:
    if not text or text in (".", ".."):
        raise ValueError(f"{text!r} is no id.")
    return quote(text, safe="")
