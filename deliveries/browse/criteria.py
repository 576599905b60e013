"""Reads the filter of deliveries from a query string: for lists, groups, previews and replays, of console, portal and
shell alike."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict
from django.utils.translation import gettext as _

from deliveries.browse import short_ids
from deliveries.browse.events import events_by_producer_id
from deliveries.browse.filter import FIELDS, Filter, FilterField, known_error_kind
from deliveries.browse.source import events_of_key
from deliveries.models import Event
from deliveries.states import DeliveryState
from subscriptions import consumers, endpoints, ids
from subscriptions.models import Consumer, Endpoint, EventType
from subscriptions.reading.times import BadTime, read_time

WITHIN = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
_TIMES_AND_SEARCH = ("within", "since", "until", "q")
CONSOLE_FIELDS = [(each.console, each) for each in FIELDS if each.console]
PORTAL_FIELDS = [(each.portal, each) for each in FIELDS if each.portal]
CONSOLE_NAMES = ("consumer", "endpoint", *(name for name, _ in CONSOLE_FIELDS), *_TIMES_AND_SEARCH)
PORTAL_NAMES = ("endpoint", "state", *(name for name, _ in PORTAL_FIELDS), *_TIMES_AND_SEARCH)
# As many as can be ticked on one page of the portal.
_MOST_CHOSEN = 200


@dataclass(frozen=True)
class FilterInput:
    """One filter as a form shows it."""

    name: str
    value: str
    declared: FilterField


@dataclass
class Criteria:
    """What was asked for, as given and as understood. `problems` says what could not be understood: then nothing
    matches."""

    values: dict[str, str]
    filter: Filter = field(default_factory=Filter)
    inputs: list[FilterInput] = field(default_factory=list)
    consumer: Consumer | None = None
    endpoint: Endpoint | None = None
    chosen: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def exact(self) -> dict[str, str]:
        """Since and until as an input for a time takes them, in UTC; nothing where a length of time was asked for."""
        times = {} if self.values["within"] else {"since": self.filter.since, "until": self.filter.until}
        return {name: f"{at.astimezone(UTC):%Y-%m-%dT%H:%M}" for name, at in times.items() if at is not None}

    @property
    def is_narrowed(self) -> bool:
        return any(self.values.values()) or bool(self.chosen)

    @property
    def may_be_replayed(self) -> bool:
        """Everything that ever arrived is not sent again by a slip: that takes more than a state."""
        narrower = any(value for name, value in self.values.items() if name != "state") or bool(self.chosen)
        return narrower or (self.is_narrowed and self.values["state"] != DeliveryState.DELIVERED)

    def fields(self) -> list[tuple[str, str]]:
        """As a form carries it on. "The last hour" is the one that was looked at, not the one before the start."""
        given = [(name, value) for name, value in self.values.items() if value and name != "within"]
        if self.values["within"] and self.filter.since is not None:
            given.append(("since", self.filter.since.isoformat()))
        return given + [("delivery", each) for each in self.chosen]

    @property
    def query(self) -> str:
        return urlencode(self.fields())


def read(query: QueryDict) -> Criteria:
    """Dead letters of everybody, for operators: the console and the shell."""
    asked = _asked(query, CONSOLE_NAMES, CONSOLE_FIELDS, most=None)
    values, problems = asked.values, asked.problems
    asked.consumer = consumers.find(values["consumer"]) if values["consumer"] else None
    if values["consumer"] and asked.consumer is None:
        problems.append(f"There is no consumer {values['consumer']}.")
    if values["endpoint"]:
        asked.endpoint = endpoints.find(values["endpoint"]) or _deleted(values["endpoint"])
    _understand(asked, CONSOLE_FIELDS, state=DeliveryState.DEAD, owner=asked.consumer, only=None)
    return asked


def read_own(query: QueryDict, consumer: Consumer) -> Criteria:
    """Deliveries of one consumer, in any state: the portal."""
    asked = _asked(query, PORTAL_NAMES, PORTAL_FIELDS, most=_MOST_CHOSEN)
    if asked.values["endpoint"]:
        asked.endpoint = endpoints.find(asked.values["endpoint"], consumer_id=consumer.id)
    state = asked.values["state"]
    if state and state not in DeliveryState.values:
        given = {"state": state, "known": ", ".join(DeliveryState.values)}
        asked.problems.append(_("There is no state %(state)s. Say one of %(known)s.") % given)
    _understand(asked, PORTAL_FIELDS, state=state or None, owner=consumer, only=consumer)
    return asked


def carried(given: QueryDict, names: Sequence[str]) -> QueryDict:
    """The filter's part of a form, as it is read."""
    found = QueryDict(mutable=True)
    for name in (*names, "delivery"):
        found.setlist(name, given.getlist(name))
    return found


