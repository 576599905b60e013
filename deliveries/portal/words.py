"""An endpoint's health and a dead letter's cause, as its consumer needs to hear them. Pure."""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from deliveries.browse.last_failures import LastFailure
from deliveries.browse.words import explanation, outcome, relative
from deliveries.replaying.models import Replay
from deliveries.replaying.results import Results
from subscriptions.endpoints import RotationInProgress
from subscriptions.models import Endpoint


@dataclass(frozen=True, slots=True)
class Health:
    tone: str  # good, wait, bad
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Cause:
    """How the newest failed attempt ended, and what its receiver's people can do about it."""

    outcome: str
    detail: str
    advice: str
    delivery: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Load:
    """What one endpoint is owed and what failed for good."""

    dead: int
    # Due and not sent yet: as its limits allow.
    due: int
    # Going to be sent, now or on the schedule; and behind an earlier one of the same ordering key.
    pending: int
    blocked: int
    in_flight: int
    # One of the newest was delivered.
    has_received: bool = False

    @property
    def is_left(self) -> bool:
        return self.pending > 0 or self.in_flight > 0

    @property
    def owed(self) -> int:
        return self.pending + self.blocked + self.in_flight


DEAD: dict[str, tuple[str, str]] = {
    "attempts_exhausted": (
        gettext_noop("Every attempt failed."),
        gettext_noop(
            "Look at the last answer below. Once your receiver is fixed, replay: the event and its id"
            " stay the same."
        ),
    ),
    "expired": (
        gettext_noop("Your endpoint did not recover in time."),
        gettext_noop("Once it answers again, replay."),
    ),
    "endpoint_disabled": (
        gettext_noop("Your receiver said that it wants nothing more (410 Gone, or `webhook-delivery: disable`)."),
        gettext_noop("If that was a mistake, resume the endpoint, then replay."),
    ),
    "aborted_by_receiver": (
        gettext_noop("Your receiver refused this event for good."),
        gettext_noop("Replay it only if that was a mistake."),
    ),
    "refused_address": (
        gettext_noop("We do not deliver to this URL: it leads into a private network, or is not https."),
        gettext_noop("Change the endpoint's URL, then replay."),
    ),
    "endpoint_deleted": (
        gettext_noop("Its endpoint was deleted."),
        gettext_noop("It cannot be replayed. The event is still in your feed."),
    ),
    "given_up": (
        gettext_noop("An operator ended it by hand."),
        gettext_noop("Replay it if you want it after all."),
    ),
}  # fmt: skip


def why_dead(reason: str, *, replayable: bool) -> tuple[str, str]:
    known = DEAD.get(reason)
    title, advice = (_(known[0]), _(known[1])) if known else (reason.replace("_", " "), "")
    if not known:
        advice = _("Replay it once the cause is gone.")
    if not replayable and reason != "endpoint_deleted":
        advice = _("It can no longer be replayed: its endpoint was deleted, or the payload's retention has ended.")
    return title, advice


def health(endpoint: Endpoint, load: Load, *, held: bool, now: datetime) -> Health:
    """Wants `lane` loaded with it. The first that applies is what stops the deliveries."""
    lane = endpoint.lane
    if held:
        text = _("An operator holds deliveries back. What comes waits, nothing is lost.")
        if endpoint.status == "paused":
            text += " " + _("It is paused as well: resume it, too.")
        elif endpoint.status == "disabled":
            text += " " + _("It is disabled as well: resume it, too.")
        return Health("wait", _("Held back"), text)
    if endpoint.status == "disabled":
        because = (_(endpoint.disabled_reason) or _("it failed for too long")).rstrip(". ")
        text = _("Reason: %(because)s. What comes for it waits. Once it works, resume it.") % {"because": because}
        return Health("bad", _("Disabled"), text)
    if endpoint.status == "paused":
        return Health("wait", _("Paused"), _("What comes for it waits until you resume it."))
    if lane.breaker_open:
        return Health("bad", _("Keeps failing"), f"{_failed(lane.failure_count)} {_probing(endpoint, load, now=now)}")
    if lane.failure_count:
        return Health("wait", _("Failing"), f"{_failed(lane.failure_count)} {_after_failures(load)}")
    return _flowing(endpoint, load)


def is_failing(endpoint: Endpoint) -> bool:
    """Wants `lane` loaded."""
    return endpoint.lane.failure_count > 0 or endpoint.lane.breaker_open or endpoint.status == "disabled"


def cause(last: LastFailure | None) -> Cause | None:
    if last is None:
        return None
    return Cause(
        outcome=outcome(last.status_code, last.error_kind),
        detail=last.error_detail or _(explanation(last.error_kind) or "") if last.status_code is None else "",
        advice=what_to_do(last.status_code, last.error_kind),
        delivery=last.delivery,
        at=last.started_at,
    )


def how_it_goes_out(endpoint: Endpoint, *, held: bool) -> str:
    """When something that was put back goes out. Wants `lane` loaded."""
    if held:
        return _("once the operator lets go")
    if endpoint.status != "active":
        return _("once you resume the endpoint")
    if endpoint.lane.breaker_open:
        return _("one at a time until your receiver answers again")
    return _("as fast as the endpoint's limits allow")


def replayed(count: int, *, is_more: bool, how: str) -> str:
    if is_more:
        text = _("%(count)s or more dead letters go out again, %(how)s.")
    else:
        text = ngettext("%(count)s dead letter goes out again, %(how)s.", "%(count)s go out again, %(how)s.", count)
    return text % {"count": count, "how": how}


