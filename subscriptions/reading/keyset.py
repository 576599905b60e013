"""The one paginator of lists by id, for API, console and portal: a page begins after an id, never at an offset, and
nobody counts. Deliveries and events, whose filters an index may not know, are walked in deliveries/browse."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class KeysetSlice(Generic[M]):
    """So many rows, newest first, and whether there are more at either end."""

    rows: list[M]
    more_newer: bool
    more_older: bool


def keyset_slice(
    rows: QuerySet[M], *, key: str, size: int, before: UUID | None = None, after: UUID | None = None
) -> KeysetSlice[M]:
    """By a unique, time-ordered id: the newest, those older than `before`, or those just newer than `after`."""
    if after is not None:
        found = list(rows.filter(**{f"{key}__gt": after}).order_by(key)[: size + 1])
        return KeysetSlice(found[:size][::-1], more_newer=len(found) > size, more_older=True)
    older = rows if before is None else rows.filter(**{f"{key}__lt": before})
    found = list(older.order_by(f"-{key}")[: size + 1])
    return KeysetSlice(found[:size], more_newer=before is not None, more_older=len(found) > size)