def _asked(
    query: QueryDict, names: Sequence[str], offered: Sequence[tuple[str, FilterField]], *, most: int | None
) -> Criteria:
    values = {name: query.get(name, "").strip()[:255] for name in names}
    inputs = [FilterInput(name, values[name], declared) for name, declared in offered]
    return Criteria(values, inputs=inputs, chosen=query.getlist("delivery")[:most])


def _understand(
    asked: Criteria, offered: Sequence[tuple[str, FilterField]], *, state: str | None, owner: Consumer | None,
    only: Consumer | None,
) -> None:  # fmt: skip
    """`owner` is the consumer whose deliveries are meant, `only` the one whose events may be found."""
    values, problems = asked.values, asked.problems
    if values["endpoint"] and asked.endpoint is None:
        problems.append(_("There is no endpoint %(name)s.") % {"name": values["endpoint"]})
    since, until = _times(values, problems)
    # A search for a delivery means that one, whatever is ticked.
    given = {"delivery_ids": _chosen(asked), **_search(values["q"], only)}
    # What is said in a field of its own counts more than what a search understands by a word.
    fields = {declared.name: _value(declared, values[name], problems) for name, declared in offered}
    given |= {name: value for name, value in fields.items() if value is not None or name not in given}
    if owner is not None:
        given["consumer_id"] = owner.id
    endpoint_id = asked.endpoint.id if asked.endpoint else None
    asked.filter = Filter(state=state, endpoint_id=endpoint_id, since=since, until=until, **given)


def _value(declared: FilterField, text: str, problems: list[str]) -> Any:
    try:
        return declared.read(text) if text else None
    except ValueError as error:
        problems.append(f"{declared.label}: {error}")
        return None


def _search(text: str, consumer: Consumer | None) -> dict[str, Any]:
    """A delivery or an event by its id, an event by its producer's id, or else an ordering key. A consumer's own are
    found by more: an attempt's id, the end of an id, an answer in words, an event type."""
    if not text:
        return {}
    if delivery_id := ids.parse("dlv", text):
        return {"delivery_ids": (delivery_id,)}
    if event_id := ids.parse("evt", text):
        return {"event_id": event_id}
    if consumer is not None:
        return _search_own(text, consumer)
    if found := events_by_producer_id(text, limit=1):
        return {"event_id": found[0][0], "consumer_id": found[0][1]}
    return {"ordering_key": text}


def _search_own(text: str, consumer: Consumer) -> dict[str, Any]:
    named = Event.objects.filter(consumer=consumer, producer_id=text).values_list("id", flat=True).first()
    if named:
        return {"event_id": named}
    if events_of_key(text, consumer_id=consumer.id, limit=1):
        return {"ordering_key": text}
    if found := short_ids.find_own(text, consumer_id=consumer.id):
        return {"delivery_ids": found}
    if EventType.objects.filter(name=text).exists():
        return {"event_type": text}
    kind = known_error_kind(text)
    return {"error_kind": kind} if kind else {"ordering_key": text}


def _times(values: dict[str, str], problems: list[str]) -> tuple[datetime | None, datetime | None]:
    if not values["within"]:
        return _time(values["since"], problems), _time(values["until"], problems)
    length = WITHIN.get(values["within"])
    if length is None:
        told = {"text": values["within"], "known": ", ".join(WITHIN)}
        problems.append(_("“%(text)s” is no span of time. Say one of %(known)s.") % told)
    if values["since"] or values["until"]:
        problems.append(_("Say either within which time, or since and until when."))
    return datetime.now(UTC) - (length or timedelta()), None


def _time(text: str, problems: list[str]) -> datetime | None:
    try:
        return read_time(text, zone=False) if text else None
    except BadTime as error:
        problems.append(str(error))
        return None


def _chosen(asked: Criteria) -> tuple[UUID, ...] | None:
    """Deliveries ticked one by one; None if none were, which is not the same as none of these."""
    parsed = [(text, ids.parse("dlv", text)) for text in asked.chosen]
    asked.problems += [_("There is no delivery %(name)s.") % {"name": text[:100]} for text, uuid in parsed if not uuid]
    return tuple(uuid for _, uuid in parsed if uuid is not None) if parsed else None


def _deleted(public_id: str) -> Endpoint | None:
    uuid = ids.parse("ep", public_id)
    return Endpoint.objects.select_related("consumer").filter(id=uuid).first() if uuid else None
