"""An endpoint's health and a dead letter's cause, as its consumer needs to hear them. Pure."""

from dataclasses import dataclass
from datetime import datetime

from deliveries.console.words import relative
from subscriptions.models import Endpoint


@dataclass(frozen=True, slots=True)
class Health:
    tone: str  # good, wait, bad
    title: str
    text: str


DEAD: dict[str, tuple[str, str]] = {
    "attempts_exhausted": (
        "Every attempt failed.",
        "Look at the last answer below. Once your receiver is fixed, replay: the event and its id stay the same.",
    ),
    "expired": (
        "Your endpoint did not recover in time.",
        "Once it answers again, replay.",
    ),
    "endpoint_disabled": (
        "Your receiver said that it wants nothing more (410 Gone).",
        "If that was a mistake, resume the endpoint, then replay.",
    ),
    "aborted_by_receiver": (
        "Your receiver refused this event for good.",
        "Replay it only if that was a mistake.",
    ),
    "refused_address": (
        "We do not deliver to this URL: it leads into a private network, or is not https.",
        "Change the endpoint's URL, then replay.",
    ),
    "endpoint_deleted": (
        "Its endpoint was deleted.",
        "It cannot be replayed. The event is still in your feed.",
    ),
    "given_up": (
        "An operator ended it by hand.",
        "Replay it if you want it after all.",
    ),
}  # fmt: skip


def why_dead(reason: str) -> tuple[str, str]:
    return DEAD.get(reason, (reason.replace("_", " "), "Replay it once the cause is gone."))


def health(endpoint: Endpoint, *, held: bool, now: datetime) -> Health:
    """Wants `lane` loaded with it. The first that applies is what stops the deliveries."""
    lane = endpoint.lane
    if held:
        return Health("wait", "Held back", "An operator holds deliveries back. They wait, and none is lost.")
    if endpoint.status == "disabled":
        because = endpoint.disabled_reason or "it failed for too long"
        return Health("bad", "Disabled", f"Reason: {because}. Once it works, resume it; what waited goes out then.")
    if endpoint.status == "paused":
        return Health("wait", "Paused", "What comes for it waits until you resume it.")
    if lane.breaker_open:
        when = relative(lane.opens_at, now=now) if lane.opens_at > now else "at any moment"
        return Health(
            "bad",
            "Keeps failing",
            f"{lane.failure_count} requests in a row failed. We send one at a time to see whether it is back, the next"
            f" {when}; the others wait.",
        )
    if lane.failure_count:
        text = (
            "The last request failed" if lane.failure_count == 1 else f"The last {lane.failure_count} requests failed"
        )
        return Health("wait", "Failing", f"{text}. They are sent again on the schedule.")
    return Health("good", "Working", "Deliveries go out as they come.")
