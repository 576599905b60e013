"""subscriptions/reading/times.py: how a time is read, wherever it comes from."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from subscriptions.reading.times import BadTime, read_time


def test_a_time_keeps_its_zone_and_one_without_is_in_utc_where_that_may_be() -> None:
    assert read_time("2026-01-31T12:00", zone=False) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    hour_east = timezone(timedelta(hours=1))
    assert read_time("2026-01-31T12:00:00+01:00", zone=True) == datetime(2026, 1, 31, 12, tzinfo=hour_east)


@pytest.mark.parametrize("text", ["1960", "1960-01-01", "0001-01-01T00:00+23:59", "9999-12-31", "soon", "", "²", "\0"])
@pytest.mark.parametrize("zone", [True, False])
def test_what_no_id_can_stand_for_is_no_time(text: str, zone: bool) -> None:
    with pytest.raises(BadTime):
        read_time(text, zone=zone)


def test_a_time_without_its_zone_is_refused_where_it_needs_one() -> None:
    with pytest.raises(BadTime, match="names no zone"):
        read_time("2026-01-31T12:00", zone=True)
