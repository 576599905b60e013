"""Which deliveries: the one filter behind lists, counts, groups, previews and replay jobs.

A filter by a value of its own is declared in `FIELDS`, once: API lists and replays, console, portal and shell read the
declaration, and source.py takes its condition. What needs a look-up or an index (consumer, endpoint, event, state,
times) is read by each interface as it names them, and its SQL is in source.py.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from deliveries.browse import words
from deliveries.send import EXPLANATIONS
from deliveries.states import DeliveryState


@dataclass(frozen=True, slots=True)
class Filter:
    """Which deliveries. All of it must hold."""

    # None for any.
    state: str | None = DeliveryState.DEAD
    consumer_id: UUID | None = None
    endpoint_id: UUID | None = None
    event_type: str | None = None
    dead_reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    # How the last attempt ended: `http_503`, `connect_failed`, …
    error_kind: str | None = None
    event_id: UUID | None = None
    ordering_key: str | None = None
    # These and no others; None for all that match.
    delivery_ids: tuple[UUID, ...] | None = None

    def stored(self) -> dict[str, Any]:
        """As a replay job keeps it: names, and values that JSON has."""
        return {each.name: _to_json(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "Filter":
        """What was stored; also by a job that was started before a field was added."""
        given = {each.name: _from_json(each.name, stored.get(each.name)) for each in fields(cls)}
        return cls(**{**given, "state": stored["state"]})

    @property
    def is_narrowed(self) -> bool:
        """Whether it says more than a state. A slip must not mean everything, so a replay asks this."""
        return any(getattr(self, each.name) is not None for each in fields(self) if each.name != "state")


@dataclass(frozen=True, slots=True)
class FilterField:
    """One filter by a value of its own, as every interface offers it."""

    # Of the field of `Filter`, and of the API's parameter.
    name: str
    # On pages, and in the API's document.
    label: str
    meaning: str
    # An example, where somebody types it.
    hint: str = ""
    longest: int = 255
    # From text to a value. A ValueError says to people what is wrong with it.
    read: Callable[[str], Any] = str
    # A whole number, not a text.
    is_number: bool = False
    # The values to choose from, or to be offered while typing; each with what people call it.
    choices: Sequence[tuple[str, str]] = ()
    offers: Sequence[tuple[str, str]] = ()
    # What the pages call it in their addresses; the shell has the console's name. None where it is not offered.
    console: str | None = None
    portal: str | None = None
    # In SQL, of each candidate `c`; the value is the parameter of that name. Without one, source.py knows an index.
    condition: str = ""


def read_error_kind(text: str) -> str:
    """`503`, `Service Unavailable` and `Last answer: 503` are `http_503`; words are an error's own: `read timeout`."""
    text = _LABEL.sub("", text).strip()
    first = (text.split() or [""])[0]
    if first.isascii() and first.isdigit():
        return f"http_{first}"
    return _PHRASES.get(text.lower()) or text.lower().replace(" ", "_")


def known_error_kind(text: str) -> str | None:
    """The same, for a text that may be something else."""
    kind = read_error_kind(text)
    return kind if kind in _KINDS or re.fullmatch("http_[1-5][0-9][0-9]", kind) else None


# As pages name it, for those who copy the label with the answer.
_LABEL = re.compile(r"^\s*(last answer|answer|error)\s*:\s*", re.IGNORECASE)
_PHRASES = {status.phrase.lower(): f"http_{status.value}" for status in HTTPStatus}
_KINDS = frozenset(map(str, EXPLANATIONS)) | {"worker_lost"}


_USUAL_ERRORS = ("http_500", "http_502", "http_503", "http_404", "http_401", "http_400", *EXPLANATIONS, "worker_lost")

FIELDS = (
    FilterField(
        "event_type",
        label="Event type",
        meaning="Of which event type.",
        hint="invoice.paid",
        console="event_type",
        portal="event_type",
        condition="(SELECT type FROM deliveries_event WHERE id = c.event_id) = %(event_type)s",
    ),
    FilterField(
        "dead_reason",
        label="Why",
        meaning="Dead letters with this reason.",
        longest=64,
        choices=[(name, advice.title) for name, advice in words.DEAD.items()],
        console="reason",
    ),
    FilterField(
        "error_kind",
        label="Last answer",
        meaning="Whose last attempt failed so.",
        hint="503, read timeout",
        longest=32,
        read=read_error_kind,
        offers=[(str(kind), words.kind(kind)) for kind in _USUAL_ERRORS],
        console="error",
        portal="answer",
        condition=(
            "(SELECT error_kind FROM deliveries_attempt WHERE delivery_id = c.id AND number = c.attempt_count)"
            " = %(error_kind)s"
        ),
    ),
    # Pages find an ordering key by their search. The condition holds also where the key was narrowed to its events
    # already, or where an event is named.
    FilterField(
        "ordering_key",
        label="Ordering key",
        meaning="Of events with this ordering key.",
        condition="(SELECT ordering_key FROM deliveries_event WHERE id = c.event_id) = %(ordering_key)s",
    ),
)  # fmt: skip


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [str(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _from_json(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "delivery_ids":
        return tuple(UUID(each) for each in value)
    if name in ("since", "until"):
        return datetime.fromisoformat(value)
    return UUID(value) if name.endswith("_id") else value
