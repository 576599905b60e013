"""A verified event, and the keys by which it is known again."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """What a request carried, after its signature was verified."""

    id: str
    type: str
    data: dict[str, Any]
    # When it happened, as ISO 8601 text.
    timestamp: str | None = None
    api_version: str | None = None
    ordering_key: str | None = None
    sequence: int | None = None
    # Which try of the sender this was; 1 for the first.
    attempt: int = 1
    # Everything the body held.
    payload: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, payload: Mapping[str, Any], *, attempt: int = 1) -> "Event":
        """From a body that was parsed, or from an event of the feed. Raises ValueError for anything else."""
        event_id, event_type = payload.get("id"), payload.get("type")
        if not isinstance(event_id, str) or not event_id or not isinstance(event_type, str) or not event_type:
            raise ValueError("The body has no `id` and `type`.")
        data, sequence = payload.get("data"), payload.get("sequence")
        return cls(
            id=event_id,
            type=event_type,
            data=data if isinstance(data, dict) else {},
            timestamp=payload.get("timestamp") or payload.get("occurred_at") or payload.get("created_at"),
            api_version=payload.get("api_version"),
            ordering_key=payload.get("ordering_key"),
            sequence=sequence if isinstance(sequence, int) else None,
            attempt=attempt,
            payload=payload,
        )


def key_of_object(event: Event, *, object_id: str | None = None) -> str:
    """A key for a sender that gives the same change a new id each time: the type and the id of what it is about.

    Only where one object has one event of a type: two payments of the same sum are two payments.
    """
    found = object_id or event.data.get("id")
    if not isinstance(found, str | int) or isinstance(found, bool):
        raise ValueError("The event's data has no `id`; say which object it is about.")
    return f"{event.type}:{found}"


def key_of_payload(sender_id: str, payload: Any, *, secret: str) -> str:
    """A key for a sender whose ids are not to be trusted alone: an HMAC over its id and the payload in one fixed form.

    The same content gives the same key however it was written; nobody without the secret can make one.
    """
    canonical = json.dumps(payload, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hmac.new(secret.encode(), f"{len(sender_id)}:{sender_id}:{canonical}".encode(), hashlib.sha256).hexdigest()
