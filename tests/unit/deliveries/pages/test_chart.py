"""deliveries/pages/chart.py: geometry that shows what happened, and nothing that did not."""

from datetime import UTC, datetime

from deliveries.pages import chart
from deliveries.statistics.buckets import BUCKETS
from deliveries.statistics.figures import RANGES, Sums

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def minutes(*counts: int) -> list[Sums]:
    """So many attempts of the same length in each."""
    return [Sums(AT, delivered=count, durations=[0, 0, count, *[0] * (BUCKETS - 3)]) for count in counts]


def test_a_value_with_none_beside_it_is_drawn_as_a_point() -> None:
    line = chart.times(minutes(0, 3, 0), RANGES["1h"], of="duration").lines[0]
    [(x, y)] = line.lone
    assert line.path == f"M{x} {y}"


def test_values_beside_each_other_are_a_line_without_points() -> None:
    line = chart.times(minutes(3, 3, 0, 0), RANGES["1h"], of="duration").lines[0]
    assert (line.path.count("M"), line.path.count("L"), list(line.lone)) == (1, 1, [])


def test_points_at_both_ends_stand_alone() -> None:
    line = chart.times(minutes(3, 0, 3), RANGES["1h"], of="duration").lines[0]
    assert (line.path.count("M"), line.path.count("L"), len(line.lone)) == (2, 0, 2)
