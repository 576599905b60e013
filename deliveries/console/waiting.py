"""What keeps deliveries waiting, in words with advice, for the overview and for an endpoint's page. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from deliveries.browse.backlog import Backlog, Owed, WaitReason

# A delivery that could go out and has waited longer than this is worth somebody's attention.
LATE_AFTER = timedelta(seconds=30)
# An endpoint that is full and takes longer than this to answer is full because it is slow (milliseconds).
SLOW_FROM_MS = 1000
# Workers whose slots are taken to this share have none to spare.
_BUSY_SHARE = 0.9
_SHOWN_ENDPOINTS = 5


@dataclass(frozen=True, slots=True)
class WaitAdvice:
    """A reason to wait, for an operator: its name, what it means, and what to do about it."""

    title: str
    meaning: str
    what_to_do: str
    tone: str = "wait"


ADVICE: dict[str, WaitAdvice] = {
    WaitReason.HELD: WaitAdvice("Held", "A kill switch is on.", "Turn it off under Switches once the reason is gone."),
    WaitReason.PAUSED: WaitAdvice("Paused", "Somebody paused it.", "Resume it, or leave that to its consumer."),
    WaitReason.DISABLED: WaitAdvice(
        "Disabled",
        "It failed for days, answered 410, or somebody disabled it.",
        "Resume it once its receiver works.",
        "bad",
    ),
    WaitReason.FAILING: WaitAdvice(
        "Failing",
        "Its circuit breaker is open: one probe at a time goes out.",
        "See on its page how it fails. It heals by itself with the first 2xx.",
        "bad",
    ),
    WaitReason.ASKED_TO_WAIT: WaitAdvice(
        "Asked to wait",
        "The receiver asked for a pause (Retry-After, 429, 502, 503 or 504).",
        "Nothing: it goes on when the pause is over.",
    ),
    WaitReason.RATE_LIMITED: WaitAdvice(
        "Rate-limited",
        "More comes than its rate limit lets through.",
        "Raise its requests per second if the receiver can take more.",
    ),
    WaitReason.RECOVERING: WaitAdvice(
        "Recovering", "It has just come back; its backlog drains with a slow start.", "Nothing: it speeds up by itself."
    ),
    WaitReason.FULL: WaitAdvice(
        "Full",
        "All requests its concurrency allows are in flight.",
        "Raise its concurrency if the receiver can take more. More workers would not help.",
    ),
    "slow": WaitAdvice(
        "Slow",
        "All requests its concurrency allows are in flight, and each takes long.",
        "Ask its owner to answer first and work afterwards, or raise its concurrency. More workers would not help.",
    ),
    WaitReason.SERVED: WaitAdvice("Going out", "Its deliveries go out.", "Nothing, while the backlog shrinks."),
    WaitReason.WORKER: WaitAdvice("Waiting for a worker", "It may go, and no worker takes it.", "See above.", "bad"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Endpoints that wait for the same reason, those owed most first."""

    advice: WaitAdvice
    endpoint_count: int
    due: int
    oldest_due_at: datetime | None
    # Of the first few.
    endpoint_ids: Sequence[UUID]

    @property
    def not_shown(self) -> int:
        return self.endpoint_count - len(self.endpoint_ids)


def late(backlog: Backlog, *, now: datetime) -> list[Owed]:
    """The endpoints with a delivery that has been due for long."""
    return [owed for owed in backlog.endpoints if owed.oldest_due_at and now - owed.oldest_due_at > LATE_AFTER]


def advise(owed: Owed, *, slow: Iterable[UUID] = ()) -> WaitAdvice:
    return ADVICE[reason(owed, slow=slow)]


def reason(owed: Owed, *, slow: Iterable[UUID]) -> str:
    return "slow" if owed.wait is WaitReason.FULL and owed.endpoint_id in slow else str(owed.wait)


def groups(waiting: Sequence[Owed], *, slow: Iterable[UUID]) -> list[WaitGroup]:
    """The reasons that apply, in the order of `ADVICE`."""
    by_reason: dict[str, list[Owed]] = {}
    for owed in sorted(waiting, key=lambda each: -each.due):
        by_reason.setdefault(reason(owed, slow=slow), []).append(owed)
    return [
        WaitGroup(
            advice,
            len(by_reason[name]),
            sum(owed.due for owed in by_reason[name]),
            min(owed.oldest_due_at for owed in by_reason[name] if owed.oldest_due_at),
            [owed.endpoint_id for owed in by_reason[name][:_SHOWN_ENDPOINTS]],
        )
        for name, advice in ADVICE.items()
        if name in by_reason
    ]


def worker_alarm(waiting: Sequence[Owed], *, in_flight: int, slots: int) -> str | None:
    """What to do about deliveries that no worker takes; None where the workers are not what is missing.

    `slots`: how many requests the running pumps may have in flight in all.
    """
    untaken = sum(owed.wait is WaitReason.WORKER for owed in waiting)
    served = sum(owed.wait is WaitReason.SERVED for owed in waiting)
    where = f"{untaken or served} endpoint{'s' if (untaken or served) != 1 else ''}"
    if slots and in_flight >= _BUSY_SHARE * slots and (untaken or served):
        return (
            f"Too few delivery workers: {in_flight} of {slots} slots are taken, and deliveries to {where} have been"
            " due for more than 30 s. Add delivery workers, or raise DELIVERY_CONCURRENCY."
        )
    if untaken and not slots:
        return (
            f"Deliveries to {where} have been due for more than 30 s, and no delivery worker is at work on them."
            " Look at the delivery workers and their log."
        )
    if untaken:
        return (
            f"Deliveries to {where} have been due for more than 30 s although the workers have slots free."
            " Look at the delivery workers' log."
        )
    return None
