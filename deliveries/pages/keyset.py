"""Lists that stay fast however long they are: a page begins after an id, never at an offset, and nobody counts."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import HttpRequest

from deliveries.browse.events import EventFilter, EventPosition, walk_events
from deliveries.browse.filter import Filter
from deliveries.browse.source import Position
from deliveries.browse.walk import walk
from deliveries.models import Delivery, Event
from subscriptions.models import Consumer

M = TypeVar("M", bound=Model)
PAGE = 50


@dataclass(frozen=True)
class Page(Generic[M]):
    rows: list[M]
    # Query strings of the pages beside this one; None at either end.
    newer: str | None
    older: str | None
    # Only so many rows were looked at, and there are more beyond: `older` (or `newer`) looks further.
    looked_at: int | None = None


def page(request: HttpRequest, rows: QuerySet[M], *, key: str = "id", size: int = PAGE) -> Page[M]:
    """Newest first, by a unique, time-ordered id."""
    before, after = _position(request, "before"), _position(request, "after")
    if after is not None:
        found = list(rows.filter(**{f"{key}__gt": after}).order_by(key)[: size + 1])
        more_newer, more_older = len(found) > size, True
        found = found[:size][::-1]
    else:
        older = rows if before is None else rows.filter(**{f"{key}__lt": before})
        found = list(older.order_by(f"-{key}")[: size + 1])
        more_newer, more_older = before is not None, len(found) > size
        found = found[:size]
    return Page(
        rows=found,
        newer=_query(request, after=getattr(found[0], key)) if found and more_newer else None,
        older=_query(request, before=getattr(found[-1], key)) if found and more_older else None,
    )


def deliveries(request: HttpRequest, wanted: Filter, *, size: int = PAGE) -> Page[Delivery]:
    before, after = _pair(request, "before"), _pair(request, "after")
    forward = after is not None
    found = walk(wanted, size=size, after=_place(after or before), forward=forward)
    rows = found.rows[::-1] if forward else found.rows
    ends = [_shown(found.position_of(row)) for row in (rows[0], rows[-1])] if rows else []
    return _bounded(
        request, rows, ends, following=_shown(found.following) if found.following else None, looked_at=found.looked_at,
        forward=forward, is_first=before is None,
    )  # fmt: skip


def events(request: HttpRequest, *, consumer: Consumer | None, type: str | None, size: int = PAGE) -> Page[Event]:
    before, after = _pair(request, "before"), _pair(request, "after")
    forward = after is not None
    given, wanted = after or before, EventFilter(consumer_id=consumer.id if consumer else None, type=type)
    place = wanted.position(*given) if given else None
    found = walk_events(wanted, size=size, after=place, forward=forward)
    rows = found.rows[::-1] if forward else found.rows
    ends = [_shown(found.position_of(row)) for row in (rows[0], rows[-1])] if rows else []
    return _bounded(
        request, rows, ends, following=_shown(found.following) if found.following else None,
        looked_at=found.looked_at, forward=forward, is_first=before is None,
    )  # fmt: skip


def _bounded(
    request: HttpRequest, rows: list[M], ends: list[str], *, following: str | None, looked_at: int | None,
    forward: bool, is_first: bool,
) -> Page[M]:  # fmt: skip
    """The way on begins at `following`, the way back at the row at the other end."""
    if forward:
        newer, older = following, ends[1] if ends else None
    else:
        newer, older = ends[0] if ends and not is_first else None, following
    return Page(
        rows=rows,
        newer=_query(request, after=newer) if newer else None,
        older=_query(request, before=older) if older else None,
        looked_at=looked_at,
    )


def _pair(request: HttpRequest, name: str) -> tuple[str, UUID] | None:
    """`key.id`, or an id that is its own key."""
    key, _, last = request.GET.get(name, "").rpartition(".")
    try:
        return key or last, UUID(last)
    except ValueError:
        return None


def _place(given: tuple[str, UUID] | None) -> Position | None:
    if given is None:
        return None
    try:
        return Position(UUID(given[0]), given[1])
    except ValueError:
        return None


def _shown(position: Position | EventPosition) -> str:
    return str(position.id) if str(position.key) == str(position.id) else f"{position.key}.{position.id}"


def _position(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET[name])
    except (KeyError, ValueError):
        return None


def _query(request: HttpRequest, **position: Any) -> str:
    query = request.GET.copy()
    for name in ("before", "after"):
        query.pop(name, None)
    for name, value in position.items():
        query[name] = str(value)
    return query.urlencode()
