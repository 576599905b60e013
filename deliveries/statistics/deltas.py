"""Counts that a killed process cannot take with it: rows written by the statement, or in the transaction, that counts.

Accepting an event, settling an attempt and burying a delivery each append to `deliveries_delta` what they did. Nobody
waits for anybody there: rows are only inserted. `totals.py` adds them up and takes them out every couple of seconds.

What happens too often or too early for a row (a look at an Idempotency-Key, a refused address) is counted in memory
(`subscriptions/process/counting.py`) and comes here a second later; a killed process loses that second.
"""

from collections.abc import Mapping

import psycopg
from django.db import connection

from deliveries.pump import database

# The counters. `accepted` has a consumer, the four after it an endpoint; the first three of those are attempts.
ACCEPTED = "accepted"
DELIVERED, FAILED, DEAD = "delivered", "failed", "dead"  # dead: the last attempt failed
BURIED = "buried"  # dead without a last attempt; the label is the reason
BREAKER = "breaker"  # to open or closed
REPLAYS = "replays"  # by status
IDEMPOTENCY = "idempotency"  # result and layer
REFUSED = "refused"  # addresses, by reason

APPEND = """
    INSERT INTO deliveries_delta (counter, label, count)
    SELECT * FROM unnest(%(counters)s::text[], %(labels)s::text[], %(counts)s::int[])
"""
"""Counts what belongs to no consumer and no endpoint."""


def count(counter: str, label: str) -> None:
    """In the caller's transaction, so that it counts if and only if that commits."""
    with connection.cursor() as cursor:
        cursor.execute(APPEND, columns({(counter, label): 1}))


def write(counts: Mapping[tuple[str, str], int]) -> None:
    """For the thread that writes what was counted in memory: on a connection of its own, for a moment."""
    with psycopg.connect(database.conninfo(), **database.session(), connect_timeout=5) as own:
        own.execute(APPEND, columns(counts))


def columns(counts: Mapping[tuple[str, str], int]) -> dict[str, list[str] | list[int]]:
    """As APPEND wants them."""
    return {
        "counters": [counter for counter, _ in counts],
        "labels": [label[:64] for _, label in counts],
        "counts": list(counts.values()),
    }