def rotation_refused(running: RotationInProgress) -> str:
    return _(
        "Nothing was changed: a rotation is under way, and the secret from before signs until %(until)s. Rotating now"
        " would silence it at once, and a receiver that still verifies with it would refuse every request. To do it all"
        " the same, confirm that under “Rotate secret”."
    ) % {"until": f"{running.until:%Y-%m-%d %H:%M:%S} UTC"}


def _failed(count: int) -> str:
    return ngettext("The last request failed.", "The last %(count)s requests failed.", count) % {"count": count}


def _probing(endpoint: Endpoint, load: Load, *, now: datetime) -> str:
    if not load.is_left:
        return f"{_nothing_left(load)} {_('The next event, or a replay, shows whether it is back.')}"
    opens_at = endpoint.lane.opens_at
    when = relative(opens_at, now=now) if opens_at > now else _("at any moment")
    text = _("We send one at a time to see whether it is back, the next %(when)s; the rest waits.")
    return text % {"when": when}


def _after_failures(load: Load) -> str:
    return _("What is not delivered yet is sent again on the schedule.") if load.is_left else _nothing_left(load)


def _nothing_left(load: Load) -> str:
    if load.dead:
        return _("Nothing is left to be sent again by itself: what failed is among the dead letters, to be replayed.")
    return _("Nothing is left to be sent again.")


def _flowing(endpoint: Endpoint, load: Load) -> Health:
    """Of an endpoint whose last request succeeded, or that had none."""
    if not load.due:
        return Health("good", _("Working"), _("Deliveries go out as they come."))
    return _with_more_waiting(endpoint, load, ngettext("%(count)s more waits", "%(count)s more wait", load.due))


def _with_more_waiting(endpoint: Endpoint, load: Load, waiting: str) -> Health:
    lane, given = endpoint.lane, {"waiting": waiting % {"count": load.due}}
    if lane.allowance is not None:
        text = ngettext(
            "It gets one request at a time for now, and more with each success; %(waiting)s.",
            "It gets %(count)s requests at a time for now, and more with each success; %(waiting)s.",
            lane.allowance,
        )
        return Health("wait", _("Recovering"), text % {"count": lane.allowance, **given})
    if load.in_flight >= endpoint.max_in_flight:
        text = ngettext(
            "%(count)s request is under way, as many as it may have at once; %(waiting)s. A receiver that answers"
            " faster, or a higher limit, lets more through.",
            "%(count)s requests are under way, as many as it may have at once; %(waiting)s. A receiver that answers"
            " faster, or a higher limit, lets more through.",
            load.in_flight,
        )
        return Health("wait", _("Full"), text % {"count": load.in_flight, **given})
    if endpoint.rate_limit_per_second:
        text = _("At most %(rate)s per second go out; %(waiting)s.")
        return Health("good", _("Working"), text % {"rate": endpoint.rate_limit_per_second, **given})
    return Health("good", _("Working"), _("Deliveries go out; %(waiting)s for a worker.") % given)


def replay_outcome(job: Replay, found: Results | None) -> str:
    """`Of 266: 260 delivered, 6 dead again.`"""
    if not job.matched and not job.replayed:
        return _("Nothing matched, so nothing was sent.")
    if found is None:
        return _("%(count)s sent again.") % {"count": job.replayed}
    left = max(0, job.matched - job.replayed) if job.status == "running" else 0
    parts = [
        _("%(count)s delivered") % {"count": found.delivered},
        _("%(count)s dead again") % {"count": found.dead_again} if found.dead_again else "",
        _("%(count)s still to go") % {"count": found.waiting + left} if found.waiting + left else "",
    ]
    whole = _("Of at least %(count)s: %(parts)s.") if job.matched_is_minimum else _("Of %(count)s: %(parts)s.")
    return whole % {"count": max(job.matched, job.replayed), "parts": ", ".join(filter(None, parts))}


# What an answer or an error asks its receiver's people to do.
_WHAT_TO_DO = {
    "http_401": gettext_noop(
        "Your receiver did not accept the signature. The debugger names the mistake, the check-up shows"
        " it."
    ),
    "http_403": gettext_noop(
        "Something in front of your receiver forbids it, a firewall perhaps, or the signature was"
        " refused."
    ),
    "http_404": gettext_noop("Nothing listens at this path: compare the URL with your receiver's route."),
    "http_405": gettext_noop("This path takes no POST: compare the URL with your receiver's route."),
    "http_400": gettext_noop(
        "Your receiver did not understand the body, or refused the signature. Its log says"
        " which."
    ),
    "http_410": gettext_noop(
        "410 says that you want nothing more. Answer otherwise if that is not so, and resume the"
        " endpoint."
    ),
    "http_413": gettext_noop("Your receiver, or a proxy before it, takes no body of this size: raise its limit."),
    "http_429": gettext_noop("Your receiver asked us to slow down. Set a rate limit on the endpoint."),
}  # fmt: skip


def what_to_do(status_code: int | None, error_kind: str | None) -> str:
    if status_code is not None and 200 <= status_code < 300:
        return ""
    if error_kind in _WHAT_TO_DO:
        return _(_WHAT_TO_DO[error_kind])
    if status_code is not None and 300 <= status_code < 400:
        return _("Redirects are never followed: set the endpoint's URL to the place it redirects to.")
    if status_code is not None and status_code >= 500:
        return _("Your receiver failed on it: its own log of that moment says why. Fix it, then replay.")
    if error_kind and "timeout" in error_kind:
        return _("Answer first and work afterwards: keep the event, reply 200, then do the rest.")
    if error_kind in ("tls", "tls_failed"):
        return _("The certificate or the handshake failed: check that it is valid and complete for this host.")
    if error_kind:
        return _("No answer came. Check that the URL is reachable from the internet.")
    return ""
