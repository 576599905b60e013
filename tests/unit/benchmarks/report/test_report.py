"""From the figures to the docs: verdicts, generated parts, plots."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.report import charts, document, plots
from benchmarks.report.figures import spread
from benchmarks.report.plots import Axis, Plot, PlotBar, linear_ticks, log_ticks
from benchmarks.report.targets import TARGETS, FigureTarget, TargetVerdict, judge, judge_all

LATENCY = FigureTarget("p95", ("through", "200", "arrival", "p95_ms"), 50, at_most=True, unit=" ms")
RATIO = FigureTarget("ratio", ("deliver", "one", "ratio"), 0.4)


def committed() -> dict[str, Any]:
    """Must be there: the docs would say nothing without."""
    results: dict[str, Any] = json.loads(document.RESULTS.read_text())
    return results


def written(part: str, results: dict[str, Any]) -> str:
    """A generated part of the page, without its plots."""
    page = document.fill(f"<!-- bench:{part} -->\n<!-- /bench -->\n", results)
    return page.split("\n\n![")[0].removeprefix(f"<!-- bench:{part} -->\n").removesuffix("\n<!-- /bench -->\n")


def measures(*, p95: float, ratio: float) -> dict[str, Any]:
    return {
        "through": {"200": {"arrival": {"p95_ms": spread([p95])}}},
        "deliver": {"one": {"ratio": spread([ratio - 0.1, ratio, ratio + 0.1])}},
    }


def test_a_target_is_met_at_its_bound_and_missed_beyond_it() -> None:
    assert [judge(measures(p95=p95, ratio=0.4), LATENCY).word for p95 in (50, 51)] == ["met", "MISSED"]
    assert [judge(measures(p95=1, ratio=ratio), RATIO).word for ratio in (0.5, 0.39)] == ["met", "MISSED"]


def test_a_median_beyond_which_a_turn_falls_short_is_met_but_not_in_every_turn() -> None:
    at_least = {"deliver": {"one": {"ratio": spread([0.39, 0.41, 0.42])}}}
    at_most = {"through": {"200": {"arrival": {"p95_ms": spread([40, 45, 51])}}}}
    assert judge(at_least, RATIO).word == judge(at_most, LATENCY).word == "met, not in every turn"
    # A turn far on the good side is no blemish.
    assert judge({"deliver": {"one": {"ratio": spread([0.4, 0.41, 9])}}}, RATIO).word == "met"


def test_a_verdict_shows_the_median_and_the_turns_around_it() -> None:
    assert judge(measures(p95=1, ratio=0.5), RATIO).shown == "0.5 (0.4–0.6)"


def test_what_was_not_measured_is_said_to_be_so() -> None:
    assert judge({}, LATENCY) == TargetVerdict(LATENCY, None)
    assert {one.word for one in judge_all({})} == {"not measured"}


def test_the_table_has_a_line_for_each_target() -> None:
    lines = document.table({}).splitlines()
    assert len(lines) == 1 + len(TARGETS)
    assert lines[1].split("  ")[0] == "deliver: one worker ÷ bare loop, one process"


def test_only_what_stands_between_the_markers_is_written_anew() -> None:
    page = "before\n<!-- bench:run -->\nold\n<!-- /bench -->\nbetween\n<!-- bench:run -->\n<!-- /bench -->\nafter\n"
    assert document.fill(page, None) == (
        f"before\n<!-- bench:run -->\n{document.NO_RUN}\n<!-- /bench -->\nbetween\n"
        f"<!-- bench:run -->\n{document.NO_RUN}\n<!-- /bench -->\nafter\n"
    )


def test_the_docs_say_what_the_committed_figures_say() -> None:
    page = (document.DOCS / "performance.md").read_text()
    assert set(document.PART.findall(page)) != set()
    assert document.fill(page, committed()) == page


def test_the_plots_show_what_the_committed_figures_say() -> None:
    drawn = {name: plots.render(chart) for name, chart in charts.all_of(committed()["measures"]).items()}
    assert set(drawn) == set(charts.NAMES)
    assert {name: (document.RESULTS.parent / f"{name}.svg").read_text() for name in drawn} == drawn


def test_a_run_that_recorded_less_has_no_words_for_it() -> None:
    results = committed()
    for name in ("receiver", "commit"):
        results["machine"].pop(name, None)
    results["measures"]["idle"] = {"seconds": 30, "percent": {"web": 0.1, "worker": 1.5}, "total_percent": 1.6}
    assert written("run", results).endswith(" minutes.")
    assert written("idle", results) == "1.60 % of one core over 30 s: web 0.10, worker 1.50."


def test_a_run_says_where_it_delivered_and_what_it_ran() -> None:
    results = committed()
    results["machine"] |= {"receiver": "asyncio", "commit": "d538a63"}
    assert written("run", results).endswith(" minutes, to asyncio, at commit d538a63.")


def test_both_idle_states_are_shown_with_their_windows() -> None:
    results = committed()
    states = {
        name: {"percent": {"web": spread([0.1]), "worker": spread([total - 0.1])}, "total_percent": spread([1, total])}
        for name, total in (("waiting", 3), ("ended", 2))
    }
    results["measures"]["idle"] = {"seconds": 20, "states": states, "first_event_ms": spread([300, 400, 600])}
    lines = written("idle", results).splitlines()
    assert lines[0] == "| pumps | of one core, % (least–greatest of 20 s each) | web | worker |"
    assert lines[2:4] == ["| waiting | 2 (1–3) | 0.10 | 2.90 |", "| ended | 1.5 (1–2) | 0.10 | 1.90 |"]
    assert lines[-1] == "The first event after the pumps had ended arrived after 400 (300–600) ms."


def test_isolation_shows_the_ratio_of_the_pairs_beside_both_sides() -> None:
    results = committed()
    through = {"alone": spread([100, 300]), "beside": spread([90, 290]), "ratio": spread([0.9, 0.97])}
    waits = {"alone_p99_ms": spread([20]), "beside_p99_ms": spread([30]), "ratio": spread([1.5])}
    cpu = {"alone_cpu_ms": spread([0.4]), "beside_cpu_ms": spread([0.5])}
    results["measures"]["isolation"] = {
        name: {"healthy": 40, "hanging": 10, "throughput": found, "latency": waits}
        for name, found in (("a_fifth", through), ("many_hang", through | cpu))
    }
    shown = "| 40 beside 10 | 200/s | 190/s | 0.935 (0.9–0.97) | 20 ms | 30 ms | 1.5 (1.5–1.5) |"
    assert written("isolation", results).splitlines()[2:4] == [f"{shown}  |  |", f"{shown} 0.400 | 0.500 |"]


def test_emits_show_each_ratio_to_the_view_that_does_nothing() -> None:
    results = committed()
    emit = results["measures"]["emit"]
    emit["ordered"], emit["ordered_by_noop"] = emit["single"], spread([0.2, 0.3, 0.4])
    ordered = next(line for line in written("emit", results).splitlines() if "with an ordering key" in line)
    assert ordered.split(" | ")[2] == "0.3 (0.2–0.4)"


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
    axis = Axis.over([PlotBar(100), PlotBar(10)], logarithmic=logarithmic)
    assert axis.y(axis.low) == plots.HEIGHT - plots.BOTTOM
    assert axis.y(axis.high) == plots.TOP


def test_a_plot_is_well_formed_and_has_a_bar_for_each_figure() -> None:
    chart = Plot(
        "a < b & c", "ms", ["x", "y"], ["one", "two"], [[PlotBar(1), PlotBar(2)], [PlotBar(3, 2, 4), PlotBar(4)]]
    )
    tree = ElementTree.fromstring(plots.render(chart))
    svg = "{http://www.w3.org/2000/svg}"
    assert [node.text for node in tree.iter(f"{svg}title")] == ["a < b & c"]
    # Four bars and two keys of the legend; a whisker for the one figure with turns.
    assert len(list(tree.iter(f"{svg}rect"))) == 6
    assert [node.get("class") for node in tree.iter(f"{svg}line")].count("whisker") == 1
