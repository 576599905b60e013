"""Forgetting, in small batches that hold no lock for long: attempts, payloads, finished deliveries, lone events.

Dead letters are kept longer than what was delivered, and what is still owed is never touched. Ids are time-ordered, so
"older than" is a range of the primary key, read from a stored position. Each week begins at the start again: what was
still owed when its time came may have been delivered since. It waits for nobody: what somebody else holds at the moment
(a replay, most likely) is passed over until then.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from deliveries.sql.fragments import DEAD, DELIVERED, RUNNING
from deliveries.upkeep.models import Housekeeping
from subscriptions import ids

_BATCH = 500
_NOTHING = UUID(int=0)

FORGET_ATTEMPTS = """
    WITH old AS (
        SELECT id FROM deliveries_attempt WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), gone AS (DELETE FROM deliveries_attempt WHERE id = ANY (ARRAY(SELECT id FROM old)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next old attempts."""

HOLD_PAYLOADS = """
    SELECT id FROM deliveries_event WHERE id = ANY (ARRAY(
        SELECT id FROM deliveries_event WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
    )) AND body IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED
"""
"""Holds the next payloads, then looks whether they are owed: looking first would miss a replay that is under way."""

FORGET_PAYLOADS = f"""
    WITH old AS (
        SELECT id FROM deliveries_event WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
    ), gone AS (
        UPDATE deliveries_event event SET body = NULL
        WHERE id = ANY (%(held)s::uuid[]) AND NOT EXISTS (
            SELECT FROM subscriptions_endpoint endpoint
            JOIN deliveries_delivery owed ON owed.endpoint_id = endpoint.id AND owed.event_id = event.id
            WHERE endpoint.consumer_id = event.consumer_id AND owed.state <> {DELIVERED}
        )
    )
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Empties those of the held events whose every delivery was delivered."""

FORGET_DELIVERED = f"""
    WITH old AS (
        SELECT id, state FROM deliveries_delivery
        WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
    ), gone AS (
        DELETE FROM deliveries_delivery WHERE id = ANY (ARRAY(
            SELECT id FROM deliveries_delivery
            WHERE id = ANY (ARRAY(SELECT id FROM old WHERE state = {DELIVERED})) AND state = {DELIVERED}
            FOR UPDATE SKIP LOCKED
        )) RETURNING id
    ), told AS (DELETE FROM deliveries_attempt WHERE delivery_id = ANY (ARRAY(SELECT id FROM gone)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next old deliveries that were delivered, with their attempts."""

FORGET_DEAD = f"""
    WITH old AS (
        SELECT id FROM deliveries_delivery
        WHERE id > %(position)s AND id < %(before)s AND state = {DEAD} ORDER BY id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), told AS (DELETE FROM deliveries_attempt WHERE delivery_id = ANY (ARRAY(SELECT id FROM old))
    ), gone AS (DELETE FROM deliveries_delivery WHERE id = ANY (ARRAY(SELECT id FROM old)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next dead letters whose time is over, with their attempts."""

FORGET_EVENTS = """
    WITH old AS (
        SELECT id FROM deliveries_event WHERE id > %(position)s AND id < %(before)s ORDER BY id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
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

FORGET_RECORDS = """
    WITH old AS (
        SELECT id FROM {table} WHERE id > %(position)s AND id < %(before)s AND {over} ORDER BY id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), gone AS (DELETE FROM {table} WHERE id = ANY (ARRAY(SELECT id FROM old)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next old rows of a table that nothing refers to."""

FORGET_REPLAYS = f"""
    WITH old AS (
        SELECT id FROM deliveries_replay
        WHERE id > %(position)s AND id < %(before)s AND status <> {RUNNING} ORDER BY id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), told AS (DELETE FROM deliveries_putback WHERE replay_id = ANY (ARRAY(SELECT id FROM old))
    ), gone AS (DELETE FROM deliveries_replay WHERE id = ANY (ARRAY(SELECT id FROM old)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next old replay jobs that are over, with what they still remember of deliveries that wait."""

FORGET_ENDPOINTS = """
    WITH old AS (
        SELECT id FROM subscriptions_endpoint
        WHERE id > %(position)s AND id < %(before)s AND deleted_at < %(until)s
        ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ), empty AS (
        SELECT id FROM old WHERE NOT EXISTS (SELECT FROM deliveries_delivery WHERE endpoint_id = old.id)
    ), told AS (DELETE FROM deliveries_notice WHERE endpoint_id = ANY (ARRAY(SELECT id FROM empty))
    ), tested AS (DELETE FROM deliveries_senttest WHERE endpoint_id = ANY (ARRAY(SELECT id FROM empty))
    ), checked AS (DELETE FROM subscriptions_checkup WHERE endpoint_id = ANY (ARRAY(SELECT id FROM empty))
    ), lanes AS (DELETE FROM subscriptions_lane WHERE endpoint_id = ANY (ARRAY(SELECT id FROM empty))
    ), gone AS (DELETE FROM subscriptions_endpoint WHERE id = ANY (ARRAY(SELECT id FROM empty)))
    SELECT (SELECT id FROM old ORDER BY id DESC LIMIT 1), count(*) FROM old
"""
"""Deletes the next endpoints that were deleted long ago and have no delivery left, with all that was kept of them."""


@dataclass(frozen=True, slots=True)
class Days:
    """How long each is kept."""

    attempts: int
    payloads: int
    delivered: int
    dead: int
    # What people did by hand: audit entries and finished replay jobs.
    audit_entries: int
    deleted_endpoints: int


@dataclass(frozen=True, slots=True)
class _Step:
    statement: str
    kept_days: int
    # Runs first, in a statement of its own; the ids it finds are the other's `held`.
    hold: str | None = None


def forget(days: Days, *, now: datetime, batches: int = 200) -> dict[str, int]:
    """Up to so many batches of each; the next run goes on from there. Says how many rows of each were looked at."""
    # An event outlives its dead letters, and so do the notices of deaths: they go when the longest is over.
    longest = max(days.delivered, days.dead)
    steps = {
        "attempts": _Step(FORGET_ATTEMPTS, days.attempts),
        "payloads": _Step(FORGET_PAYLOADS, days.payloads, hold=HOLD_PAYLOADS),
        "delivered": _Step(FORGET_DELIVERED, days.delivered),
        "dead": _Step(FORGET_DEAD, days.dead),
        "events": _Step(FORGET_EVENTS, longest),
        "notices": _Step(FORGET_RECORDS.format(table="deliveries_notice", over="true"), longest),
        "audit": _Step(FORGET_RECORDS.format(table="subscriptions_auditentry", over="true"), days.audit_entries),
        "replays": _Step(FORGET_REPLAYS, days.audit_entries),
        "endpoints": _Step(FORGET_ENDPOINTS, days.deleted_endpoints),
    }
    return {name: _forget(name, step, now, batches) for name, step in steps.items()}


def _forget(name: str, step: _Step, now: datetime, batches: int) -> int:
    until, week = now - timedelta(days=step.kept_days), f"{name} {now:%G-W%V}"
    total = 0
    for _ in range(batches):
        count = _forget_batch(week, step, until)
        total += count
        if count < _BATCH:
            break
    Housekeeping.objects.filter(name__startswith=f"{name} ").exclude(name=week).delete()
    return total


@transaction.atomic
def _forget_batch(week: str, step: _Step, until: datetime) -> int:
    keeper, _ = Housekeeping.objects.select_for_update().get_or_create(name=week, defaults={"position": _NOTHING})
    with connection.cursor() as cursor:
        window: dict[str, Any] = {"position": keeper.position, "before": ids.first_at(until), "limit": _BATCH}
        held: list[UUID] = []
        if step.hold is not None:
            cursor.execute(step.hold, window)
            held = [row[0] for row in cursor.fetchall()]
        cursor.execute(step.statement, {**window, "held": held, "until": until})
        [last, count] = cursor.fetchone() or [None, 0]
    if last is not None:
        Housekeeping.objects.filter(name=week).update(position=last)
    return int(count)
