"""An endpoint's health and a dead letter's cause, as its consumer needs to hear them. Pure."""

from dataclasses import dataclass
from datetime import datetime

from deliveries.browse.words import relative
from deliveries.models import Replay
from deliveries.replaying.results import Results
from subscriptions.endpoints import RotationInProgress
from subscriptions.models import Endpoint


@dataclass(frozen=True, slots=True)
class Health:
    tone: str  # good, wait, bad
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Load:
    """What one endpoint is owed and what failed for good."""

    dead: int
    # Due and not sent yet: as its limits allow.
    due: int
    # Whether anything is going to be sent, now or on the schedule.
    waits: bool
    in_flight: int
    # One of the newest was delivered.
    has_received: bool = False

    @property
    def is_left(self) -> bool:
        return self.waits or self.in_flight > 0


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
        "Your receiver said that it wants nothing more (410 Gone, or `webhook-delivery: disable`).",
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


def why_dead(reason: str, *, replayable: bool) -> tuple[str, str]:
    title, advice = DEAD.get(reason, (reason.replace("_", " "), "Replay it once the cause is gone."))
    if not replayable and reason != "endpoint_deleted":
        advice = "It can no longer be replayed: its endpoint was deleted, or the payload's retention has ended."
    return title, advice


def health(endpoint: Endpoint, load: Load, *, held: bool, now: datetime) -> Health:
    """Wants `lane` loaded with it. The first that applies is what stops the deliveries."""
    lane = endpoint.lane
    if held:
        also = f" It is {endpoint.status} as well: resume it, too." if endpoint.status != "active" else ""
        return Health(
            "wait", "Held back", f"An operator holds deliveries back. What comes waits, nothing is lost.{also}"
        )
    if endpoint.status == "disabled":
        because = (endpoint.disabled_reason or "it failed for too long").rstrip(". ")
        return Health("bad", "Disabled", f"Reason: {because}. What comes for it waits. Once it works, resume it.")
    if endpoint.status == "paused":
        return Health("wait", "Paused", "What comes for it waits until you resume it.")
    if lane.breaker_open:
        return Health("bad", "Keeps failing", f"{_failed(lane.failure_count)} {_probing(endpoint, load, now=now)}")
    if lane.failure_count:
        return Health("wait", "Failing", f"{_failed(lane.failure_count)} {_after_failures(load)}")
    return _flowing(endpoint, load)


def how_it_goes_out(endpoint: Endpoint, *, held: bool) -> str:
    """When something that was put back goes out. Wants `lane` loaded."""
    if held:
        return "once the operator lets go"
    if endpoint.status != "active":
        return "once you resume the endpoint"
    if endpoint.lane.breaker_open:
        return "one at a time until your receiver answers again"
    return "as fast as the endpoint's limits allow"


def replayed(count: int, *, is_more: bool, how: str) -> str:
    many = f"{count} or more dead letters go" if is_more else "1 dead letter goes" if count == 1 else f"{count} go"
    return f"{many} out again, {how}."


def rotation_refused(running: RotationInProgress) -> str:
    return (
        f"Nothing was changed: a rotation is under way. {running} Rotating now would silence it at once, and a receiver"
        " that still verifies with it would refuse every request. To do it all the same, confirm that under “Rotate"
        " secret”."
    )


def _failed(count: int) -> str:
    return "The last request failed." if count == 1 else f"The last {count} requests failed."


def _probing(endpoint: Endpoint, load: Load, *, now: datetime) -> str:
    if not load.is_left:
        return f"{_nothing_left(load)} The next event, or a replay, shows whether it is back."
    opens_at = endpoint.lane.opens_at
    when = relative(opens_at, now=now) if opens_at > now else "at any moment"
    return f"We send one at a time to see whether it is back, the next {when}; the rest waits."


def _after_failures(load: Load) -> str:
    return "What is not delivered yet is sent again on the schedule." if load.is_left else _nothing_left(load)


def _nothing_left(load: Load) -> str:
    if load.dead:
        return "Nothing is left to be sent again by itself: what failed is among the dead letters, to be replayed."
    return "Nothing is left to be sent again."


def _flowing(endpoint: Endpoint, load: Load) -> Health:
    """Of an endpoint whose last request succeeded, or that had none."""
    lane, waiting = endpoint.lane, f"{load.due} more {'waits' if load.due == 1 else 'wait'}"
    if not load.due:
        return Health("good", "Working", "Deliveries go out as they come.")
    if lane.allowance is not None:
        at_once = "one request at a time" if lane.allowance == 1 else f"{lane.allowance} requests at a time"
        return Health("wait", "Recovering", f"It gets {at_once} for now, and more with each success; {waiting}.")
    if load.in_flight >= endpoint.max_in_flight:
        under_way = "1 request is" if load.in_flight == 1 else f"{load.in_flight} requests are"
        return Health(
            "wait",
            "Full",
            f"{under_way} under way, as many as it may have at once; {waiting}. A receiver that answers faster, or a"
            " higher limit, lets more through.",
        )
    if endpoint.rate_limit_per_second:
        return Health("good", "Working", f"At most {endpoint.rate_limit_per_second} per second go out; {waiting}.")
    return Health("good", "Working", f"Deliveries go out; {waiting} for a worker.")


def replay_outcome(job: Replay, found: Results | None) -> str:
    """`Of 266: 260 delivered, 6 dead again.`"""
    if not job.matched and not job.replayed:
        return "Nothing matched, so nothing was sent."
    if found is None:
        return f"{job.replayed} sent again."
    more = "at least " if job.matched_is_minimum else ""
    parts = [f"{found.delivered} delivered", f"{found.dead_again} dead again" if found.dead_again else ""]
    left = max(0, job.matched - job.replayed) if job.status == "running" else 0
    waiting = found.waiting + left
    parts.append(f"{waiting} still to go" if waiting else "")
    return f"Of {more}{max(job.matched, job.replayed)}: {', '.join(filter(None, parts))}."


# What an answer or an error asks its receiver's people to do.
_WHAT_TO_DO = {
    "http_401": "Your receiver did not accept the signature. The debugger names the mistake, the check-up shows it.",
    "http_403": "Something in front of your receiver forbids it, a firewall perhaps, or the signature was refused.",
    "http_404": "Nothing listens at this path: compare the URL with your receiver's route.",
    "http_405": "This path takes no POST: compare the URL with your receiver's route.",
    "http_400": "Your receiver did not understand the body, or refused the signature. Its log says which.",
    "http_410": "410 says that you want nothing more. Answer otherwise if that is not so, and resume the endpoint.",
    "http_413": "Your receiver, or a proxy before it, takes no body of this size: raise its limit.",
    "http_429": "Your receiver asked us to slow down. Set a rate limit on the endpoint.",
}  # fmt: skip


def what_to_do(status_code: int | None, error_kind: str | None) -> str:
    if status_code is not None and 200 <= status_code < 300:
        return ""
    if error_kind in _WHAT_TO_DO:
        return _WHAT_TO_DO[error_kind]
    if status_code is not None and 300 <= status_code < 400:
        return "Redirects are never followed: set the endpoint's URL to the place it redirects to."
    if status_code is not None and status_code >= 500:
        return "Your receiver failed on it: its own log of that moment says why. Fix it, then replay."
    if error_kind and "timeout" in error_kind:
        return "Answer first and work afterwards: keep the event, reply 200, then do the rest."
    if error_kind in ("tls", "tls_failed"):
        return "The certificate or the handshake failed: check that it is valid and complete for this host."
    if error_kind:
        return "No answer came. Check that the URL is reachable from the internet."
    return ""
