"""What goes out: events, deliveries and attempts, with the contract's field names."""

from typing import Any

import orjson

from deliveries.ingest import show_time
from deliveries.models import Attempt, Delivery, Event
from subscriptions import ids


def show_event(event: Event, *, consumer: str) -> dict[str, Any]:
    return {
        "id": event.public_id,
        "consumer": consumer,
        "type": event.type,
        "api_version": event.api_version,
        "created_at": show_time(event.created_at),
        "occurred_at": show_time(event.occurred_at) if event.occurred_at else None,
        "ordering_key": event.ordering_key,
        "sequence": event.sequence,
        "data": orjson.loads(bytes(event.body))["data"],
        "delivery_count": event.delivery_count,
    }


def show_delivery(delivery: Delivery) -> dict[str, Any]:
    """Wants `event` loaded with it."""
    return {
        "id": delivery.public_id,
        "event": delivery.event.public_id,
        "endpoint": ids.show("ep", delivery.endpoint_id),
        "state": delivery.state,
        "attempt_count": delivery.attempt_count,
        "next_attempt_at": show_time(delivery.due_at) if delivery.state == "pending" else None,
        "dead_reason": delivery.dead_reason,
        "created_at": show_time(delivery.created_at),
        "finished_at": show_time(delivery.finished_at) if delivery.finished_at else None,
    }


def show_attempt(attempt: Attempt) -> dict[str, Any]:
    body = attempt.response_body
    return {
        "id": attempt.public_id,
        "number": attempt.number,
        "started_at": show_time(attempt.started_at),
        "duration_ms": attempt.duration_ms,
        "url": attempt.url,
        "status_code": attempt.status_code,
        "error_kind": attempt.error_kind,
        "error_detail": attempt.error_detail,
        "request_headers": attempt.request_headers,
        "response_headers": attempt.response_headers,
        "response_body": None if body is None else bytes(body).decode(errors="replace"),
    }
