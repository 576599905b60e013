"""Sums up statistics: minutes become hours, and hours days, once those are over.

What was counted is added to minutes alone (totals.py), every couple of seconds. With an hour and a day beside each
minute, ten thousand busy endpoints cost PostgreSQL more than their deliveries did.
So a chart reads hours and days as far as they are summed up, and what is finer from there on.
"""

from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Min, Q
from django.db.models.functions import Trunc

from deliveries.statistics.models import Span, Tally
from deliveries.statistics.totals import EVERYTHING
from deliveries.upkeep.models import Housekeeping
from subscriptions import ids

# Minutes are read by the charts of up to a day.
_MINUTES_KEPT = timedelta(days=2)
# What is over is summed up this much later: by then the slowest process has written what it counted.
_GRACE = timedelta(minutes=2)
_LENGTHS = {Span.HOUR: timedelta(hours=1), Span.DAY: timedelta(days=1)}
_FINER = {Span.HOUR: Span.MINUTE, Span.DAY: Span.HOUR}
_BEGINNING = datetime.fromtimestamp(0, UTC)

SUM_UP = """
    WITH part AS MATERIALIZED (
        SELECT * FROM deliveries_tally
        -- The kinds are named for the index `tally_of_kind`.
        WHERE span = %(finer)s AND subject_kind IN ('everything', 'consumer', 'endpoint')
            AND at >= %(at)s AND at < %(until)s
    ), durations AS (
        SELECT subject_id, array_agg(count ORDER BY bucket) AS counts FROM (
            SELECT subject_id, bucket, coalesce(sum(count), 0)::int AS count
            FROM part CROSS JOIN unnest(durations) WITH ORDINALITY AS _ (count, bucket)
            GROUP BY subject_id, bucket
        ) bucketed GROUP BY subject_id
    ), latencies AS (
        SELECT subject_id, array_agg(count ORDER BY bucket) AS counts FROM (
            SELECT subject_id, bucket, coalesce(sum(count), 0)::int AS count
            FROM part CROSS JOIN unnest(latencies) WITH ORDINALITY AS _ (count, bucket)
            GROUP BY subject_id, bucket
        ) bucketed GROUP BY subject_id
    )
    INSERT INTO deliveries_tally (
        span, subject_kind, subject_id, at, accepted, delivered, failed, dead, durations, latencies
    )
    SELECT %(span)s, whole.subject_kind, whole.subject_id, %(at)s, whole.accepted, whole.delivered, whole.failed,
        whole.dead, coalesce(durations.counts, '{}'), coalesce(latencies.counts, '{}')
    FROM (
        SELECT subject_kind, subject_id, sum(accepted) AS accepted, sum(delivered) AS delivered,
            sum(failed) AS failed, sum(dead) AS dead
        FROM part GROUP BY subject_kind, subject_id
    ) whole
    LEFT JOIN durations USING (subject_id)
    LEFT JOIN latencies USING (subject_id)
    ON CONFLICT (span, subject_id, at) DO UPDATE SET
        accepted = excluded.accepted, delivered = excluded.delivered, failed = excluded.failed, dead = excluded.dead,
        durations = excluded.durations, latencies = excluded.latencies
"""
"""One hour from its minutes, or one day from its hours, for every subject that had any. Run twice, it changes nothing.
"""


def sum_up(*, now: datetime) -> None:
    """All that is over by now, oldest first; days after the hours they are made of."""
    for span in (Span.HOUR, Span.DAY):
        while _sum_up_next(span, now=now):
            pass


@transaction.atomic
def _sum_up_next(span: Span, *, now: datetime) -> bool:
    """Whether there was something to sum up, and nobody else at it."""
    Housekeeping.objects.get_or_create(name=_mark(span), defaults={"position": ids.first_at(_BEGINNING)})
    mark = Housekeeping.objects.select_for_update(skip_locked=True).filter(name=_mark(span)).first()
    at = mark and _next(span, since=ids.made_at(mark.position))
    if not mark or not at or at + _LENGTHS[span] + _GRACE > now:
        return False
    until = at + _LENGTHS[span]
    with connection.cursor() as cursor:
        cursor.execute(SUM_UP, {"span": span.value, "finer": _FINER[span].value, "at": at, "until": until})
    Housekeeping.objects.filter(name=mark.name).update(position=ids.first_at(until))
    return True


def rows(span: Span, *, since: datetime) -> Q:
    """The rows that tell of the time since then, each moment once, none coarser than `span`."""
    found = Q()
    while span != Span.MINUTE:
        until = summed_until(span)
        found |= Q(span=span, at__gte=since, at__lt=until)
        since, span = max(since, until), _FINER[span]
    return found | Q(span=span, at__gte=since)


def summed_until(span: Span) -> datetime:
    """Where the next sum begins."""
    mark = Housekeeping.objects.filter(name=_mark(span)).first()
    return ids.made_at(mark.position) if mark else _BEGINNING


def _mark(span: Span) -> str:
    return f"summed {span.value}"


def forget(*, kept_days: int, now: datetime) -> int:
    old_minutes, _ = Tally.objects.filter(span=Span.MINUTE, at__lt=now - _MINUTES_KEPT).delete()
    old_rest, _ = Tally.objects.exclude(span=Span.MINUTE).filter(at__lt=now - timedelta(days=kept_days)).delete()
    return old_minutes + old_rest


def _next(span: Span, *, since: datetime) -> datetime | None:
    """The oldest hour or day that is not summed up and has something to sum."""
    parts = Tally.objects.filter(span=_FINER[span], subject_id=EVERYTHING, at__gte=since)
    first: datetime | None = parts.aggregate(first=Trunc(Min("at"), span.value, tzinfo=UTC))["first"]
    return first
