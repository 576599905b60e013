"""deploy/systemd/: the units run what docker-compose.yml runs, stop as patiently, and may do little else."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deployment import PROCESSES, ROOT, command, defaults, seconds, services, without

FOLDER = ROOT / "deploy" / "systemd"
COMMON = FOLDER / "webhooks-.service.d" / "common.conf"
FILES = {
    name: FOLDER / f"webhooks-{name}{'@' if name == 'deliveries' else ''}.service" for name in [*PROCESSES, "migrate"]
}
# Where a process lives, not what it does.
PLACES = ["--host", "--port", "--hostname"]


def options(path: Path) -> list[tuple[str, str]]:
    """Its lines `Name=value`; a backslash at the end goes on with the next."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    pairs = [line.partition("=") for line in lines if re.match(r"[A-Z]\w+=", line)]
    return [(name, value.strip()) for name, _, value in pairs]


def option(service: str, name: str) -> str:
    [value] = [value for key, value in options(FILES[service]) if key == name]
    return value


def exec_start(service: str) -> list[str]:
    """With systemd's `%%` read as `%`."""
    return [word.replace("%%", "%") for word in shlex.split(option(service, "ExecStart"))]


@pytest.mark.parametrize("service", [*PROCESSES, "migrate"])
def test_a_unit_runs_the_command_of_its_compose_service(service: str) -> None:
    assert exec_start(service)[0] == "/opt/webhooks/.venv/bin/python"
    assert without(exec_start(service)[1:], *PLACES) == without(command(service)[1:], *PLACES)


def test_every_delivery_worker_of_a_machine_has_a_name_of_its_own() -> None:
    words = exec_start("deliveries")
    assert words[words.index("--hostname") + 1] == "deliveries%i@%h"


def test_the_web_server_listens_on_this_machine_alone_unless_told_otherwise() -> None:
    words = exec_start("web")
    assert words[words.index("--host") + 1] == "${WEB_ADDRESS}"
    assert "WEB_ADDRESS=127.0.0.1" in option("web", "Environment").split()


@pytest.mark.parametrize("service", ["deliveries", "background"])
def test_a_worker_has_as_long_to_stop_as_under_compose_and_longer_than_it_drains(service: str) -> None:
    patience = seconds(option(service, "TimeoutStopSec"))
    assert patience == seconds(services()[service]["stop_grace_period"])
    assert patience >= float(defaults()["DELIVERY_DRAIN_SECONDS"]) + 5


def test_the_web_server_has_longer_to_stop_than_its_own_workers() -> None:
    words = exec_start("web")
    assert seconds(option("web", "TimeoutStopSec")) > int(words[words.index("--workers-kill-timeout") + 1])


@pytest.mark.parametrize("service", PROCESSES)
def test_what_stays_is_started_again_for_ever(service: str) -> None:
    assert option(service, "Restart") == "always"
    assert ("StartLimitIntervalSec", "0") in options(COMMON)


def test_migrations_run_once_and_only_when_asked_for() -> None:
    assert option("migrate", "Type") == "oneshot"
    assert not {"WantedBy", "Restart"} & dict(options(FILES["migrate"])).keys()


def test_settings_come_from_one_file_and_no_secret_is_in_a_unit() -> None:
    assert ("EnvironmentFile", "/etc/webhooks/environment") in options(COMMON)
    texts = [path.read_text() for path in FOLDER.rglob("*") if path.is_file()]
    assert [text for text in texts if re.search(r"SECRET_KEY|ENCRYPTION_KEYS|PASSWORD|_URL", text)] == []


@pytest.mark.parametrize("name", ["NoNewPrivileges", "PrivateTmp", "ProtectHome", "MemoryDenyWriteExecute"])
def test_every_unit_is_held_back(name: str) -> None:
    assert (name, "yes") in options(COMMON)
    assert ("ProtectSystem", "strict") in options(COMMON)
    assert ("CapabilityBoundingSet", "") in options(COMMON)
    # A unit takes nothing of it back: the common file is read last, and says each thing once.
    own = {key for path in FILES.values() for key, _ in options(path)}
    assert own & {key for key, _ in options(COMMON)} <= {"Environment"}


@pytest.fixture
def installed(tmp_path: Path) -> list[str]:
    """The units as they would be installed, but with this clone and this Python."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    shutil.copytree(FOLDER, tmp_path / "units")
    for path in (tmp_path / "units").rglob("*"):
        if path.is_file():
            text = path.read_text().replace("/opt/webhooks/.venv/bin/python", sys.executable)
            path.write_text(text.replace("/opt/webhooks", str(ROOT)))
    template = tmp_path / "units" / "webhooks-deliveries@.service"
    template.rename(template.with_name("webhooks-deliveries@1.service"))
    return [str(path) for path in sorted((tmp_path / "units").glob("webhooks-*.service"))]


def test_systemd_finds_nothing_wrong_with_the_units(installed: list[str]) -> None:
    answer = subprocess.run(["systemd-analyze", "verify", "--man=no", *installed], capture_output=True, text=True)
    complaints = [line for line in answer.stderr.splitlines() if "webhooks" in line]
    assert (answer.returncode, complaints) == (0, [])


def test_systemd_calls_each_unit_well_confined(installed: list[str]) -> None:
    """Exposure from 0 to 10, times ten: what may reach the network is above 0 in any case."""
    words = ["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=25", *installed]
    answer = subprocess.run(words, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr
