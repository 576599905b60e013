"""Part of decide: what a run of outcomes means for an endpoint as a whole. Pure.

Three things hold an endpoint back, and all of them park its backlog instead of using it up: a receiver that asks for a
pause (429, 502, 503, 504, Retry-After), an open breaker with its cool-down, and the slow start after it has closed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from deliveries import retry
from deliveries.health.models import NoticeKind
from deliveries.retry import Facts

# A pause nobody put a number to is no longer than this.
_LONGEST_UNASKED_PAUSE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Breaker:
    """When it opens, and how its cool-down grows (seconds)."""

    failures: int
    first_cooldown: int
    longest_cooldown: int


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """An endpoint's health, as its row in the database says."""

    endpoint_id: UUID
    max_in_flight: int
    opens_at: datetime
    failure_count: int
    failing_since: datetime | None
    last_failure_at: datetime | None
    breaker_open: bool
    cooldown_seconds: int
    allowance: int | None
    warning_count: int
    recovery_owed: bool
    last_error_kind: str | None = None

    @property
    def is_well(self) -> bool:
        return self.failure_count == 0 and self.allowance is None and not self.recovery_owed


class Signal(NamedTuple):
    """What one attempt says about its endpoint."""

    # None: neither well nor ill.
    succeeded: bool | None
    # The receiver asks to be left alone for this long.
    pause: timedelta | None = None
    # The receiver wants nothing more.
    disable_reason: str | None = None
    # How a failed one ended.
    error_kind: str | None = None


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    lane: EndpointHealth
    changes: list[tuple[NoticeKind, str]]
    disable_reason: str | None


def judge(lane: EndpointHealth, signals: Iterable[Signal], *, breaker: Breaker, now: datetime) -> HealthVerdict:
    """The lane after these outcomes, taken in order, and what changed for people to know."""
    changes: list[tuple[NoticeKind, str]] = []
    disable_reason = None
    for signal in signals:
        was_open, owed_recovery = lane.breaker_open, lane.recovery_owed
        if signal.succeeded is not None:
            lane = _after_success(lane) if signal.succeeded else _after_failure(lane, signal, breaker=breaker, now=now)
        if signal.pause is not None:
            lane = replace(lane, opens_at=max(lane.opens_at, now + signal.pause))
        if lane.breaker_open and not was_open:
            changes.append((NoticeKind.BREAKER_OPENED, f"{lane.failure_count} failures in a row"))
        if was_open and not lane.breaker_open:
            changes.append((NoticeKind.BREAKER_CLOSED, "the probe succeeded; the backlog drains with a slow start"))
        if signal.succeeded and owed_recovery:
            changes.append((NoticeKind.RECOVERED, "a delivery succeeded"))
        disable_reason = disable_reason or signal.disable_reason
    return HealthVerdict(lane=lane, changes=changes, disable_reason=disable_reason)


def read_signal(facts: Facts, verdict: retry.Verdict, *, now: datetime) -> Signal | None:
    """What an attempt says about its endpoint; None when the failure was not the receiver's."""
    if facts.error_kind in ("refused_address", "shortage", "internal", "worker_lost"):
        return None
    if facts.control == "abort-message" and verdict == retry.ABORTED:
        # It refuses one message for good, and is well enough to say so. A pause counts if it asks for one by name.
        return Signal(succeeded=None, pause=facts.retry_after - now) if facts.retry_after else None
    succeeded = isinstance(verdict, retry.Delivered)
    return Signal(
        succeeded=succeeded,
        pause=_pause(facts, verdict, now=now),
        disable_reason=retry.disables(facts),
        error_kind=None if succeeded else facts.error_kind or f"http_{facts.status_code}",
    )


def _pause(facts: Facts, verdict: retry.Verdict, *, now: datetime) -> timedelta | None:
    if facts.retry_after is not None:
        return facts.retry_after - now
    if facts.status_code in (429, 502, 503, 504):
        own_wait = verdict.at - now if isinstance(verdict, retry.RetryAt) else _LONGEST_UNASKED_PAUSE
        return min(own_wait, _LONGEST_UNASKED_PAUSE)
    return None


def _after_success(lane: EndpointHealth) -> EndpointHealth:
    allowance = lane.allowance
    if allowance is not None:
        # One more for each 2xx: twice as many per round trip, and never a jump a recovering receiver did not earn.
        allowance = None if allowance + 1 >= lane.max_in_flight else allowance + 1
    return replace(
        lane,
        failure_count=0,
        failing_since=None,
        last_failure_at=None,
        last_error_kind=None,
        breaker_open=False,
        cooldown_seconds=0,
        allowance=allowance,
        warning_count=0,
        recovery_owed=False,
    )


def _after_failure(lane: EndpointHealth, signal: Signal, *, breaker: Breaker, now: datetime) -> EndpointHealth:
    lane = replace(
        lane,
        failure_count=lane.failure_count + 1,
        failing_since=lane.failing_since or now,
        last_failure_at=now,
        last_error_kind=signal.error_kind,
    )
    if lane.breaker_open and lane.opens_at > now:
        # One of those still in flight when the breaker opened: it says nothing new.
        return lane
    if not lane.breaker_open and lane.failure_count < breaker.failures:
        return lane
    cooldown = min(lane.cooldown_seconds * 2 or breaker.first_cooldown, breaker.longest_cooldown)
    return replace(
        lane,
        breaker_open=True,
        allowance=1,
        cooldown_seconds=cooldown,
        opens_at=max(lane.opens_at, now + timedelta(seconds=cooldown)),
    )
