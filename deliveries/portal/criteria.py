"""Reads the filter of a consumer's deliveries from a query string: for the list, the preview and the replay alike."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict

from deliveries.browse.filter import Filter
from deliveries.models import DeliveryState, Event
from subscriptions import endpoints, ids
from subscriptions.models import Consumer, Endpoint
from subscriptions.times import BadTime, read_time

WITHIN = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
NAMES = ("endpoint", "state", "event_type", "answer", "within", "since", "until", "q")
# As many as can be ticked on one page.
_MOST_CHOSEN = 200


@dataclass
class Criteria:
    """What was asked for, as given and as understood. `problems` says what could not be: then nothing matches."""

    values: dict[str, str]
    filter: Filter
    endpoint: Endpoint | None = None
    chosen: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

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


def read(query: QueryDict, consumer: Consumer) -> Criteria:
    values = {name: query.get(name, "").strip()[:255] for name in NAMES}
    found = Criteria(values, Filter(), chosen=query.getlist("delivery")[:_MOST_CHOSEN])
    if values["endpoint"]:
        found.endpoint = endpoints.find(values["endpoint"], consumer_id=consumer.id)
        if found.endpoint is None:
            found.problems.append(f"There is no endpoint {values['endpoint']}.")
    if values["state"] and values["state"] not in DeliveryState.values:
        found.problems.append(f"There is no state {values['state']}. Say one of {', '.join(DeliveryState.values)}.")
    event_id, ordering_key, delivery_id = _search(values["q"], consumer)
    since, until = _times(values, found.problems)
    delivery_ids = _chosen(found)
    if delivery_id is not None:
        delivery_ids = (delivery_id,)
    found.filter = Filter(
        state=values["state"] or None,
        consumer_id=consumer.id,
        endpoint_id=found.endpoint.id if found.endpoint else None,
        event_type=values["event_type"] or None,
        error_kind=_error_kind(values["answer"]),
        since=since,
        until=until,
        event_id=event_id,
        ordering_key=ordering_key,
        delivery_ids=delivery_ids,
    )
    return found


def _search(text: str, consumer: Consumer) -> tuple[UUID | None, str | None, UUID | None]:
    """An event by our id or its producer's, a delivery by its id, or else an ordering key."""
    if not text:
        return None, None, None
    if delivery_id := ids.parse("dlv", text):
        return None, None, delivery_id
    if event_id := ids.parse("evt", text):
        return event_id, None, None
    named = Event.objects.filter(consumer=consumer, producer_id=text).values_list("id", flat=True).first()
    return (named, None, None) if named else (None, text, None)


def _error_kind(answer: str) -> str | None:
    """`503` and `503 Service Unavailable` are `http_503`; words are an error's own: `read timeout`."""
    if not answer:
        return None
    first = answer.split()[0]
    return f"http_{first}" if first.isascii() and first.isdigit() else answer.lower().replace(" ", "_")


def _times(values: dict[str, str], problems: list[str]) -> tuple[datetime | None, datetime | None]:
    if not values["within"]:
        return _time(values["since"], problems), _time(values["until"], problems)
    length = WITHIN.get(values["within"])
    if length is None:
        problems.append(f"“{values['within']}” is no span of time. Say one of {', '.join(WITHIN)}.")
    if values["since"] or values["until"]:
        problems.append("Say either within which time, or since and until when.")
    return datetime.now(UTC) - (length or timedelta()), None


def _time(text: str, problems: list[str]) -> datetime | None:
    try:
        return read_time(text, zone=False) if text else None
    except BadTime as error:
        problems.append(str(error))
        return None


def _chosen(found: Criteria) -> tuple[UUID, ...] | None:
    """Deliveries ticked one by one; None if none were, which is not the same as none of these."""
    parsed = [(text, ids.parse("dlv", text)) for text in found.chosen]
    found.problems += [f"There is no delivery {text[:100]}." for text, uuid in parsed if uuid is None]
    return tuple(uuid for _, uuid in parsed if uuid is not None) if parsed else None
