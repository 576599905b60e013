"""subscriptions/process/fail_points.py: inert unless turned on; then exactly one process meets each armed point."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriptions.process import fail_points

NAME = "accept.before_commit"
PROGRAM = """
import sys
from pathlib import Path
from subscriptions.process import fail_points
if sys.argv[2] == "on":
    fail_points.turn_on(Path(sys.argv[1]))
fail_points.reach("accept.before_commit")
print("survived")
"""


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Path]:
    fail_points.turn_on(tmp_path)
    yield tmp_path
    fail_points.turn_off()


def run(folder: Path, state: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", PROGRAM, str(folder), state]
    return subprocess.run(command, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False)


def test_a_point_that_is_armed_does_nothing_while_the_facility_is_off(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()

    assert run(tmp_path, "off").stdout == "survived\n"
    assert (tmp_path / NAME).exists()


def test_the_tests_own_process_has_it_off() -> None:
    assert fail_points.reach is fail_points._do_nothing


def test_an_armed_point_kills_one_process_and_the_next_survives(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()

    first, second = run(tmp_path, "on"), run(tmp_path, "on")

    assert (first.returncode, first.stdout) == (-signal.SIGKILL, "")
    assert (second.returncode, second.stdout) == (0, "survived\n")


def test_a_point_that_is_not_armed_lets_everybody_pass(points: Path) -> None:
    for name in fail_points.NAMES:
        fail_points.reach(name)
    assert list(points.iterdir()) == []


def test_a_number_holds_the_process_for_so_many_seconds(points: Path) -> None:
    (points / NAME).write_text("0.05")
    begun_at = time.monotonic()

    fail_points.reach(NAME)

    assert time.monotonic() - begun_at >= 0.05
    assert list(points.iterdir()) == []
