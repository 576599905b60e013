"""The supervisor, with small real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local import is_running, wait_until
from webhooks_platform.local.children import Child, Program
from webhooks_platform.local.environment import BASE_DIR
from webhooks_platform.local.supervisor import Interrupted, Supervisor


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(said: list[str]) -> Iterator[Supervisor]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    supervisor = Supervisor(on_restart=lambda program, what: said.append(f"{program.name} {what}"), on_wait=said.append)
    yield supervisor
    supervisor.stop()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def program(tmp_path: Path, name: str, code: str, **others: object) -> Program:
    command = [sys.executable, "-c", code]
    return Program(name=name, command=command, log=tmp_path / f"{name}.log", cwd=tmp_path, **others)  # type: ignore[arg-type]


def lines(tmp_path: Path, name: str) -> list[str]:
    log = tmp_path / f"{name}.log"
    return log.read_text().splitlines() if log.exists() else []


ALIVE = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def test_a_killed_program_is_started_again_and_one_line_says_so(
    supervisor: Supervisor, said: list[str], tmp_path: Path
) -> None:
    supervisor.start(program(tmp_path, "worker", ALIVE))
    assert supervisor.wait_until(lambda: len(lines(tmp_path, "worker")) == 1, seconds=10)
    os.kill(int(lines(tmp_path, "worker")[0]), signal.SIGKILL)
    assert supervisor.wait_until(lambda: len(lines(tmp_path, "worker")) == 2, seconds=10)
    assert said == ["worker was ended by signal 9 (Killed), starting it again in 0.5 s"]
    assert supervisor.restart_count("worker") == 1


def test_the_children_of_a_killed_program_go_with_it(supervisor: Supervisor, tmp_path: Path) -> None:
    forks = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ALIVE!r}])"
    supervisor.start(program(tmp_path, "web", forks))
    assert supervisor.wait_until(lambda: len(lines(tmp_path, "web")) == 1, seconds=10)
    grandchild = int(lines(tmp_path, "web")[0])
    os.kill(os.getpgid(grandchild), signal.SIGKILL)
    assert supervisor.wait_until(lambda: not is_running(grandchild), seconds=10)


def test_stages_stop_in_reverse_order(supervisor: Supervisor, tmp_path: Path) -> None:
    tells = "import signal, sys, time\nsignal.signal(15, lambda *a: sys.exit(open('order', 'a').write('{}') * 0))\n"
    tells += "print('ready', flush=True)\ntime.sleep(600)"
    for stage, name in enumerate(["database", "receiver", "worker"]):
        supervisor.start(program(tmp_path, name, tells.format(f"{name} "), stage=stage))
    for name in ["database", "receiver", "worker"]:
        assert supervisor.wait_until(lambda name=name: lines(tmp_path, name) == ["ready"], seconds=10)  # type: ignore[misc]

    assert supervisor.stop() is True

    assert (tmp_path / "order").read_text() == "worker receiver database "


DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"


def test_a_program_that_does_not_stop_in_time_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(program(tmp_path, "deaf", DEAF, stop_seconds=0.2))
    assert supervisor.wait_until(lambda: lines(tmp_path, "deaf") == ["ready"], seconds=10)
    assert supervisor.stop() is False


def test_a_signal_interrupts_the_waiting_and_not_the_children(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(program(tmp_path, "worker", ALIVE))
    assert supervisor.wait_until(lambda: len(lines(tmp_path, "worker")) == 1, seconds=10)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Interrupted):
        supervisor.wait_until(lambda: False, seconds=10)
    assert is_running(int(lines(tmp_path, "worker")[0]))


SECOND_CTRL_C = f"""
import os, signal, sys
from pathlib import Path
from webhooks_platform.local.children import Program
from webhooks_platform.local.supervisor import Supervisor

# Somebody who loses patience: the "waiting" line appears, and they press Ctrl-C again.
supervisor = Supervisor(on_restart=lambda *a: None, on_wait=lambda line: os.kill(os.getpid(), signal.SIGINT))
log = Path(sys.argv[1])
command = [sys.executable, "-c", {DEAF!r}]
supervisor.start(Program(name="deaf", command=command, log=log, cwd=log.parent, stop_seconds=600))
assert supervisor.wait_until(lambda: log.exists() and log.read_text() == "ready\\n", seconds=10)
print(supervisor.stop())
"""


def test_a_second_ctrl_c_kills_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SECOND_CTRL_C, str(tmp_path / "deaf.log")]
    done = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "False\n"


def test_a_child_whose_parent_is_gone_already_does_not_start(tmp_path: Path) -> None:
    tether = BASE_DIR / "webhooks_platform" / "local" / "tether.py"
    not_the_parent = "1"
    command = [sys.executable, "-I", "-S", str(tether), not_the_parent, "15", "-1", "-1", "/bin/echo", "started"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_program_that_is_not_there_says_so_in_its_log(tmp_path: Path) -> None:
    child = Child(Program(name="no", command=["/no/such/program"], log=tmp_path / "no.log", cwd=tmp_path))
    wait_until(lambda: child.exit_code() == 1)
    assert lines(tmp_path, "no") == ["cannot run /no/such/program: No such file or directory"]
