"""Deliveries as the rows of a list: each says how its last attempt ended, or why there was none."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from django.utils.translation import gettext as _

from deliveries.browse.last_attempts import LastAttempt, last_attempts
from deliveries.browse.words import outcome
from deliveries.models import Delivery
from deliveries.portal import words
from deliveries.states import DeliveryState
from subscriptions.models import Endpoint


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    """A row of the list."""

    delivery: Delivery
    # How its last attempt ended, or why it was not attempted.
    why: str
    detail: str
    # Where it goes; empty where the whole list goes there.
    url: str = ""


def lines(rows: list[Delivery], urls: Mapping[UUID, str] = MappingProxyType({})) -> list[DeliveryLine]:
    """With `urls` by endpoint, each line says where it goes."""
    ended = last_attempts(rows)
    gone = _("a deleted endpoint") if urls else ""
    return [DeliveryLine(row, *_why(row, ended.get(row.id)), url=urls.get(row.endpoint_id, gone)) for row in rows]


def _why(delivery: Delivery, last: LastAttempt | None) -> tuple[str, str]:
    if last is not None:
        return outcome(last.status_code, last.error_kind), last.error_detail or ""
    if delivery.dead_reason:
        return words.why_dead(delivery.dead_reason, replayable=True)[0], ""
    return (_("being sent") if delivery.state == DeliveryState.IN_FLIGHT else _("not attempted yet")), ""


def newest(endpoint: Endpoint, *, count: int = 10) -> list[DeliveryLine]:
    rows = Delivery.objects.filter(endpoint=endpoint).select_related("event").defer("event__body")
    return lines(list(rows.order_by("-event_id")[:count]))
