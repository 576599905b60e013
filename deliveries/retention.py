"""Forgetting, in small batches that hold no lock for long: attempts, payloads, finished deliveries, lone events.

Dead letters are kept longer than what was delivered, and what is still owed is never touched. Ids are time-ordered, so
"older than" is a range of the primary key, read from a stored position. Each week begins at the start again: what was
still owed when its time came may have been delivered since.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from deliveries.models import Housekeeping
from subscriptions import ids

_BATCH = 500
_NOTHING = UUID(int=0)

FORGET_ATTEMPTS = """
    WITH old AS (
        SELECT id FROM deliveries_attempt WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
    ), gone AS (DELETE FROM deliveries_attempt WHERE id = ANY (ARRAY(SELECT id FROM old)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next old attempts."""

FORGET_PAYLOADS = """
    WITH old AS (
        SELECT id FROM deliveries_event WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
    ), gone AS (
        UPDATE deliveries_event event SET body = NULL
        WHERE id = ANY (ARRAY(SELECT id FROM old)) AND body IS NOT NULL AND NOT EXISTS (
            SELECT FROM subscriptions_endpoint endpoint
            JOIN deliveries_delivery owed ON owed.endpoint_id = endpoint.id AND owed.event_id = event.id
            WHERE endpoint.consumer_id = event.consumer_id AND owed.state IN ('pending', 'in_flight', 'dead')
        )
    )
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Empties the next old events whose every delivery was delivered."""

FORGET_DELIVERED = """
    WITH old AS (
        SELECT id, state FROM deliveries_delivery
        WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
    ), gone AS (
        DELETE FROM deliveries_delivery WHERE id = ANY (ARRAY(SELECT id FROM old WHERE state = 'delivered'))
            AND state = 'delivered' RETURNING id
    ), told AS (DELETE FROM deliveries_attempt WHERE delivery_id = ANY (ARRAY(SELECT id FROM gone))
    ), noticed AS (DELETE FROM deliveries_notice WHERE delivery_id = ANY (ARRAY(SELECT id FROM gone)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next old deliveries that were delivered, with their attempts, and the notices of earlier deaths."""

FORGET_DEAD = """
    WITH old AS (
        SELECT id FROM deliveries_delivery
        WHERE id > %(position)s AND id < %(before)s AND state = 'dead' ORDER BY id LIMIT %(limit)s
    ), told AS (DELETE FROM deliveries_attempt WHERE delivery_id = ANY (ARRAY(SELECT id FROM old))
    ), noticed AS (DELETE FROM deliveries_notice WHERE delivery_id = ANY (ARRAY(SELECT id FROM old))
    ), gone AS (DELETE FROM deliveries_delivery WHERE id = ANY (ARRAY(SELECT id FROM old)) AND state = 'dead')
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next dead letters whose time is over."""

FORGET_EVENTS = """
    WITH old AS (
        SELECT id FROM deliveries_event WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
    ), gone AS (
        DELETE FROM deliveries_event event WHERE id = ANY (ARRAY(SELECT id FROM old)) AND NOT EXISTS (
            SELECT FROM subscriptions_endpoint endpoint
            JOIN deliveries_delivery owed ON owed.endpoint_id = endpoint.id AND owed.event_id = event.id
            WHERE endpoint.consumer_id = event.consumer_id
        )
    )
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next old events that no delivery refers to any more."""


@dataclass(frozen=True, slots=True)
class Days:
    """How long each is kept."""

    attempts: int
    payloads: int
    delivered: int
    dead: int


def forget(days: Days, *, now: datetime, batches: int = 200) -> dict[str, int]:
    """Up to so many batches of each; the next run goes on from there. Says how many rows of each were looked at."""
    # An event outlives its dead letters: it goes when the longest of them is over.
    events = max(days.delivered, days.dead)
    steps = {
        "attempts": (FORGET_ATTEMPTS, days.attempts),
        "payloads": (FORGET_PAYLOADS, days.payloads),
        "delivered": (FORGET_DELIVERED, days.delivered),
        "dead": (FORGET_DEAD, days.dead),
        "events": (FORGET_EVENTS, events),
    }
    return {name: _forget(name, statement, kept, now, batches) for name, (statement, kept) in steps.items()}


def _forget(name: str, statement: str, kept_days: int, now: datetime, batches: int) -> int:
    before, week = ids.first_at(now - timedelta(days=kept_days)), f"{name} {now:%G-W%V}"
    total = 0
    for _ in range(batches):
        count = _forget_batch(week, statement, before)
        total += count
        if count < _BATCH:
            break
    Housekeeping.objects.filter(name__startswith=f"{name} ").exclude(name=week).delete()
    return total


@transaction.atomic
def _forget_batch(week: str, statement: str, before: UUID) -> int:
    keeper, _ = Housekeeping.objects.select_for_update().get_or_create(name=week, defaults={"position": _NOTHING})
    with connection.cursor() as cursor:
        cursor.execute(statement, {"position": keeper.position, "before": before, "limit": _BATCH})
        [last, count] = cursor.fetchone() or [None, 0]
    if last is not None:
        Housekeeping.objects.filter(name=week).update(position=last)
    return int(count)
