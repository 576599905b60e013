"""Step: replay. Deliveries go out again: back to `pending` for a new round, with the same event id, body and history.

One at a time, or as a job: a filter whose deliveries go in order from a stored position, so a job survives any crash
and takes each delivery at most once. It takes what the preview counted (browse/source.py). A delivery that dies again
while its job runs is not taken again. A job with a rate gives out due times a few seconds ahead, one after the other:
late or doubled ticks change nothing about the rate, and after a stall it goes on at its rate instead of catching up.
Cancelled, it takes back what has not been sent. A job may also send what an endpoint never had (replaying/missed.py),
with the same rate, progress and end. Jobs have turns of one batch each, fair by consumer (fair_turns.py).
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import ngettext

from deliveries import bell
from deliveries.browse.filter import Filter as Filter
from deliveries.browse.source import WalkPosition
from deliveries.browse.walk import Batch, next_batch
from deliveries.models import Delivery
from deliveries.replaying import missed as missed_events
from deliveries.replaying.fair_turns import OPERATORS, FairTurns, Job
from deliveries.replaying.missed import Missed
from deliveries.replaying.models import Replay, ReplayStatus
from deliveries.replaying.preview import preview
from deliveries.sql.fragments import DEAD, DELIVERED, FINISHED, PENDING, has_head, lock_keys, unblock_next
from deliveries.statistics import deltas
from deliveries.upkeep.models import Housekeeping
from subscriptions.models import Consumer

logger = logging.getLogger(__name__)

# Deliveries put back in one turn, and how long one tick may hand out turns (seconds).
_BATCH = 1000
# Deliveries that one statement takes back from a cancelled job.
_TAKEN_BACK_AT_ONCE = 5000
_TICK_SECONDS = 0.8
# The row that says whose turn was the last.
_LAST_TURN = "replay turn"
# How far ahead due times are given out: the task may be late by this much before the receiver notices.
_AHEAD = timedelta(seconds=5)

LOCK_KEYS = lock_keys("""
    SELECT DISTINCT event.consumer_id, event.ordering_key AS key
    FROM deliveries_delivery delivery
    JOIN subscriptions_endpoint endpoint ON endpoint.id = delivery.endpoint_id AND endpoint.ordered
    JOIN deliveries_event event ON event.id = delivery.event_id AND event.ordering_key IS NOT NULL
    WHERE delivery.id = ANY (%(ids)s::uuid[])
""")
"""The ordering keys of these deliveries."""

LOCK_FINISHED = f"""
    SELECT FROM deliveries_delivery
    WHERE id = ANY (%(ids)s::uuid[]) AND state IN {FINISHED} ORDER BY id FOR UPDATE
"""
"""Locks the deliveries in id order: two replays of the same ones wait for each other once, not in a circle."""

LOCK_PAYLOADS = f"""
    SELECT FROM deliveries_event WHERE id = ANY (ARRAY(
        SELECT event_id FROM deliveries_delivery
        WHERE id = ANY (%(ids)s::uuid[]) AND state IN {FINISHED}
    )) AND body IS NOT NULL ORDER BY id FOR SHARE
"""
"""Retention passes over a payload held like this, and what it has emptied the next statement sees."""

PUT_BACK = f"""
    WITH chosen AS (
        SELECT delivery.id, wanted.ordering_key, wanted.sequence, delivery.round_base, delivery.round_started_at,
            delivery.dead_reason, delivery.finished_at,
            row_number() OVER (
                PARTITION BY delivery.endpoint_id, wanted.ordering_key ORDER BY wanted.sequence
            ) > 1 OR {has_head("delivery.endpoint_id", "wanted.ordering_key")} AS waits
        FROM deliveries_delivery delivery
        JOIN subscriptions_endpoint endpoint ON endpoint.id = delivery.endpoint_id AND endpoint.deleted_at IS NULL
        JOIN deliveries_event event ON event.id = delivery.event_id AND event.body IS NOT NULL
        -- In order if its endpoint wants that now, whatever it wanted when the event came.
        LEFT JOIN LATERAL (SELECT event.ordering_key, event.sequence WHERE endpoint.ordered) wanted ON true
        WHERE delivery.id = ANY (%(ids)s::uuid[]) AND delivery.state IN {FINISHED}
    ), moved AS (
        UPDATE deliveries_delivery delivery
        SET state = {PENDING}, round_base = attempt_count, round_started_at = now(), dead_reason = NULL,
            finished_at = NULL, ordering_key = chosen.ordering_key, sequence = chosen.sequence,
            blocked = chosen.ordering_key IS NOT NULL AND chosen.waits,
            due_at = coalesce(%(first_at)s, now())
                + (array_position(%(ids)s::uuid[], delivery.id) - 1) * %(spacing)s * interval '1 second'
        FROM chosen
        WHERE delivery.id = ANY (%(ids)s::uuid[]) AND delivery.id = chosen.id
            AND delivery.state IN {FINISHED}
        RETURNING delivery.id, delivery.endpoint_id, delivery.round_started_at
    ), remembered AS (
        INSERT INTO deliveries_putback (
            replay_id, delivery_id, round_started_at, old_round_base, old_round_started_at, old_dead_reason,
            old_finished_at
        )
        SELECT %(replay_id)s, id, moved.round_started_at, round_base, chosen.round_started_at, dead_reason, finished_at
        FROM moved JOIN chosen USING (id) WHERE %(replay_id)s::uuid IS NOT NULL
    ), ended AS (
        -- For the job that began the round before: from now on the delivery does not say how that one ended.
        UPDATE deliveries_putback earlier
        SET outcome = CASE WHEN chosen.dead_reason IS NULL THEN {DELIVERED} ELSE {DEAD} END
        FROM chosen
        WHERE earlier.delivery_id = ANY (%(ids)s::uuid[]) AND earlier.delivery_id = chosen.id
            AND earlier.round_started_at = chosen.round_started_at
    )
    SELECT endpoint_id FROM moved
