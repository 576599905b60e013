"""What goes out: events, deliveries and attempts, with the contract's field names."""

from typing import Any

import orjson

from deliveries.accepting.insert import Stored
from deliveries.endpoint_tests.test_event import Trial
from deliveries.ingest import show_time
from deliveries.models import Attempt, Delivery, Event, Replay
from deliveries.send import Answered
from subscriptions import ids


def show_event(event: Event | Stored, *, consumer: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """`data` spares whoever has it at hand the reading of the body."""
    if data is None and event.body is not None:
        data = orjson.loads(bytes(event.body))["data"]
    return {
        "id": event.public_id,
        "consumer": consumer,
        "type": event.type,
        "api_version": event.api_version,
        "created_at": show_time(event.created_at),
        "occurred_at": show_time(event.occurred_at) if event.occurred_at else None,
        "ordering_key": event.ordering_key,
        "sequence": event.sequence,
        # Gone when its retention has ended.
        "data": data,
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


def show_replay(replay: Replay) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": replay.public_id,
        "status": replay.status,
        "matched": replay.matched,
        "replayed": replay.replayed,
        "rate_per_second": replay.rate_per_second,
        "created_at": show_time(replay.created_at),
        "finished_at": show_time(replay.finished_at) if replay.finished_at else None,
        "why": replay.why,
    }
    # Too many to count before they go: the job counts on as it goes.
    return shown | ({"matched_is_minimum": True} if replay.matched_is_minimum else {})


def show_trial(trial: Trial) -> dict[str, Any]:
    result = trial.result
    shown: dict[str, Any] = {
        "event": trial.event_id,
        "success": trial.succeeded,
        "started_at": show_time(result.started_at),
        "duration_ms": result.duration_ms,
        "url": trial.request.url,
        "request_headers": trial.request_headers,
        "request_body": trial.request.body.decode(),
        "status_code": None,
        "error_kind": None,
        "error_detail": None,
        "response_headers": None,
        "response_body": None,
    }
    if isinstance(result, Answered):
        return shown | {
            "status_code": result.status_code,
            "response_headers": result.headers,
            "response_body": result.body.decode(errors="replace"),
        }
    return shown | {"error_kind": result.error_kind, "error_detail": result.detail}
