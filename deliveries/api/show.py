"""What goes out: events, deliveries, attempts, replay jobs and tests, with the contract's field names."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import orjson

from deliveries.accepting.insert import Stored
from deliveries.endpoint_tests.diagnose import Verdict
from deliveries.endpoint_tests.test_event import Trial
from deliveries.ingest import show_time
from deliveries.models import Attempt, Delivery, Event
from deliveries.replaying.models import Replay, ReplayStatus
from deliveries.replaying.results import Results
from deliveries.send import Answered
from deliveries.states import DeliveryState
from subscriptions import ids
from subscriptions.api.describe import Time, choices, id_of
from subscriptions.api.problems import ProblemOut

# One pair per header, in the order in which they came: a name may come twice.
Headers = Sequence[Annotated[Sequence[str], {"minItems": 2, "maxItems": 2}]]


class EventOut(TypedDict):
    """Something that happened. It never changes."""

    id: Annotated[str, "Yours where you gave one, else ours (`evt_…`). The same on every retry and replay."]
    consumer: Annotated[str, "Whom it is addressed to: the consumer's uid, or its id where it has none."]
    type: str
    api_version: str
    created_at: Annotated[Time, "When it was accepted."]
    occurred_at: Annotated[Time | None, "When it happened, where you said so."]
    ordering_key: str | None
    sequence: Annotated[int | None, "Its place among the events of its consumer and ordering key, without gaps."]
    data: Annotated[dict[str, Any] | None, "As it was sent; null once its retention has ended."]
    delivery_count: Annotated[int, "How many endpoints wanted it."]


def show_event(event: Event | Stored, *, consumer: str, data: dict[str, Any] | None = None) -> EventOut:
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


class BatchResultOut(TypedDict):
    """What became of one event of a batch."""

    status: Annotated[Literal["accepted", "duplicate", "refused"], "`duplicate`: its id was accepted before."]
    event: NotRequired[Annotated[EventOut, "Where it was accepted, now or before."]]
    problem: NotRequired[Annotated[ProblemOut, "Where it was refused."]]


class BatchOut(TypedDict):
    """One result per event, in their order."""

    results: list[BatchResultOut]


class DeliveryOut(TypedDict):
    """One event owed to one endpoint."""

    id: Annotated[str, id_of("dlv")]
    event: Annotated[str, "The event's id."]
    endpoint: Annotated[str, id_of("ep")]
    state: Annotated[str, choices(*DeliveryState.values)]
    attempt_count: int
    next_attempt_at: Annotated[Time | None, "While it is pending; also where its endpoint is not active then."]
    dead_reason: Annotated[str | None, "Of a dead letter: why nothing more is tried."]
    created_at: Time
    finished_at: Annotated[Time | None, "When it was delivered, or died."]


def show_delivery(delivery: Delivery) -> DeliveryOut:
    """Wants `event` loaded with it."""
    return {
        "id": delivery.public_id,
        "event": delivery.event.public_id,
        "endpoint": ids.show("ep", delivery.endpoint_id),
        "state": delivery.state,
        "attempt_count": delivery.attempt_count,
        "next_attempt_at": show_time(delivery.due_at) if delivery.state == DeliveryState.PENDING else None,
        "dead_reason": delivery.dead_reason,
        "created_at": show_time(delivery.created_at),
        "finished_at": show_time(delivery.finished_at) if delivery.finished_at else None,
    }


class AttemptOut(TypedDict):
    """One request, and what came back. Secrets are taken out."""

    id: Annotated[str, id_of("att")]
    number: int
    started_at: Time
    duration_ms: int
    url: Annotated[str, "As it was then."]
    status_code: Annotated[int | None, "null where no answer came."]
    error_kind: Annotated[str | None, "Of a failure: `http_503`, `read_timeout`, `tls`, `refused_address`, …"]
    error_detail: Annotated[str | None, "What was seen, in a sentence."]
    request_headers: Headers | None
    response_headers: Headers | None
    response_body: Annotated[str | None, "The first 8 KiB."]


class DeliveryDetailOut(DeliveryOut):
    """A delivery with its attempts."""

    attempts: NotRequired[Annotated[list[AttemptOut], "For keys with the scope `attempts:read`."]]


def show_attempt(attempt: Attempt) -> AttemptOut:
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


class ReplayOut(TypedDict):
    """A job that sends deliveries again."""

    id: Annotated[str, id_of("rpl")]
    status: Annotated[str, choices(*ReplayStatus.values)]
    matched: Annotated[int, "How many it takes."]
    replayed: Annotated[int, "How many it has put back so far."]
    rate_per_second: int | None
    created_at: Time
    finished_at: Time | None
    why: str
    matched_is_minimum: NotRequired[Annotated[bool, "There are more: the job counts on as it goes."]]


class ReplayDetailOut(ReplayOut):
    """A replay job, and what has become of the deliveries that it put back."""

    delivered: int
    dead_again: int
    waiting: int


def show_replay(replay: Replay) -> ReplayOut:
    shown: ReplayOut = {
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
    if replay.matched_is_minimum:
        shown["matched_is_minimum"] = True
    return shown


def show_replay_detail(replay: Replay, results: Results) -> ReplayDetailOut:
    return {
        **show_replay(replay),
        "delivered": results.delivered,
        "dead_again": results.dead_again,
        "waiting": results.waiting,
    }


class TrialOut(TypedDict):
    """A test event, and what came back."""

    event: Annotated[str, id_of("evt")]
    type: str
    success: Annotated[bool, "Whether the answer was a 2xx."]
    started_at: Time
    duration_ms: int
    url: str
    status_code: int | None
    error_kind: str | None
    request_headers: NotRequired[Annotated[Headers, "This and what follows: with the scope `attempts:read`."]]
    request_body: NotRequired[str]
    error_detail: NotRequired[str | None]
    response_headers: NotRequired[Headers | None]
    response_body: NotRequired[str | None]


def show_trial(trial: Trial) -> TrialOut:
    result = trial.result
    shown: TrialOut = {
        "event": trial.event_id,
        "type": trial.type,
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
        shown["status_code"] = result.status_code
        shown["response_headers"] = result.headers
        shown["response_body"] = result.body.decode(errors="replace")
    else:
        shown["error_kind"], shown["error_detail"] = result.error_kind, result.detail
    return shown


class FindingOut(TypedDict):
    """The answer to one question about a receiver."""

    name: str
    title: str
    verdict: Verdict
    sent: Annotated[str, "What was sent to find out."]
    received: Annotated[str | None, "What came back; null without the scope `attempts:read`."]
    meaning: str
    advice: Annotated[str, "What to do about it; empty where nothing is to be done."]


class CheckUpOut(TypedDict):
    """The report of a check-up."""

    endpoint: Annotated[str, id_of("ep")]
    url: str
    signature_scheme: str
    checked_at: Time
    verdict: Annotated[Verdict, "That of the worst finding."]
    findings: list[FindingOut]
