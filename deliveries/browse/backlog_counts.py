"""How much waits for each endpoint, for sorting them by it. The cost is bounded whatever waits."""

from uuid import UUID

from deliveries.browse.backlog import FIND_OWED, UP_TO
from deliveries.browse.source import fetch
from deliveries.sql.fragments import is_claimable

# More than anybody has. So many rows are counted of each at least, and in so many rounds.
_ENDPOINTS = 50_000
_LEAST = 20
_ROUNDS = 3

OWED_ENDPOINTS = f"{FIND_OWED} SELECT id FROM owed"

COUNT_BACKLOGS = f"""
    SELECT owed.id, waiting.count
    FROM unnest(%(ids)s::uuid[]) AS owed (id)
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM deliveries_delivery WHERE endpoint_id = owed.id AND {is_claimable()} LIMIT %(each)s
        ) _
    ) waiting
"""
"""How many deliveries wait for each endpoint, now or for a retry, up to so many of each."""


def count_backlogs(*, up_to: int = UP_TO) -> dict[UUID, int]:
    """Of every endpoint that is owed anything.

    Each is counted as far as its share of `up_to` goes, and those with more once more, with all of it. So the order is
    exact where few endpoints have long backlogs.
    """
    ids = [row[0] for row in fetch(OWED_ENDPOINTS, {"endpoints": _ENDPOINTS})]
    counts: dict[UUID, int] = {}
    for _ in range(_ROUNDS):
        if not ids:
            break
        each = max(_LEAST, up_to // len(ids))
        rows = fetch(COUNT_BACKLOGS, {"ids": ids, "each": each})
        counts.update(rows)
        ids = [endpoint_id for endpoint_id, count in rows if count >= each]
        if len(ids) == len(rows):
            break
    return counts