"""
"""Starts a new round for finished deliveries, spaced out in time; those whose endpoint or payload is gone stay."""

FIND_UNSENT = f"""
    SELECT delivery.id FROM deliveries_putback mine
    JOIN deliveries_delivery delivery
        ON delivery.id = mine.delivery_id AND delivery.round_started_at = mine.round_started_at
    WHERE mine.replay_id = %(replay_id)s AND delivery.state = {PENDING}
        AND delivery.attempt_count = delivery.round_base
"""
"""What a job has put back and nobody has attempted since."""

TAKE_BACK = f"""
    WITH unsent AS (
        SELECT delivery.id, delivery.blocked, mine.old_round_base, mine.old_round_started_at, mine.old_dead_reason,
            mine.old_finished_at
        FROM deliveries_delivery delivery
        JOIN deliveries_putback mine ON mine.replay_id = %(replay_id)s AND mine.delivery_id = delivery.id
        WHERE delivery.id = ANY (%(ids)s::uuid[]) AND delivery.state = {PENDING}
            AND delivery.attempt_count = delivery.round_base AND delivery.round_started_at = mine.round_started_at
        ORDER BY delivery.id FOR UPDATE OF delivery
    ), ended AS (
        UPDATE deliveries_delivery delivery
        SET state = CASE WHEN old_dead_reason IS NULL THEN {DELIVERED} ELSE {DEAD} END, dead_reason = old_dead_reason,
            finished_at = old_finished_at, round_base = old_round_base, round_started_at = old_round_started_at,
            blocked = false
        FROM unsent
        WHERE delivery.id = ANY (ARRAY(SELECT id FROM unsent)) AND delivery.id = unsent.id
        RETURNING delivery.id, endpoint_id, ordering_key, unsent.blocked AS was_blocked
    ), unblocked AS (
        {
    unblock_next(
        "ended",
        where="AND NOT ended.was_blocked",
        except_for="AND waiting.id <> ALL (ARRAY(SELECT id FROM unsent))",
    )
}
    ), forgotten AS (
        DELETE FROM deliveries_putback
        WHERE replay_id = %(replay_id)s AND delivery_id = ANY (ARRAY(SELECT id FROM ended))
    )
    SELECT endpoint_id FROM ended
"""
"""Makes unsent deliveries what they were before their job; the next of their ordering keys may go."""


class NotReplayable(Exception):
    """Not finished yet, or its endpoint or its payload is gone. Says which."""


@transaction.atomic
def replay_one(delivery: Delivery) -> None:
    """Guarded: of two who ask at the same moment, one starts the new round."""
    endpoint_ids = _put_back([delivery.id])
    if not endpoint_ids:
        raise NotReplayable(_why_not(delivery))
    transaction.on_commit(lambda: bell.ring(endpoint_ids))


def replay_many(delivery_ids: Sequence[UUID]) -> int:
    """A handful at once, inside the caller's transaction; how many began a new round."""
    endpoint_ids = _put_back(delivery_ids)
    transaction.on_commit(lambda: bell.ring(set(endpoint_ids)))
    return len(endpoint_ids)


class TooManyReplays(Exception):
    """As many of the consumer's jobs are running as may. Says how many that is."""


