"""deliveries/pump/process.py: of which processes it can be said that they are dead."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deliveries.pump import process


def test_a_living_process_is_not_dead() -> None:
    assert not process.is_dead(process.identity())


def test_a_process_that_was_killed_is_dead_before_anybody_has_asked_how_it_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = process.identity(child.pid)
    assert not process.is_dead(known)

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is still taken
    assert process.is_dead(known)

    child.communicate()
    assert process.is_dead(known)


def test_a_number_that_was_given_to_another_process_since_is_not_the_same() -> None:
    here, _, began = process.identity().rpartition("/")

    assert process.is_dead(f"{here}/{int(began) - 1}")


@pytest.mark.parametrize("known", ["", "web1:4711", "a/b", "another-boot/1/4711/99", "//", "a/b/c/d"])
def test_of_a_process_elsewhere_nothing_can_be_said(known: str) -> None:
    assert not process.is_dead(known)


def test_another_container_on_the_same_machine_is_elsewhere() -> None:
    boot, space, number, began = process.identity().split("/")

    assert not process.is_dead(f"{boot}/{int(space) + 1}/{number}0000/{began}")


def test_without_a_proc_nobody_has_an_identity(tmp_path: Path) -> None:
    assert process.identity(proc=tmp_path) == ""
    assert not process.is_dead(process.identity(), proc=tmp_path)


def test_a_process_that_cannot_be_looked_at_but_is_there_is_not_dead(tmp_path: Path) -> None:
    """Regression: out of file descriptors, living workers were taken for dead and their deliveries sent twice."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").write_text("")
    space = (tmp_path / "self/ns/pid").stat().st_ino

    assert not process.is_dead(f"boot/{space}/{os.getpid()}/19", proc=tmp_path)


def test_a_name_full_of_brackets_hides_no_number(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").write_text("")
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (a) Z (b) S " + " ".join(str(n) for n in range(1, 50)))

    assert process.identity(7, proc=tmp_path).endswith("/7/19")
