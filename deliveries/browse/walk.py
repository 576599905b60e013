"""Pages of deliveries: a page begins after a position, never at an offset, and what no index knows is looked for in a
window. A page that is not full and has `further` set has come to the window's end: there may be more beyond it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from deliveries.browse.filter import Filter
from deliveries.browse.source import Source, WalkPosition, fetch, source
from deliveries.models import Delivery


@dataclass(frozen=True)
class Walk:
    rows: list[Delivery]
    # Where the next page in the same direction begins; None at the end.
    following: WalkPosition | None
    # How many were looked at without finding enough; None if the page is full or nothing is left.
    looked_at: int | None
    key: str

    def position_of(self, row: Delivery) -> WalkPosition:
        return WalkPosition(getattr(row, self.key), row.id)


def walk(
    wanted: Filter, *, size: int, after: WalkPosition | None = None, forward: bool = False, window: int | None = None
) -> Walk:
    """Newest first from a position, or from it to newer ones (`forward`, and then oldest first)."""
    found = source(wanted)
    found.window = window or found.window
    positions, following, looked_at = _positions(found, size=size, after=after, forward=forward)
    return Walk(_rows([position.id for position in positions]), following, looked_at, found.key)


@dataclass(frozen=True)
class Batch:
    """What a replay job takes next."""

    ids: list[UUID]
    # How far it has looked; None if it has looked at nothing.
    position: WalkPosition | None
    # Nothing is left beyond these.
    is_last: bool


def next_batch(
    wanted: Filter, *, size: int, after: WalkPosition | None, finished_by: datetime, window: int | None = None
) -> Batch:
    """The next deliveries that a replay takes, oldest first: the ones that `matched` counts, a window at a time."""
    found = source(wanted, only_replayable=True, finished_by=finished_by)
    found.window = window or found.window
    positions, following, _ = _positions(found, size=size, after=after, forward=True)
    last = following or (positions[-1] if positions else after)
    return Batch([position.id for position in positions], last, is_last=following is None)


def _positions(
    found: Source, *, size: int, after: WalkPosition | None, forward: bool
) -> tuple[list[WalkPosition], WalkPosition | None, int | None]:
    """Up to `size` that match, where the next ones begin, and how many were looked at in vain."""
    take = found.window if found.narrow else size + 1
    candidates = found.candidates(take=take, after=after, forward=forward)
    way = "ASC" if forward else "DESC"
    order = f"c.id {way}" if found.key == "id" else f"c.event_id {way}, c.id {way}"
    narrow = " AND ".join(found.narrow) or "true"
    given = {**found.given, "size": size + 1}
    statement = f"SELECT c.{found.key}, c.id FROM ({candidates}) c WHERE {narrow} ORDER BY {order} LIMIT %(size)s"
    positions, end = [WalkPosition(*row) for row in fetch(statement, given)], None
    if len(positions) <= size and found.narrow:
        positions, end = _window(found, candidates, narrow=narrow, order=order, given=given)
        positions.sort(key=lambda each: (each.key, each.id), reverse=not forward)  # a union promises no order
    if len(positions) > size:
        return positions[:size], positions[size - 1], None
    return positions, end, found.window if end else None


def _window(
    found: Source, candidates: str, *, narrow: str, order: str, given: dict[str, Any]
) -> tuple[list[WalkPosition], WalkPosition | None]:
    """Those of a window that match, and its last candidate if it is full: in one statement, and so as of one moment.
    Otherwise what leaves the window meanwhile would move its end beyond rows that nobody has looked at."""
    matching = f"SELECT c.{found.key}, c.id, false FROM c WHERE {narrow} ORDER BY {order} LIMIT %(size)s"
    last = f"SELECT c.{found.key}, c.id, true FROM c ORDER BY {order} OFFSET {found.window - 1:d} LIMIT 1"
    rows = fetch(f"WITH c AS MATERIALIZED ({candidates}) ({matching}) UNION ALL ({last})", given)
    ends = [WalkPosition(key, id) for key, id, is_end in rows if is_end]
    matches = [WalkPosition(key, id) for key, id, is_end in rows if not is_end]
    return matches, ends[0] if ends else None


def walk_many(wanted: Filter, *, limit: int, window: int | None = None) -> list[Delivery]:
    """For a shell, which may wait: window after window until so many are found or nothing is left."""
    rows: list[Delivery] = []
    following: WalkPosition | None = None
    while len(rows) < limit:
        found = walk(wanted, size=min(limit - len(rows), 1000), after=following, window=window)
        rows += found.rows
        following = found.following
        if following is None:
            break
    return rows


def _rows(delivery_ids: list[UUID]) -> list[Delivery]:
    rows = Delivery.objects.select_related("event", "endpoint__consumer").defer("event__body").in_bulk(delivery_ids)
    return [rows[each] for each in delivery_ids if each in rows]
