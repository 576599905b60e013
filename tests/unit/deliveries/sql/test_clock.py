"""deliveries/sql/clock.py: what is known of a clock that was read before and after the database's."""

import pytest

from deliveries.sql import clock


@pytest.mark.parametrize(
    ("before", "database", "after", "ahead"),
    [
        (100.0, 100.1, 100.2, 0.0),  # between: nothing is known to differ
        (100.0, 100.0, 100.0, 0.0),
        (100.0, 103.0, 109.0, 0.0),  # a slow answer is no difference
        (3700.0, 100.0, 3700.5, 3600.0),
        (100.0, 3700.0, 100.5, -3599.5),
    ],
)
def test_a_clock_differs_by_no_more_than_was_seen(before: float, database: float, after: float, ahead: float) -> None:
    assert clock.ahead(before=before, database=database, after=after) == pytest.approx(ahead)