def start(
    wanted: Filter | Missed,
    *,
    consumer: Consumer | None,
    rate_per_second: int | None,
    requested_by: str,
    why: str = "",
) -> Replay:
    """The count is what can be counted at once; where that is not all, the job counts on as it goes."""
    found = preview(wanted)
    with transaction.atomic():
        if consumer is not None:
            _check_running(consumer)
        replay = Replay.objects.create(
            consumer=consumer,
            filter=wanted.stored(),
            rate_per_second=rate_per_second,
            requested_by=requested_by,
            why=why[:500],  # as much as the column holds
            matched=found.count,
            matched_is_minimum=found.is_more,
        )
        deltas.count(deltas.REPLAYS, ReplayStatus.RUNNING)
    replay.refresh_from_db()
    return replay


def _check_running(consumer: Consumer) -> None:
    # The lock makes the cap exact: two starts at the same moment count one after the other.
    Consumer.objects.select_for_update(no_key=True).get(id=consumer.id)
    most = settings.MAX_RUNNING_REPLAYS_PER_CONSUMER
    if Replay.objects.filter(consumer=consumer, status=ReplayStatus.RUNNING).count() >= most:
        text = ngettext(
            "%(count)s replay of this consumer is running, and no more may. Wait until it is done, or cancel it.",
            "%(count)s replays of this consumer are running, and no more may. Wait until one is done, or cancel one.",
            most,
        )
        raise TooManyReplays(text % {"count": most})


@transaction.atomic
def cancel(replay: Replay, *, at_once: int = _TAKEN_BACK_AT_ONCE) -> bool:
    """True if this call cancelled it. What was sent is sent; what was not is what it was before."""
    running = Replay.objects.select_for_update().filter(id=replay.id, status=ReplayStatus.RUNNING).first()
    if running is not None:
        running.replayed -= _take_back(running, at_once)
        running.status, running.finished_at = ReplayStatus.CANCELLED, timezone.now()
        running.save(update_fields=["replayed", "status", "finished_at"])
        deltas.count(deltas.REPLAYS, ReplayStatus.CANCELLED)
    replay.refresh_from_db()
    return running is not None


