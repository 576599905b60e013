"""Times, sizes and reasons in words. Pure."""

from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

from django.utils.formats import get_format
from django.utils.translation import gettext, gettext_noop

from deliveries.send import EXPLANATIONS

_UNITS = [(gettext_noop("d"), 86_400), (gettext_noop("h"), 3600), (gettext_noop("min"), 60), (gettext_noop("s"), 1)]


@dataclass(frozen=True)
class Advice:
    title: str
    why: str
    what_to_do: str


DEAD: dict[str, Advice] = {
    "attempts_exhausted": Advice(
        "Every attempt failed",
        "The receiver did not answer 2xx to any attempt of the schedule.",
        "Look at the last answer below. Once the receiver is fixed, replay: the event and its id stay the same.",
    ),
    "expired": Advice(
        "Waited too long",
        "The endpoint's breaker stayed open for longer than the whole schedule takes and a day more.",
        "Probe the endpoint first. When it answers again, replay.",
    ),
    "endpoint_disabled": Advice(
        "The receiver wants nothing more",
        "It answered 410 Gone, or with `webhook-delivery: disable`. The endpoint was disabled.",
        "Ask its owner. If that was a mistake, resume the endpoint, then replay.",
    ),
    "aborted_by_receiver": Advice(
        "The receiver refused this event",
        "It answered with `webhook-delivery: abort-message`: it does not want this one again.",
        "Usually nothing. Replay only if its owner asks for it.",
    ),
    "refused_address": Advice(
        "We do not deliver to this address",
        "The URL leads into a private network, to a port that is not allowed, or is not https.",
        "Change the endpoint's URL, or DELIVERY_ALLOWED_NETWORKS if the target is meant, then replay.",
    ),
    "endpoint_deleted": Advice(
        "Its endpoint was deleted",
        "It was still owed when somebody deleted the endpoint.",
        "It cannot be replayed. The event is still in the consumer's feed.",
    ),
    "given_up": Advice(
        "Given up manually",
        "Somebody ended it before its schedule was over; the audit log says who and why.",
        "Replay it if that was a mistake.",
    ),
}  # fmt: skip
_KINDS: dict[str, str] = {str(kind): text for kind, text in EXPLANATIONS.items()} | {
    "worker_lost": "The worker died during this attempt; whether it reached the receiver is not known.",
}


def advice(dead_reason: str) -> Advice:
    return DEAD.get(dead_reason) or Advice(dead_reason.replace("_", " "), "", "Replay it once the cause is gone.")


def outcome(status_code: int | None, error_kind: str | None) -> str:
    """`503 Service Unavailable`, `connect failed`."""
    if status_code is not None:
        try:
            return f"{status_code} {HTTPStatus(status_code).phrase}"
        except ValueError:
            return str(status_code)
    return gettext((error_kind or "no answer").replace("_", " "))


def kind(error_kind: str) -> str:
    """An error kind as the filters and groups show it: `http_503` → `503 Service Unavailable`."""
    head, _, code = error_kind.partition("_")
    return outcome(int(code), None) if head == "http" and code.isdigit() else outcome(None, error_kind)


def explanation(error_kind: str | None) -> str:
    return _KINDS.get(error_kind or "", "")


def span(seconds: float) -> str:
    """`1 h 5 min`: the two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        shown = str(round(seconds)) if f"{seconds:.1f}".endswith(".0") else decimal(seconds)
        return f"{shown} {gettext('s')}"
    left, parts = round(seconds), list[tuple[int, str]]()
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, name))
        if len(parts) == 2:
            break
    return " ".join(f"{count} {gettext(name)}" for count, name in parts if count)


def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f} ms" if value < 1000 else span(value / 1000)


def relative(at: datetime, *, now: datetime) -> str:
    seconds = (now - at).total_seconds()
    if abs(seconds) < 1:
        return gettext("now")
    text = gettext("%(span)s ago") if seconds > 0 else gettext("in %(span)s")
    return text % {"span": span(abs(seconds))}


def decimal(value: float) -> str:
    """With one place, as the reader's language writes it."""
    return f"{value:.1f}".replace(".", str(get_format("DECIMAL_SEPARATOR")))


def size(count: int) -> str:
    return (
        f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"
    )
