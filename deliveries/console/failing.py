"""Why an endpoint fails, in words: its last answer, since when, and what an operator can do about it. Pure."""

from dataclasses import dataclass
from datetime import datetime

from deliveries.browse import words
from subscriptions.models import Endpoint, EndpointStatus

_ASK_FOR_LOG = "Ask its owner: the receiver's own log of that moment says why."
# What the last answer or error asks for.
_WHAT_TO_DO = {
    "http_400": "Ask its owner whether the receiver refuses the body or the signature; a check-up shows which.",
    "http_401": "The receiver does not accept the signature: run a check-up, and compare the secret with its owner.",
    "http_403": "A firewall before the receiver or its check of the signature refuses us: ask its owner.",
    "http_404": "Nothing takes webhooks at this path: ask its owner to correct the URL.",
    "http_405": "This path takes no POST: ask its owner to correct the URL.",
    "http_410": "The receiver wants nothing more. Ask its owner; resume the endpoint if that was a mistake.",
    "http_413": "The receiver, or a proxy before it, takes no body of this size: its owner must raise that limit.",
    "http_429": "The receiver is asked too much: set a rate limit or a lower concurrency.",
    "dns": "The host name leads nowhere: ask its owner to correct the URL or the DNS record.",
    "tls": "Its certificate or handshake fails: its owner must renew the certificate, or serve the whole chain.",
    "connect_failed": "Nothing listens there, or a firewall closes the way: ask its owner whether the receiver runs.",
    "connect_timeout": "It cannot be reached: ask its owner whether the receiver runs and a firewall lets us in.",
    "read_timeout": "Its owner should answer first and work afterwards; a longer timeout is under Limits.",
    "reset": "The connection breaks off before the answer: ask its owner about crashes, or a proxy in between.",
    "bad_response": "What answers does not speak HTTP: ask its owner to correct the URL or the port.",
}


@dataclass(frozen=True, slots=True)
class Failing:
    """One endpoint's trouble, as a row of a list tells it."""

    tone: str
    state: str
    # `Last answer: 503 Service Unavailable`; empty where nothing failed of late.
    last: str
    since: datetime | None
    failure_count: int
    what_to_do: str
    # What the last answer alone asks for.
    advice: str


def failing(endpoint: Endpoint, *, now: datetime) -> Failing | None:
    """None for one whose last request went well and that nobody disabled. Wants `lane` loaded with it."""
    lane = endpoint.lane
    disabled = endpoint.status == EndpointStatus.DISABLED
    if not disabled and not lane.failure_count:
        return None
    state = "disabled" if disabled else "breaker open" if lane.breaker_open else "failing"
    last = _last(lane.last_error_kind)
    if disabled and endpoint.disabled_reason:
        last = ". ".join(filter(None, [f"Because: {endpoint.disabled_reason}".rstrip(". "), last]))
    advice = _what_to_do(lane.last_error_kind)
    steps = [advice]
    if disabled:
        steps.append("Resume it once its receiver works.")
    elif endpoint.status == EndpointStatus.PAUSED:
        steps.append("It is paused as well.")
    elif lane.breaker_open:
        steps.append(_next_probe(lane.opens_at, now=now))
    tone = "wait" if state == "failing" else "bad"
    what_to_do = " ".join(filter(None, steps))
    return Failing(tone, state, last, lane.failing_since, lane.failure_count, what_to_do, advice)


def _last(error_kind: str | None) -> str:
    if not error_kind:
        return ""
    answered = error_kind.startswith("http_")
    return f"Last answer: {words.kind(error_kind)}" if answered else f"No answer: {words.kind(error_kind)}"


def _what_to_do(error_kind: str | None) -> str:
    if not error_kind:
        return ""
    if error_kind in _WHAT_TO_DO:
        return _WHAT_TO_DO[error_kind]
    if error_kind.startswith("http_3"):
        return "Redirects are never followed: its owner must set the URL to where it leads."
    return _ASK_FOR_LOG


def _next_probe(at: datetime, *, now: datetime) -> str:
    when = words.relative(at, now=now) if at > now else "at any moment"
    return f"It heals by itself with the first 2xx; the next probe goes out {when}."
