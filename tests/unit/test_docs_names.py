"""The docs name services, units and defaults that there are."""

import re
from pathlib import Path

import pytest

from tests.deployment import ROOT, defaults, services

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
UNITS = ROOT / "deploy" / "systemd"

COMMAND = re.compile(r"docker compose (exec|run|up|logs|stop|start|restart|ps)\b([^`#\n)|<>]*)")
UNIT = re.compile(r"\bwebhooks(?:-[a-z]+(?:@(?:\w|\{[\w,.]+\})*)?|\.target)(?:\.service)?")
DEFAULT = re.compile(r"`([A-Z][A-Z_]+)`\s\((\d[\d.,]*)(?: by default)?\)")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def named_services(verb: str, rest: str) -> list[str]:
    """`exec` and `run` name one service, then a command; the others name any number."""
    scaled = re.findall(r"--scale (\w+)=", rest)
    words = [word for word in re.sub(r"--scale \S+", "", rest).split() if not word.startswith("-")]
    return scaled + (words[:1] if verb in ("exec", "run") else words)


def test_a_command_is_read_as_docker_reads_it() -> None:
    assert named_services("exec", " -T db pg_dump --format=custom webhooks") == ["db"]
    assert named_services("up", " -d --scale deliveries=4") == ["deliveries"]
    assert named_services("stop", " web beat") == ["web", "beat"]


@every_page
def test_compose_services_in_the_docs_exist(page: Path) -> None:
    named = [name for verb, rest in COMMAND.findall(page.read_text()) for name in named_services(verb, rest)]
    assert [name for name in named if name not in services()] == []


def test_some_page_names_services_and_units() -> None:
    texts = [page.read_text() for page in PAGES]
    assert sum(len(COMMAND.findall(text)) for text in texts) >= 10
    assert sum(len(units_in(text)) for text in texts) >= 5


def units_in(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if re.search(r"\b(systemctl|journalctl)\b", line)]
    return [name for line in lines for name in UNIT.findall(line)]


@every_page
def test_systemd_units_in_the_docs_exist(page: Path) -> None:
    files = [re.sub(r"@.*", "@", name.removesuffix(".service")) for name in units_in(page.read_text())]
    files = [name if name.endswith(".target") else f"{name}.service" for name in files]
    assert [name for name in files if not (UNITS / name).is_file()] == []


@every_page
def test_defaults_in_the_docs_are_those_of_the_settings(page: Path) -> None:
    known = defaults()
    named = [(name, value.rstrip(",.").replace(",", "")) for name, value in DEFAULT.findall(page.read_text())]
    wrong = {name: value for name, value in named if known.get(name, "").replace("_", "") != value}
    assert wrong == {}


def test_a_table_of_limits_md_lists_each_model_once() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", (ROOT / "docs/limits.md").read_text(), re.MULTILINE)
    firsts = [re.findall(r"^\| (`[A-Z]\w+`(?:, `[A-Z]\w+`)*) \|", table, re.MULTILINE) for table in tables]
    listed = [[name for cell in cells for name in re.findall(r"`(\w+)`", cell)] for cells in firsts]
    assert max(map(len, listed)) > 10
    assert [name for names in listed for name in set(names) if names.count(name) > 1] == []
