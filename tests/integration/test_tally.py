"""Rollups: what the pump and the web server count is what the charts show, per minute and hour, by subject."""

from datetime import UTC, datetime

import pytest

from deliveries import tally
from deliveries.console import statistics
from deliveries.models import Tally
from subscriptions.models import Consumer
from tests.conftest import PumpRunner
from tests.console import dead_letters
from tests.walk import accept, answering, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_pump_counts_deliveries_failures_and_deaths(pump: PumpRunner, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    accept(acme, 5)
    pump.run(transport=answering(200))
    accept(acme, 2)
    pump.run(transport=answering(500))
    for subject in (tally.EVERYTHING, acme.id, endpoint.id):
        whole = statistics.total(statistics.series(statistics.RANGES["1h"], subject))
        assert (whole.delivered, whole.failed, whole.dead) == (5, 2, 2)
        assert (sum(whole.durations), sum(whole.latencies)) == (7, 5)
    assert Tally.objects.filter(span="hour").count() == 3 * len({row.at for row in Tally.objects.filter(span="hour")})


def test_the_worst_endpoints_come_first(pump: PumpRunner, acme: Consumer) -> None:
    bad = new_endpoint(acme, event_types=["a.b"])
    worse = new_endpoint(acme, event_types=["a.b", "c.d"])
    accept(acme, 1, type="a.b")
    accept(acme, 3, type="c.d")
    pump.run(transport=answering(500))
    found = statistics.worst_endpoints(statistics.RANGES["1h"])
    assert [(row.endpoint, row.failed) for row in found] == [(worse, 4), (bad, 1)]


def test_counts_add_up_over_flushes_and_processes(acme: Consumer) -> None:
    counters = [tally.Counter(), tally.Counter()]
    for counter in counters * 3:
        counter.accepted(acme.id, 1)
        rows = counter.take()
        assert rows is not None
        tally.add_now(rows)
    assert counters[0].take() is None
    whole = statistics.total(statistics.series(statistics.RANGES["24h"], acme.id))
    assert whole.accepted == 6


def test_a_replay_counts_as_a_delivery_but_not_for_the_latency(pump: PumpRunner, acme: Consumer) -> None:
    from deliveries import replay

    endpoint, [delivery] = dead_letters(acme, 1, status_code=500)
    replay.replay_one(delivery)
    pump.run(transport=answering(200))
    whole = statistics.total(statistics.series(statistics.RANGES["1h"], endpoint.id))
    assert (whole.delivered, sum(whole.latencies)) == (1, 0)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 15.0), (1.0, 20.0), (0.25, 12.5)])
def test_percentiles_lie_inside_their_bucket(share: float, expected: float) -> None:
    counts = [0] * tally.BUCKETS
    counts[2] = 8  # 10–20 ms
    assert statistics.percentile(counts, share) == expected


def test_nothing_counted_has_no_percentile() -> None:
    assert statistics.percentile([0] * tally.BUCKETS, 0.5) is None


def test_old_minutes_and_hours_are_forgotten(acme: Consumer) -> None:
    empty = [0] * tally.BUCKETS
    for span, year in (("minute", 2020), ("hour", 2020), ("hour", datetime.now(UTC).year + 1)):
        Tally.objects.create(
            span=span, subject_kind="consumer", subject_id=acme.id, at=datetime(year, 1, 1, tzinfo=UTC),
            durations=empty, latencies=empty,
        )  # fmt: skip
    assert tally.forget(kept_days=90) == 2
    assert Tally.objects.count() == 1
