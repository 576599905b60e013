"""Rollups: what emits and settlements count is what the charts show, per minute and hour, by subject."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from deliveries.statistics import figures, rollup
from deliveries.statistics.buckets import BUCKETS
from deliveries.statistics.models import Tally
from deliveries.statistics.totals import EVERYTHING
from subscriptions.models import Consumer
from tests.conftest import PumpRunner
from tests.console import dead_letters
from tests.walk import accept, answering, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_pump_counts_deliveries_failures_and_deaths(pump: PumpRunner, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    accept(acme, 5)
    pump.run(transport=answering(200))
    accept(acme, 2)
    pump.run(transport=answering(500))
    for subject in (EVERYTHING, acme.id, endpoint.id):
        whole = figures.total(figures.series(figures.RANGES["1h"], subject))
        assert (whole.delivered, whole.failed, whole.dead) == (5, 2, 2)
        assert (sum(whole.durations), sum(whole.latencies)) == (7, 5)


def test_the_worst_endpoints_come_first(pump: PumpRunner, acme: Consumer) -> None:
    bad = new_endpoint(acme, event_types=["a.b"])
    worse = new_endpoint(acme, event_types=["a.b", "c.d"])
    accept(acme, 1, type="a.b")
    accept(acme, 3, type="c.d")
    pump.run(transport=answering(500))
    found = figures.worst_endpoints(figures.RANGES["1h"])
    assert [(row.endpoint, row.failed) for row in found] == [(worse, 4), (bad, 1)]


def test_a_replay_counts_as_a_delivery_but_not_for_the_latency(pump: PumpRunner, acme: Consumer) -> None:
    from deliveries import replay

    endpoint, [delivery] = dead_letters(acme, 1, status_code=500)
    replay.replay_one(delivery)
    pump.run(transport=answering(200))
    whole = figures.total(figures.series(figures.RANGES["1h"], endpoint.id))
    assert (whole.delivered, sum(whole.latencies)) == (1, 0)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 15.0), (1.0, 20.0), (0.25, 12.5)])
def test_percentiles_lie_inside_their_bucket(share: float, expected: float) -> None:
    counts = [0] * BUCKETS
    counts[2] = 8  # 10–20 ms
    assert figures.percentile(counts, share) == expected


def test_nothing_counted_has_no_percentile() -> None:
    assert figures.percentile([0] * BUCKETS, 0.5) is None


def test_an_hour_is_the_sum_of_its_minutes_and_a_day_of_its_hours_once_they_are_over(acme: Consumer) -> None:
    counted([*range(5), 59], acme)
    rollup.sum_up(now=DAY + timedelta(minutes=61, seconds=59))
    assert not Tally.objects.exclude(span="minute").exists()
    rollup.sum_up(now=DAY + timedelta(minutes=62))
    counted([61, 1439], acme)
    rollup.sum_up(now=DAY + timedelta(days=1, minutes=2))
    rollup.sum_up(now=DAY + timedelta(days=1, minutes=2))
    of_acme = Tally.objects.exclude(span="minute").filter(subject_id=acme.id).order_by("span", "at")
    assert [(row.span, row.at - DAY, row.accepted, row.delivered, row.durations, row.latencies) for row in of_acme] == [
        ("day", timedelta(0), 8, 8, [0, 8], []),
        ("hour", timedelta(0), 6, 6, [0, 6], []),
        ("hour", timedelta(hours=1), 1, 1, [0, 1], []),
        ("hour", timedelta(hours=23), 1, 1, [0, 1], []),
    ]
    everything = Tally.objects.exclude(span="minute").filter(subject_id=EVERYTHING)
    assert sorted(row.accepted for row in everything) == [1, 1, 6, 8]


@pytest.mark.parametrize("name", ["7d", "30d"])
@pytest.mark.parametrize("over", [False, True])
def test_a_chart_tells_of_each_moment_once_whatever_is_summed_up_yet(name: str, over: bool, acme: Consumer) -> None:
    counted([0, 70, 1500, 1561], acme)
    if over:
        rollup.sum_up(now=DAY + timedelta(minutes=1565))
        assert {row.span for row in Tally.objects.all()} == {"minute", "hour", "day"}
    shown = figures.series(figures.RANGES[name], acme.id, now=DAY + timedelta(minutes=1565))
    assert figures.total(shown).accepted == 4
    # Hours 0 and 1 share the first bar; hour 25, and hour 26 that is still open, have their own or share one.
    bars = [bar.accepted for bar in shown if bar.accepted]
    assert bars == {"7d": [2, 1, 1], "30d": [2, 2]}[name]


def test_the_worst_endpoints_of_a_month_are_found_in_days_hours_and_minutes(acme: Consumer) -> None:
    bad, worse = new_endpoint(acme), new_endpoint(acme)
    now = datetime.now(UTC)
    for ago, endpoint in ((timedelta(days=3), worse), (timedelta(hours=3), worse), (timedelta(0), worse)):
        add(now - ago, "endpoint", endpoint.id, failed=2)
        add(now - ago, "endpoint", bad.id, failed=1)
        add(now - ago, "everything", EVERYTHING, failed=3)
        rollup.sum_up(now=now)
    found = figures.worst_endpoints(figures.RANGES["30d"])
    assert [(row.endpoint, row.failed) for row in found] == [(worse, 6), (bad, 3)]


def test_buckets_that_an_older_process_left_empty_count_nothing(acme: Consumer) -> None:
    add(DAY, "everything", EVERYTHING, delivered=3, durations=[1, None, 2, None])
    for summed in (False, True):
        if summed:
            rollup.sum_up(now=DAY + timedelta(minutes=62))
        shown = figures.series(figures.RANGES["7d"], now=DAY + timedelta(hours=2))
        assert figures.total(shown).durations[:4] == [1, 0, 2, 0]


def test_old_minutes_and_hours_are_forgotten(acme: Consumer) -> None:
    for span, year in (("minute", 2020), ("hour", 2020), ("hour", datetime.now(UTC).year + 1)):
        add(datetime(year, 1, 1, tzinfo=UTC), "consumer", acme.id, span=span)
    assert rollup.forget(kept_days=90, now=datetime.now(UTC)) == 2
    assert Tally.objects.count() == 1


def counted(minutes: Iterable[int], consumer: Consumer) -> None:
    """One event accepted and delivered in each of these minutes of the day."""
    for minute in minutes:
        for kind, subject_id in (("everything", EVERYTHING), ("consumer", consumer.id)):
            at = DAY + timedelta(minutes=minute)
            add(at, kind, subject_id, accepted=1, delivered=1, durations=[0, 1])


def add(at: datetime, kind: str, subject_id: UUID, *, span: str = "minute", **counts: Any) -> None:
    at = at.replace(second=0, microsecond=0)
    values = {"durations": [], "latencies": [], **counts}
    Tally.objects.create(span=span, subject_kind=kind, subject_id=subject_id, at=at, **values)
