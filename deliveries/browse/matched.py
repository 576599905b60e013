"""How many a replay would take, per endpoint: exact for what the window holds, `is_more` beyond it."""

from dataclasses import dataclass
from uuid import UUID

from deliveries.browse.filter import Filter
from deliveries.browse.source import WIDE_WINDOW, fetch, source

# Where nothing is looked up but keys, more can be counted than listed.
_COUNTED = 100_000


@dataclass(frozen=True)
class Matched:
    # Most first.
    by_endpoint: list[tuple[UUID, int]]
    # Only so many were looked at; what lies beyond is counted by the job as it goes.
    is_more: bool

    @property
    def count(self) -> int:
        return sum(count for _, count in self.by_endpoint)


def matched(wanted: Filter, *, window: int | None = None) -> Matched:
    """Of those that can be replayed: what a deleted endpoint was owed stays where it is."""
    found = source(wanted, only_replayable=True)
    if found.window == WIDE_WINDOW or (found.is_keyed and found.endpoint_ids is not None and not found.narrow):
        found.window = _COUNTED
    found.window = window or found.window
    statement = f"""
        SELECT c.endpoint_id, count(*) FILTER (WHERE {" AND ".join(found.narrow) or "true"}) AS matched, count(*)
        FROM ({found.counted()}) c GROUP BY c.endpoint_id ORDER BY matched DESC, c.endpoint_id
    """
    rows = fetch(statement, found.given)
    return Matched([(row[0], row[1]) for row in rows if row[1]], sum(row[2] for row in rows) >= found.window)
