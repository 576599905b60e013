"""deliveries/statistics/totals.py: each delta counts once, whoever adds up and reads meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import connection, connections

from deliveries.pump import database
from deliveries.statistics import deltas, totals
from deliveries.statistics.models import Delta, Tally, Total
from subscriptions.models import Consumer
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)


def test_adding_up_changes_nothing_of_what_is_read(acme: Consumer) -> None:
    accept(acme, 3)
    before = totals.read()
    assert before[deltas.ACCEPTED, ""] == 3
    # One for the whole batch: all of it was one consumer's.
    assert totals.fold() == 1
    assert totals.read() == before
    assert not Delta.objects.exists()
    assert totals.fold() == 0


def test_many_deltas_are_taken_in_parts(acme: Consumer) -> None:
    for _ in range(5):
        accept(acme, 1)
    assert totals.fold(at_once=2) == 5
    assert totals.read()[deltas.ACCEPTED, ""] == 5


def test_two_that_add_up_at_once_count_nothing_twice(acme: Consumer) -> None:
    for _ in range(40):
        accept(acme, 1)

    def fold() -> int:
        try:
            return totals.fold()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        folded = sum(pool.map(lambda _: fold(), range(8)))
    assert folded + totals.fold() == 40
    assert totals.read()[deltas.ACCEPTED, ""] == 40
    assert Tally.objects.get(subject_id=acme.id).accepted == 40


def test_what_is_not_committed_is_neither_read_nor_lost(acme: Consumer) -> None:
    with psycopg.connect(database.conninfo()) as other:
        other.execute("INSERT INTO deliveries_delta (counter, label) VALUES ('breaker', 'open')")
        assert totals.fold() == 0
        assert totals.read()[deltas.BREAKER, "open"] == 0
        other.commit()
    assert totals.fold() == 1
    assert totals.read()[deltas.BREAKER, "open"] == 1


@pytest.mark.parametrize(
    ("milliseconds", "bucket"), [(0, 0), (4, 0), (5, 0), (6, 1), (30_000, 20), (30_001, 21), (2_147_483_647, 29)]
)
def test_a_time_is_counted_in_the_bucket_whose_upper_end_it_does_not_exceed(milliseconds: int, bucket: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO deliveries_delta (counter, duration_ms) VALUES ('failed', %s)", [milliseconds])
    for _ in range(2):
        sums = totals.read()
        assert sums[totals.DURATION, str(bucket)] == 1
        assert sums[totals.DURATION_SUM, ""] == milliseconds
        totals.fold()


def test_an_attempt_of_an_endpoint_that_is_gone_still_counts(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO deliveries_delta (counter, label, subject_id, duration_ms) VALUES ('failed', '5xx', %s, 1)",
            [endpoint.id],
        )
    endpoint.lane.delete()
    endpoint.delete()
    assert totals.fold() == 1
    assert totals.read()[deltas.FAILED, "5xx"] == 1
    assert sorted(Tally.objects.values_list("subject_kind", "failed")) == [("endpoint", 1), ("everything", 1)]


def test_idempotency_is_counted_by_the_hour_as_well_and_forgotten_by_the_day() -> None:
    now = datetime.now(UTC)
    deltas.write({(deltas.IDEMPOTENCY, "new database"): 3, (deltas.REFUSED, "address_not_allowed"): 2})
    totals.fold()
    assert totals.by_hour(deltas.IDEMPOTENCY, since=now) == {"new database": 3}
    assert totals.by_hour(deltas.REFUSED, since=now) == {}
    assert totals.forget(kept_days=1, now=now + timedelta(days=2)) == 1
    assert totals.read()[deltas.IDEMPOTENCY, "new database"] == 3
    assert Total.objects.count() == 2


def test_the_space_of_what_was_taken_is_used_again(acme: Consumer) -> None:
    def pages() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_relation_size('deliveries_delta') / 8192")
            return int((cursor.fetchone() or [0])[0])

    sizes = []
    for _ in range(4):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO deliveries_delta (counter) SELECT 'accepted' FROM generate_series(1, 5000)")
        totals.fold()
        sizes.append(pages())
    assert sizes[3] == sizes[2] == sizes[1]
