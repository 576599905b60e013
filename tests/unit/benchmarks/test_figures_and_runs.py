"""The bench's own arithmetic: what it reports must be right before it is worth reading."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import cli
from benchmarks.load.producer import LoadRefused, Refusals, complain
from benchmarks.processes import Stat, family, family_ticks, parse_pss, parse_stat
from benchmarks.report import document
from benchmarks.report.figures import latency, paired, percentile, spread
from benchmarks.stand import Failed, Stand, without_settings

STAT = (
    "4711 (granian (web) x) S 4000 4711 4711 0 -1 4194560 100 200 0 0 "
    "150 50 30 20 20 0 8 0 99 1000 200 18446744073709551615"
)


@pytest.mark.parametrize("name", cli.MEASURES)
def test_every_measure_named_on_the_command_line_exists(name: str) -> None:
    assert callable(cli.find(name))


def test_an_unknown_measure_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parse(["deliver", "nonsense"])
    assert ended.value.code == 2
    assert "no such measure: nonsense" in capsys.readouterr().err


def test_a_spread_is_the_median_between_the_least_and_the_greatest() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0, "turns": [3.0, 1.0, 2.0]}


def test_figures_keep_four_digits() -> None:
    assert spread([1234.567]) == {"median": 1235.0, "low": 1235.0, "high": 1235.0, "turns": [1235.0]}


def test_a_ratio_is_taken_inside_each_turn() -> None:
    # A machine at half speed in the second turn slows both sides, and the ratio does not notice.
    assert paired([50.0, 25.0], [100.0, 50.0])["turns"] == [0.5, 0.5]


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 50), (95, 95), (99, 99), (99.5, 100), (100, 100)])
def test_a_percentile_is_the_nearest_rank(percent: float, expected: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_latencies_are_shown_in_milliseconds() -> None:
    assert latency([0.001 * number for number in range(1, 101)]) == {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0}


def test_a_process_name_with_spaces_and_parentheses_is_no_obstacle() -> None:
    assert parse_stat(STAT) == Stat(pid=4711, parent=4000, ticks=250)


def test_a_family_is_a_process_with_all_its_descendants() -> None:
    stats = [Stat(1, 0, 1), Stat(10, 1, 5), Stat(11, 10, 7), Stat(12, 11, 9), Stat(20, 1, 100)]
    assert family(stats, 10) == {10, 11, 12}
    assert family_ticks(stats, 10) == 21


def test_a_process_that_is_gone_has_used_nothing() -> None:
    assert family_ticks([Stat(1, 0, 1), Stat(5, 99, 3)], 99) == 0


def test_memory_is_the_proportional_set_size() -> None:
    assert parse_pss("5583 [rollup]\nRss:   9000 kB\nPss:   1234 kB\nPss_Dirty: 99 kB\n") == 1234
    assert parse_pss("") == 0


def test_a_refused_load_run_shows_each_kind_of_answer_with_its_body() -> None:
    refusals = Refusals()
    refusals.note("429", b'{"code":"rate_limited"}')
    refusals.note("429", b"another")
    refusals.note("502", b"<html>not JSON</html>")
    with pytest.raises(LoadRefused) as refused:
        complain("http://127.0.0.1:1/x", refusals.seen)
    assert str(refused.value).splitlines() == [
        "Not every request to http://127.0.0.1:1/x was answered with 2xx:",
        '  2 x 429: {"code":"rate_limited"}',
        "  1 x 502: <html>not JSON</html>",
    ]


def test_a_load_run_without_refusals_is_no_complaint() -> None:
    complain("http://127.0.0.1:1/x", Refusals().seen)


def test_a_full_run_is_recorded_only_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "own.json"
    assert cli.keep({"measures": {}}, out=out, complete=False)
    assert json.loads(out.read_text()) == {"measures": {}}
    before = document.RESULTS.read_bytes() if document.RESULTS.exists() else None
    assert not cli.keep({"measures": {}}, out=None, complete=False)
    assert (document.RESULTS.read_bytes() if document.RESULTS.exists() else None) == before


def test_what_the_shell_says_about_our_settings_does_not_reach_a_run() -> None:
    shell = {"PATH": "/bin", "DELIVERY_CONCURRENCY": "1", "DATABASE_LOCK_TIMEOUT_MS": "1", "LOG_LEVEL": "DEBUG"}
    assert without_settings(shell) == {"PATH": "/bin"}


class Servers:
    """In the place of real ones: counts how often a failed measure has them tidied up."""

    stopped = 0

    def stop(self, *, now: bool) -> None:
        self.stopped += now


def test_a_measure_that_fails_ends_nobody_elses_and_nothing_measured_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def works(bench: Stand, *, quick: bool) -> dict[str, Any]:
        return {"quick": quick}

    def fails(bench: Stand, *, quick: bool) -> dict[str, Any]:
        raise Failed("The web server has ended.")

    def errs(bench: Stand, *, quick: bool) -> dict[str, Any]:
        raise ZeroDivisionError("a mistake")

    servers, results, partial = Servers(), {"quick": True, "measures": dict[str, Any]()}, tmp_path / "partial.json"
    measures = {"deliver": works, "emit": fails, "through": errs, "idle": works}
    assert cli.measure_each(cast(Stand, servers), measures, results, partial=partial) == ["emit", "through"]
    assert results["measures"] == {"deliver": {"quick": True}, "idle": {"quick": True}}
    assert json.loads(partial.read_text()) == results
    assert servers.stopped == 2
    said = capsys.readouterr().out
    assert "emit failed: The web server has ended." in said
    assert "ZeroDivisionError: a mistake" in said
