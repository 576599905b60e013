"""Reads the dead letters' filter from a query string, for the page, its groups, the preview and the replay alike."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.http import QueryDict

from deliveries.browse.events import events_by_producer_id
from deliveries.browse.filter import Filter
from subscriptions import consumers, endpoints, ids
from subscriptions.models import Consumer, Endpoint
from subscriptions.times import BadTime, read_time

WITHIN = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
NAMES = ("consumer", "endpoint", "event_type", "reason", "error", "within", "since", "until", "q")


@dataclass
class Criteria:
    """What was asked for, as given and as understood. `problems` says what could not be understood: then nothing
    matches."""

    values: dict[str, str]
    filter: Filter
    consumer: Consumer | None = None
    endpoint: Endpoint | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def is_narrowed(self) -> bool:
        return self.filter.is_narrowed


def read(query: QueryDict) -> Criteria:
    values = {name: query.get(name, "").strip() for name in NAMES}
    problems: list[str] = []
    consumer = consumers.find(values["consumer"]) if values["consumer"] else None
    if values["consumer"] and consumer is None:
        problems.append(f"There is no consumer {values['consumer']}.")
    endpoint = endpoints.find(values["endpoint"]) or _deleted(values["endpoint"]) if values["endpoint"] else None
    if values["endpoint"] and endpoint is None:
        problems.append(f"There is no endpoint {values['endpoint']}.")
    event_id, ordering_key, event_consumer_id = _search(values["q"])
    since, until = _times(values, problems)
    wanted = Filter(
        consumer_id=consumer.id if consumer else event_consumer_id,
        endpoint_id=endpoint.id if endpoint else None,
        event_type=values["event_type"] or None,
        dead_reason=values["reason"] or None,
        error_kind=values["error"] or None,
        since=since,
        until=until,
        event_id=event_id,
        ordering_key=ordering_key,
        delivery_ids=_chosen(query.getlist("delivery"), problems),
    )
    return Criteria(values=values, filter=wanted, consumer=consumer, endpoint=endpoint, problems=problems)


def _search(text: str) -> tuple[UUID | None, str | None, UUID | None]:
    """An event by our id or its producer's, or else an ordering key."""
    if not text:
        return None, None, None
    if event_id := ids.parse("evt", text):
        return event_id, None, None
    if found := events_by_producer_id(text, limit=1):
        return found[0][0], None, found[0][1]
    return None, text, None


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


def _chosen(texts: list[str], problems: list[str]) -> tuple[UUID, ...] | None:
    """Deliveries selected one by one; None if none were, which is not the same as none of these."""
    found = [(text, ids.parse("dlv", text)) for text in texts]
    problems += [f"There is no delivery {text[:100]}." for text, uuid in found if uuid is None]
    return tuple(uuid for _, uuid in found if uuid is not None) if texts else None


def _deleted(public_id: str) -> Endpoint | None:
    uuid = ids.parse("ep", public_id)
    return Endpoint.objects.select_related("consumer").filter(id=uuid).first() if uuid else None
