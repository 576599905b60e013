"""A delivery's story: what happened in order, the waits between, each request and response, what comes next. Pure."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from deliveries.browse import words
from deliveries.models import Attempt, Delivery
from deliveries.pump import forms
from deliveries.pump.prepare import source_of
from deliveries.retry import is_success
from deliveries.states import DeliveryState
from subscriptions.models import Endpoint, EndpointStatus


@dataclass(frozen=True)
class ShownBody:
    text: str
    size: int
    is_json: bool


@dataclass(frozen=True)
class Chapter:
    """One attempt."""

    attempt: Attempt
    # Time since the attempt before it, or since the event was accepted.
    wait_seconds: float
    starts_new_round: bool
    succeeded: bool
    outcome: str
    explanation: str
    request_headers: list[tuple[str, str]]
    response_headers: list[tuple[str, str]]
    response: ShownBody | None
    curl: str
    # How long it took beside the longest of them (0–100).
    share: int


def chapters(delivery: Delivery, attempts: Sequence[Attempt], *, sent: bytes | None) -> list[Chapter]:
    longest = max([attempt.duration_ms for attempt in attempts] or [0]) or 1
    told, before = [], delivery.created_at
    for attempt in attempts:
        new_round = delivery.round_base > 0 and attempt.number == delivery.round_base + 1
        since = max(before, delivery.round_started_at) if new_round else before
        headers = _pairs(attempt.request_headers)
        told.append(
            Chapter(
                attempt=attempt,
                wait_seconds=max(0.0, (attempt.started_at - since).total_seconds()),
                starts_new_round=new_round,
                succeeded=is_success(attempt.status_code),
                outcome=words.outcome(attempt.status_code, attempt.error_kind),
                explanation=attempt.error_detail or words.explanation(attempt.error_kind),
                request_headers=headers,
                response_headers=_pairs(attempt.response_headers),
                response=None if attempt.response_body is None else body_of(bytes(attempt.response_body)),
                curl=curl(attempt.url, headers, sent),
                share=max(2, 100 * attempt.duration_ms // longest),
            )
        )
        before = attempt.started_at
    return told


def body_of(raw: bytes) -> ShownBody:
    """Pretty where it is JSON. What a receiver sent may be anything, so it is text for the template to escape."""
    text = raw.decode(errors="replace")
    try:
        return ShownBody(json.dumps(json.loads(text), indent=2, ensure_ascii=False), len(raw), True)
    except (ValueError, RecursionError):
        return ShownBody(text, len(raw), False)


def sent_body(body: bytes | None, endpoint: Endpoint) -> bytes | None:
    """The bytes on the wire, as long as the payload is kept."""
    if body is None:
        return None
    return forms.of(endpoint.payload_mode, body, source=source_of(endpoint.consumer_id)).body


def curl(url: str, headers: Sequence[tuple[str, str]], body: bytes | None) -> str:
    lines = [f"curl -X POST {shlex.quote(url)}"]
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers]
    if body is not None:
        lines.append(f"--data-binary {shlex.quote(body.decode(errors='replace'))}")
    return " \\\n  ".join(lines)


def what_next(delivery: Delivery, *, held: bool, now: datetime) -> str:
    """What the engine will do with it by itself, in a sentence."""
    endpoint = delivery.endpoint
    if delivery.state == DeliveryState.IN_FLIGHT:
        return _("A worker is sending it right now.")
    if delivery.state != DeliveryState.PENDING:
        return ""
    if endpoint.deleted_at is not None:
        return _("Its endpoint was deleted, so it will become a dead letter in a moment.")
    if held:
        return _("A kill switch is on. It goes out when the switch is taken off.")
    if endpoint.status == EndpointStatus.PAUSED:
        return _("Its endpoint is paused. It goes out when somebody resumes the endpoint.")
    if endpoint.status == EndpointStatus.DISABLED:
        return _("Its endpoint is disabled. It goes out when somebody resumes the endpoint.")
    if delivery.blocked:
        text = _("It waits for the deliveries before it with the ordering key %(key)s.")
        return text % {"key": delivery.ordering_key}
    return _next_attempt(delivery, now=now)


def _next_attempt(delivery: Delivery, *, now: datetime) -> str:
    lane = delivery.endpoint.lane
    opens_at = max(delivery.due_at, lane.opens_at)
    given = {
        "number": delivery.attempt_count + 1,
        "when": words.relative(opens_at, now=now),
        "at": f"{opens_at:%H:%M:%S} UTC",
    }
    if lane.breaker_open and lane.opens_at > now:
        given["when"] = words.relative(lane.opens_at, now=now)
        return _("Its endpoint's breaker is open: the next probe goes out %(when)s.") % given
    if lane.opens_at > max(now, delivery.due_at):
        return _("Attempt %(number)s %(when)s, at %(at)s: nothing is sent to its endpoint before then.") % given
    if opens_at <= now:
        text = _("Attempt %(number)s is due: it goes out as soon as its endpoint's limits and a free worker allow.")
        return text % given
    return _("Attempt %(number)s %(when)s, at %(at)s.") % given


def _pairs(headers: object) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in headers] if isinstance(headers, list) else []
