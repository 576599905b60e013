"""Lists that stay fast however long they are: a page begins after an id, never at an offset, and nobody counts."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import HttpRequest

M = TypeVar("M", bound=Model)
PAGE = 50


@dataclass(frozen=True)
class Page(Generic[M]):
    rows: list[M]
    # Query strings of the pages beside this one; None at either end.
    newer: str | None
    older: str | None


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
