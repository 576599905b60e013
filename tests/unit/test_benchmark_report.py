"""From the figures to the docs: verdicts, generated parts, plots."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import plots, report
from benchmarks.figures import spread
from benchmarks.plots import Axis, Bar, Chart, linear_ticks, log_ticks
from benchmarks.targets import TARGETS, Target, Verdict, judge, judge_all

LATENCY = Target("p95", ("through", "200", "arrival", "p95_ms"), 50, at_most=True, unit=" ms")
RATIO = Target("ratio", ("deliver", "one", "ratio"), 0.4)


def measures(*, p95: float, ratio: float) -> dict[str, Any]:
    return {
        "through": {"200": {"arrival": {"p95_ms": spread([p95])}}},
        "deliver": {"one": {"ratio": spread([ratio - 0.1, ratio, ratio + 0.1])}},
    }


def test_a_target_is_met_at_its_bound_and_missed_beyond_it() -> None:
    assert [judge(measures(p95=p95, ratio=0.4), LATENCY).word for p95 in (50, 51)] == ["met", "MISSED"]
    assert [judge(measures(p95=1, ratio=ratio), RATIO).word for ratio in (0.4, 0.39)] == ["met", "MISSED"]


def test_a_verdict_shows_the_median_and_the_turns_around_it() -> None:
    assert judge(measures(p95=1, ratio=0.5), RATIO).shown == "0.5 (0.4–0.6)"


def test_what_was_not_measured_is_said_to_be_so() -> None:
    assert judge({}, LATENCY) == Verdict(LATENCY, None)
    assert {one.word for one in judge_all({})} == {"not measured"}


def test_the_table_has_a_line_for_each_target() -> None:
    lines = report.table({}).splitlines()
    assert len(lines) == 1 + len(TARGETS)
    assert lines[1].split("  ")[0] == "deliver: one worker ÷ bare loop, one process"


def test_only_what_stands_between_the_markers_is_written_anew() -> None:
    page = "before\n<!-- bench:run -->\nold\n<!-- /bench -->\nbetween\n<!-- bench:run -->\n<!-- /bench -->\nafter\n"
    assert report.fill(page, None) == (
        f"before\n<!-- bench:run -->\n{report.NO_RUN}\n<!-- /bench -->\nbetween\n"
        f"<!-- bench:run -->\n{report.NO_RUN}\n<!-- /bench -->\nafter\n"
    )


def test_the_docs_say_what_the_committed_figures_say() -> None:
    page = (report.DOCS / "performance.md").read_text()
    results = json.loads(report.RESULTS.read_text()) if report.RESULTS.exists() else None
    assert set(report.PART.findall(page)) != set()
    assert report.fill(page, results) == page


@pytest.mark.parametrize(
    ("greatest", "ticks"),
    [(8, [0, 1, 2, 3, 4, 5, 6, 7, 8]), (9, [0, 2, 4, 6, 8, 10]), (0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3])],
)
def test_a_linear_axis_has_round_steps_from_zero(greatest: float, ticks: list[float]) -> None:
    assert linear_ticks(greatest) == ticks


@pytest.mark.parametrize(
    ("least", "greatest", "ticks"), [(9, 120, [1, 10, 100, 1000]), (10, 100, [10, 100]), (1, 1, [1, 10])]
)
def test_a_logarithmic_axis_has_powers_of_ten(least: float, greatest: float, ticks: list[float]) -> None:
    assert log_ticks(least, greatest) == ticks


@pytest.mark.parametrize("logarithmic", [False, True])
def test_an_axis_reaches_from_the_bottom_to_the_top(logarithmic: bool) -> None:
    axis = Axis.over([Bar(100), Bar(10)], logarithmic=logarithmic)
    assert axis.y(axis.low) == plots.HEIGHT - plots.BOTTOM
    assert axis.y(axis.high) == plots.TOP


def test_a_plot_is_well_formed_and_has_a_bar_for_each_figure() -> None:
    chart = Chart("a < b & c", "ms", ["x", "y"], ["one", "two"], [[Bar(1), Bar(2)], [Bar(3, 2, 4), Bar(4)]])
    tree = ElementTree.fromstring(plots.render(chart))
    svg = "{http://www.w3.org/2000/svg}"
    assert [node.text for node in tree.iter(f"{svg}title")] == ["a < b & c"]
    # Four bars and two keys of the legend; a whisker for the one figure with turns.
    assert len(list(tree.iter(f"{svg}rect"))) == 6
    assert [node.get("class") for node in tree.iter(f"{svg}line")].count("whisker") == 1
