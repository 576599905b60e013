"""What became of the deliveries that a replay job put back: how many were delivered, died again, or wait.

PutBack remembers each of a job's deliveries with the round that the job began for it. Its row is kept until that round
is over; then it is counted in the job's own row and deleted. So the table holds what is still waiting and little else,
and a job's result stays for as long as the job does.
"""

import random
import time
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction

from deliveries.replaying.models import Replay
from deliveries.sql.fragments import DEAD, DELIVERED, FINISHED

# Rows looked at by one statement, and by one page that asks.
_WINDOW = 10_000
# How long counting may go on at a stretch (seconds).
_STRETCH_SECONDS = 2.0
_NOTHING = UUID(int=0)

FIND_JOBS = """
    WITH RECURSIVE job AS (
        (SELECT replay_id FROM deliveries_putback ORDER BY replay_id LIMIT 1)
        UNION ALL
        SELECT (
            SELECT replay_id FROM deliveries_putback WHERE replay_id > job.replay_id ORDER BY replay_id LIMIT 1
        )
        FROM job WHERE job.replay_id IS NOT NULL
    )
    SELECT replay_id FROM job WHERE replay_id IS NOT NULL
"""
"""The jobs of which something is not counted yet: one step through the index for each."""

LOCK_JOB = "SELECT FROM deliveries_replay WHERE id = %(replay_id)s FOR NO KEY UPDATE SKIP LOCKED"
"""A job before its rows, as everywhere. One that is taken is counted next time."""

COUNT_OVER = f"""
    WITH mine AS (
        SELECT id, delivery_id, round_started_at, outcome FROM deliveries_putback
        WHERE replay_id = %(replay_id)s AND delivery_id > %(after)s ORDER BY delivery_id LIMIT %(limit)s
    ), over AS (
        SELECT mine.id, coalesce(mine.outcome, CASE
            -- Retention has taken it: what became of it, nobody knows any more.
            WHEN delivery.id IS NULL THEN 'unknown'
            WHEN delivery.round_started_at = mine.round_started_at AND delivery.state IN {FINISHED}
                THEN delivery.state
        END) AS outcome
        FROM mine LEFT JOIN LATERAL (
            SELECT id, state, round_started_at FROM deliveries_delivery WHERE id = mine.delivery_id OFFSET 0
        ) delivery ON true
    ), gone AS (
        DELETE FROM deliveries_putback WHERE id = ANY (ARRAY(SELECT id FROM over WHERE outcome IS NOT NULL))
        RETURNING id
    ), counted AS (
        UPDATE deliveries_replay SET
            delivered = delivered + (SELECT count(*) FROM gone JOIN over USING (id) WHERE outcome = {DELIVERED}),
            dead_again = dead_again + (SELECT count(*) FROM gone JOIN over USING (id) WHERE outcome = {DEAD})
        WHERE id = %(replay_id)s AND EXISTS (SELECT FROM gone)
    )
    SELECT (SELECT count(*) FROM gone), (SELECT delivery_id FROM mine ORDER BY delivery_id OFFSET %(limit)s - 1 LIMIT 1)
"""
"""Counts and forgets those of a job's next deliveries whose round is over: how many, and where the window ended if more
may follow. Run twice at once, it counts each once."""

RESULTS = f"""
    SELECT job.replayed, job.delivered, job.dead_again,
        count(*) FILTER (WHERE mine.outcome = {DELIVERED}), count(*) FILTER (WHERE mine.outcome = {DEAD})
    FROM deliveries_replay job LEFT JOIN LATERAL (
        SELECT coalesce(waiting.outcome, delivery.state) AS outcome
        FROM (
            SELECT delivery_id, round_started_at, outcome FROM deliveries_putback
            WHERE replay_id = job.id AND job.replayed - job.delivered - job.dead_again <= %(limit)s
            ORDER BY delivery_id LIMIT %(limit)s
        ) waiting LEFT JOIN LATERAL (
            SELECT state FROM deliveries_delivery
            WHERE id = waiting.delivery_id AND round_started_at = waiting.round_started_at OFFSET 0
        ) delivery ON true
    ) mine ON true
    WHERE job.id = %(replay_id)s GROUP BY job.id
"""
"""A job's counts, and of what is not counted yet the outcomes so far, unless that is too many to look at now."""


@dataclass(frozen=True, slots=True)
class Results:
    """Of the deliveries that one job put back, each counted by the round that this job began."""

    delivered: int
    dead_again: int
    waiting: int


def results(replay: Replay) -> Results:
    """As of now; of a large job, as of the last count, some seconds ago."""
    with connection.cursor() as cursor:
        cursor.execute(RESULTS, {"replay_id": replay.id, "limit": _WINDOW})
        row = cursor.fetchone() or (0, 0, 0, 0, 0)
    replayed, delivered, dead_again = row[0], row[1] + row[3], row[2] + row[4]
    return Results(delivered, dead_again, max(0, replayed - delivered - dead_again))


def count_over(*, window: int = _WINDOW) -> None:
    """A background task: counts what is over, one job after the other in no certain order, for so long at most."""
    deadline, job_ids = time.monotonic() + _STRETCH_SECONDS, _jobs()
    random.shuffle(job_ids)
    for replay_id in job_ids:
        _count_job(replay_id, window, deadline)
        if time.monotonic() >= deadline:
            break


def _count_job(replay_id: UUID, window: int, deadline: float) -> None:
    """From the start while most of a window is over, as deliveries mostly end in the order of their job; then one
    window further on, where the last call stopped: others may wait at the start for days."""
    counted, last = window, None
    while 2 * counted >= window and time.monotonic() < deadline:
        counted, last = _count(replay_id, _NOTHING, window)
    if last is None:
        return
    job = Replay.objects.filter(id=replay_id).values_list("counted_to", flat=True).first()
    _, reached = _count(replay_id, max(job or last, last), window)
    Replay.objects.filter(id=replay_id).update(counted_to=reached)


def _jobs() -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(FIND_JOBS)
        return [row[0] for row in cursor.fetchall()]


def _count(replay_id: UUID, after: UUID, window: int) -> tuple[int, UUID | None]:
    """How many were over, and where the window ended; None if nothing is beyond it, or the job is taken."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK_JOB, {"replay_id": replay_id})
        if cursor.rowcount != 1:
            return 0, None
        cursor.execute(COUNT_OVER, {"replay_id": replay_id, "after": after, "limit": window})
        [counted, last] = cursor.fetchone() or [0, None]
    return counted, last
