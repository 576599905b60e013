"""Step: decide. What an attempt's outcome means for its delivery. Pure: the clock and the jitter are arguments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

JITTER = 0.2


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


Verdict = Delivered | RetryAt | Dead


def decide(
    *,
    status_code: int | None,
    error_kind: str | None,
    attempt_in_round: int,
    schedule: Sequence[int],
    now: datetime,
    jitter: float,
) -> Verdict:
    """`attempt_in_round` is 1 for the first; `jitter` lies in [-1, 1]."""
    if status_code is not None and 200 <= status_code < 300:
        return Delivered()
    if error_kind == "refused_address":
        # Not the receiver's failure, and no later attempt can go better.
        return Dead("refused_address")
    if attempt_in_round >= len(schedule):
        return Dead("attempts_exhausted")
    if error_kind == "worker_lost":
        # Nothing is wrong with the receiver, so there is nothing to wait for.
        return RetryAt(now)
    return RetryAt(now + wait(seconds=schedule[attempt_in_round], jitter=jitter))


def wait(*, seconds: int, jitter: float) -> timedelta:
    return timedelta(seconds=seconds * (1 + JITTER * jitter))
