"""Step: decide. What an attempt's outcome means for its delivery. Pure: the clock and the jitter are arguments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

JITTER = 0.2
LONGEST_RETRY_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver answered 2xx."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Not this time. Due again at `at`."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Dead:
    """No further attempt, until somebody replays it."""

    reason: str


ABORTED = Dead("aborted_by_receiver")

Verdict = Delivered | RetryAt | Dead


class Facts(NamedTuple):
    """What is known of an attempt: an answer, or the kind of error that stood in its place."""

    status_code: int | None
    error_kind: str | None
    # The receiver's `webhook-delivery` header, lower case.
    control: str | None = None
    retry_after: datetime | None = None


def is_success(status_code: int | None) -> bool:
    """2xx and nothing else: a redirect is not followed, and an attempt without an answer has no status."""
    return status_code is not None and 200 <= status_code < 300


def decide(facts: Facts, *, attempt_in_round: int, schedule: Sequence[int], now: datetime, jitter: float) -> Verdict:
    """`attempt_in_round` is 1 for the first; `jitter` lies in [-1, 1]."""
    if is_success(facts.status_code):
        return Delivered()
    if facts.error_kind == "refused_address":
        # Not the receiver's failure, and no later attempt can go better.
        return Dead("refused_address")
    if disables(facts):
        return Dead("endpoint_disabled")
    if facts.control == "abort-message":
        return ABORTED
    if attempt_in_round >= len(schedule):
        return Dead("attempts_exhausted")
    if facts.error_kind == "worker_lost":
        # Nothing is wrong with the receiver, so there is nothing to wait for.
        return RetryAt(now)
    scheduled = now + timedelta(seconds=schedule[attempt_in_round] * (1 + JITTER * jitter))
    if facts.retry_after is None:
        return RetryAt(scheduled)
    # Earlier than the schedule once, then never: "in a second", said every time, would use up a day's attempts in
    # seconds. The endpoint as a whole is held back for as long as it asked, each time.
    return RetryAt(facts.retry_after if attempt_in_round == 1 else max(facts.retry_after, scheduled))


def disables(facts: Facts) -> str | None:
    """Why the receiver wants nothing more, if it said so."""
    if facts.status_code == 410:
        return "The receiver answered 410 Gone."
    if facts.control == "disable":
        return "The receiver answered with `webhook-delivery: disable`."
    return None


def read_retry_after(value: str | None, *, status_code: int, now: datetime) -> datetime | None:
    """Seconds or an HTTP date, on 429 and 503. Nonsense counts as absent; more than a day counts as a day."""
    if value is None or status_code not in (429, 503):
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        # Nine digits are thirty years: enough to know, and safe to count with.
        seconds = int(value) if len(value) <= 9 else 10**9
        return now + min(timedelta(seconds=seconds), LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the second for years and zones of twenty digits
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return None if at < now else min(at, now + LONGEST_RETRY_AFTER)