def _take_back(replay: Replay, at_once: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(FIND_UNSENT, {"replay_id": replay.id})
        # In the order in which everybody locks them.
        unsent = sorted(row[0] for row in cursor.fetchall())
    hold_keys(unsent)
    # A part at a time: no statement may take longer than the web server waits for an answer.
    endpoint_ids = [
        endpoint_id
        for start in range(0, len(unsent), at_once)
        for endpoint_id in _take_back_some(replay, unsent[start : start + at_once])
    ]
    # For what waited behind one of them.
    transaction.on_commit(lambda: bell.ring(set(endpoint_ids)))
    return len(endpoint_ids)


def _take_back_some(replay: Replay, unsent: list[UUID]) -> list[UUID]:
    if Missed.read(replay.filter):
        return missed_events.take_away(unsent, replay_id=replay.id)
    with connection.cursor() as cursor:
        cursor.execute(TAKE_BACK, {"replay_id": replay.id, "ids": unsent})
        return [row[0] for row in cursor.fetchall()]


def advance_all() -> int:
    """One tick: turns of one batch each for as long as a tick may take. Says how many deliveries went back."""
    turns = FairTurns(_jobs_with_work(), after=_last_party())
    ends_at, total = time.monotonic() + _TICK_SECONDS, 0
    try:
        while (job := turns.next()) is not None:
            turn = _take_turn(job)
            total += turn.count
            if turn.has_more:
                turns.again(job)
            if time.monotonic() >= ends_at:
                break
    finally:
        Housekeeping.objects.update_or_create(name=_LAST_TURN, defaults={"position": turns.last_party})
    return total


def _jobs_with_work() -> list[Job]:
    """Running jobs, but for those that have given out due times for as far ahead as they may."""
    running = Replay.objects.filter(status=ReplayStatus.RUNNING, advanced_at__lte=Now() + _AHEAD)
    rows = running.values_list("id", "consumer_id", "turn_at")
    return [Job(job_id, consumer_id or OPERATORS, turn_at) for job_id, consumer_id, turn_at in rows]


def _last_party() -> UUID:
    return Housekeeping.objects.filter(name=_LAST_TURN).values_list("position", flat=True).first() or OPERATORS


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a job did with its turn, and whether it could do more at once."""

    count: int
    has_more: bool


def _take_turn(job: Job) -> _Turn:
    """A job that fails (somebody holds what it wants for too long) has had its turn: the others' go on."""
    try:
        return _advance_once(job.id)
    except Exception:
        logger.exception("replay.turn_failed", extra={"fields": {"replay": str(job.id)}})
        Replay.objects.filter(id=job.id).update(turn_at=Now())
        return _Turn(0, has_more=False)


@transaction.atomic
def _advance_once(replay_id: UUID) -> _Turn:
    """One batch. Position and deliveries move in one transaction, so a crash repeats or skips none."""
    # Somebody else's turn on this job is theirs; a cancel meanwhile ends it.
    replay = (
        Replay.objects.select_for_update(skip_locked=True).filter(id=replay_id, status=ReplayStatus.RUNNING).first()
    )
    now = _database_time()
    if replay is None or (budget := _budget(replay, now=now)) == 0:
        return _Turn(0, has_more=False)
    batch = _next_batch(replay, budget)
    replay.turn_at = now
    if batch.ids:
        _put_back_for(replay, batch.ids, first_at=max(replay.advanced_at, now))
    elif batch.is_last and now >= replay.advanced_at:
        # Not before the last one is due: until then there is something to cancel.
        replay.status, replay.finished_at, replay.matched_is_minimum = ReplayStatus.DONE, now, False
        deltas.count(deltas.REPLAYS, ReplayStatus.DONE)
    if batch.position is not None:
        replay.position, replay.position_key = batch.position.id, batch.position.key
    replay.matched = max(replay.matched, replay.replayed)
    replay.save(
        update_fields=[
            "replayed", "matched", "matched_is_minimum", "advanced_at", "position", "position_key", "turn_at",
            "status", "finished_at",
        ]
    )  # fmt: skip
    return _Turn(len(batch.ids), has_more=bool(batch.ids) or not batch.is_last)


def _next_batch(replay: Replay, size: int) -> Batch:
    after = None
    if replay.position is not None and replay.position_key is not None:
        after = WalkPosition(replay.position_key, replay.position)
    if missed := Missed.read(replay.filter):
        return missed_events.next_missed(missed, size=size, after=after, now=timezone.now())
    wanted = Filter.read(replay.filter)
    # Finished before the job began: what dies again under it waits for somebody to look.
    return next_batch(wanted, size=size, after=after, finished_by=replay.created_at)


def _put_back_for(replay: Replay, batch: list[UUID], *, first_at: datetime) -> None:
    spacing = timedelta(seconds=1 / replay.rate_per_second) if replay.rate_per_second else timedelta()
    if missed := Missed.read(replay.filter):
        endpoint_ids = missed_events.add(batch, missed, replay_id=replay.id, first_at=first_at, spacing=spacing)
    else:
        endpoint_ids = _put_back(batch, replay_id=replay.id, first_at=first_at, spacing=spacing)
    replay.replayed += len(endpoint_ids)
    replay.advanced_at = first_at + spacing * len(batch)
    transaction.on_commit(lambda: bell.ring(set(endpoint_ids)))


def _budget(replay: Replay, *, now: datetime) -> int:
    """How many due times are left to give out."""
    if replay.rate_per_second is None:
        return _BATCH
    # One more than whole intervals: a slow rate's next one may lie beyond, and still belongs to somebody.
    left = (now + _AHEAD - max(replay.advanced_at, now)).total_seconds()
    return 0 if left < 0 else min(_BATCH, int(left * replay.rate_per_second) + 1)


def _database_time() -> datetime:
    """The claim asks the database what is due, so that clock gives out the due times too."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone() or [timezone.now()]
        return now  # type: ignore[no-any-return]


def hold_keys(delivery_ids: Sequence[UUID]) -> None:
    """Until the end of the transaction nobody else accepts, settles or replays for these deliveries' ordering keys."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK_KEYS, {"ids": list(delivery_ids)})


def _put_back(
    delivery_ids: Sequence[UUID],
    *,
    replay_id: UUID | None = None,
    first_at: datetime | None = None,
    spacing: timedelta = timedelta(),
) -> list[UUID]:
    """The endpoints of those that began a new round: the first due at `first_at`, or now."""
    hold_keys(delivery_ids)
    parameters = {
        "ids": list(delivery_ids), "replay_id": replay_id, "first_at": first_at, "spacing": spacing.total_seconds(),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(LOCK_FINISHED, {"ids": list(delivery_ids)})
        cursor.execute(LOCK_PAYLOADS, {"ids": list(delivery_ids)})
        cursor.execute(PUT_BACK, parameters)
        return [row[0] for row in cursor.fetchall()]


def _why_not(delivery: Delivery) -> str:
    delivery.refresh_from_db()
    if delivery.endpoint.deleted_at is not None:
        return "Its endpoint was deleted."
    if delivery.event.body is None:
        return "Its payload was removed when its retention ended."
    return f"It is {delivery.state}: it will be attempted without a replay."
