"""Lists that stay fast however long they are: a page begins after an id, never at an offset, and nobody counts."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import HttpRequest

from deliveries.browse.events import EventFilter, EventPosition, walk_events
from deliveries.browse.filter import Filter
from deliveries.browse.source import WalkPosition
from deliveries.browse.walk import walk
from deliveries.models import Delivery, Event
from subscriptions.models import Consumer
from subscriptions.reading.keyset import keyset_slice

M = TypeVar("M", bound=Model)
PAGE = 50


@dataclass(frozen=True)
class ListPage(Generic[M]):
    rows: list[M]
    # Query strings of the pages beside this one; None at either end.
    newer: str | None
    older: str | None
    # Only so many rows were looked at, and there are more beyond: `older` (or `newer`) looks further.
    looked_at: int | None = None
    # Sorted by a figure: `older` leads further down, and `newer` up.
    is_ranked: bool = False


def page(request: HttpRequest, rows: QuerySet[M], *, key: str = "id", size: int = PAGE) -> ListPage[M]:
    """Newest first, by a unique, time-ordered id."""
    before, after = _position(request, "before"), _position(request, "after")
    found = keyset_slice(rows, key=key, size=size, before=before, after=after)
    shown = found.rows
    return ListPage(
        rows=shown,
        newer=_query(request, after=getattr(shown[0], key)) if shown and found.more_newer else None,
        older=_query(request, before=getattr(shown[-1], key)) if shown and found.more_older else None,
    )


def ranked(request: HttpRequest, rows: QuerySet[M], ranks: Mapping[UUID, float], *, size: int = PAGE) -> ListPage[M]:
    """Lowest rank first, those without one last. A page begins after a rank and an id: ranks may change meanwhile."""
    places = sorted((ranks.get(row_id, inf), row_id) for row_id in rows.values_list("id", flat=True))
    before, after = _rank(request, "before"), _rank(request, "after")
    if after is not None:
        end = bisect_left(places, after)
        shown = places[max(0, end - size) : end]
    else:
        start = bisect_right(places, before) if before is not None else 0
        shown = places[start : start + size]
    found = rows.in_bulk([row_id for _, row_id in shown])
    return ListPage(
        rows=[found[row_id] for _, row_id in shown if row_id in found],
        newer=_query(request, after="{}~{}".format(*shown[0])) if shown and shown[0] > places[0] else None,
        older=_query(request, before="{}~{}".format(*shown[-1])) if shown and shown[-1] < places[-1] else None,
        is_ranked=True,
    )


def _rank(request: HttpRequest, name: str) -> tuple[float, UUID] | None:
    rank, _, row_id = request.GET.get(name, "").partition("~")
    try:
        place = (float(rank), UUID(row_id))
    except ValueError:
        return None
    return None if isnan(place[0]) else place


def deliveries(request: HttpRequest, wanted: Filter, *, size: int = PAGE) -> ListPage[Delivery]:
    before, after = _pair(request, "before"), _pair(request, "after")
    found = walk(wanted, size=size, after=_place(after or before), forward=after is not None)
    return _walked(request, found, forward=after is not None, is_first=before is None)


def events(request: HttpRequest, *, consumer: Consumer | None, type: str | None, size: int = PAGE) -> ListPage[Event]:
    before, after = _pair(request, "before"), _pair(request, "after")
    given, wanted = after or before, EventFilter(consumer_id=consumer.id if consumer else None, type=type)
    place = wanted.position(*given) if given else None
    found = walk_events(wanted, size=size, after=place, forward=after is not None)
    return _walked(request, found, forward=after is not None, is_first=before is None)


def _walked(request: HttpRequest, found: Any, *, forward: bool, is_first: bool) -> ListPage[Any]:
    """A walk of deliveries or events. The way on begins where it stopped, the way back at the row at the other end."""
    rows = found.rows[::-1] if forward else found.rows
    on = _shown(found.following) if found.following else None
    back = _shown(found.position_of(rows[-1 if forward else 0])) if rows and (forward or not is_first) else None
    newer, older = (on, back) if forward else (back, on)
    return ListPage(
        rows=rows,
        newer=_query(request, after=newer) if newer else None,
        older=_query(request, before=older) if older else None,
        looked_at=found.looked_at,
    )


def _pair(request: HttpRequest, name: str) -> tuple[str, UUID] | None:
    """`key.id`, or an id that is its own key."""
    key, _, last = request.GET.get(name, "").rpartition(".")
    try:
        return key or last, UUID(last)
    except ValueError:
        return None


def _place(given: tuple[str, UUID] | None) -> WalkPosition | None:
    if given is None:
        return None
    try:
        return WalkPosition(UUID(given[0]), given[1])
    except ValueError:
        return None


def _shown(position: WalkPosition | EventPosition) -> str:
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
