"""Every shell line of README and docs runs here against a running platform, or stands in a list with its reason."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from deliveries.models import Delivery
from tests.local import free_port
from tests.stack import StartStack, manage, orm_database_url
from webhooks_platform.local.environment import BASE_DIR

pytestmark = [pytest.mark.timeout(600)]

ROOT = Path(BASE_DIR)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^( *)```(?:sh|bash|shell|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)

DOCKER = "needs Docker, which a test run has none of; the services it names are checked against docker-compose.yml"
RUN_BY_TESTS = "is itself what runs the tests, or is run by them (tests/e2e/test_make_up.py)"
# Where a block begins so, it is not run, for the reason beside it.
NOT_RUN = {
    "make up": RUN_BY_TESTS,
    "make install": RUN_BY_TESTS,
    "docker ": DOCKER,
    "git pull\ndocker": DOCKER,
    "kubectl": "needs a cluster; `make chart` checks the chart",
    "useradd": "makes a user and system units; the units are checked in tests/unit/deploy/test_systemd.py",
    "pipx run": "fetches a program; the generated client is tested in tests/e2e/test_generated_client.py",
    "pg_dump": "stops everything and needs PostgreSQL's client programs; after_restore has tests of its own",
}

# What stands for a thing of yours in the docs, and what is said before the first line: names that pages share.
BEFORE = """
set -euo pipefail
curl() {{ command curl --silent --show-error --fail-with-body "$@"; echo; }}
URL={url}/api/v1 KEY={key} OPERATOR_KEY={key} ENDPOINT_ID={endpoint}
"""


def blocks(page: Path) -> list[str]:
    """Its shell blocks, without the indentation of a list."""
    found = BLOCK.findall(page.read_text())
    return ["".join(line.removeprefix(indent) for line in text.splitlines(keepends=True)) for indent, text in found]


def reason(block: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if block.startswith(start)), None)


class Shell:
    """Runs blocks of the docs, all of a page in one session of a shell, in a folder that looks like a clone."""

    def __init__(self, folder: Path, *, url: str, key: str, endpoint: str, api_key: str) -> None:
        for name in ("manage.py", "docs", "deploy"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "our-authority.pem").touch()
        (folder / "setup.jsonl").write_text('{"kind": "consumer", "uid": "moved"}\n')
        self._folder = folder
        self._before = BEFORE.format(url=url, key=key, endpoint=endpoint)
        self.receiver_port = free_port()
        self._meant = {
            "http://127.0.0.1:8000": url,
            ":8801/": f":{self.receiver_port}/",
            " 8801 ": f" {self.receiver_port} ",
            ".venv/bin/python": sys.executable,
            "ep_…": endpoint,
            "key_…": api_key,
        }
        self._running: list[subprocess.Popen[str]] = []

    def run(self, page: Path, *, between: str = "") -> str:
        """What the page's blocks printed; fails where a line of them does."""
        text = f"\n{between}\n".join(block for block in blocks(page) if reason(block) is None)
        for said, meant in self._meant.items():
            text = text.replace(said, meant)
        text = re.sub(r"(?<![\w/])python manage.py", f"{sys.executable} manage.py", text)
        env = {**os.environ, "DATABASE_URL": orm_database_url(), "PYTHONWARNINGS": "ignore::RuntimeWarning"}
        script = ["bash", "-c", self._before + text + "\n" + between]
        output = self._folder / f"{page.stem}.out"
        with output.open("w") as out:
            # A session of its own: what a page starts in the background is ended with it.
            shell = subprocess.Popen(
                script, cwd=self._folder, env=env, stdout=out, stderr=out, text=True, start_new_session=True
            )
        self._running.append(shell)
        code = shell.wait(300)
        assert code == 0, f"{page.name}:\n{output.read_text()[-3000:]}"
        return output.read_text()

    def close(self) -> None:
        for shell in self._running:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)


# Between two blocks a reader reads, and by then deliveries are made.
SETTLED = r"""
for state in pending in_flight; do
  for _ in $(seq 300); do
    command curl -s "$URL/deliveries/?consumer=globex&state=$state" -H "Authorization: Bearer $KEY" \
      | grep -qE '"results": ?\[\]|not_found|invalid' && break
    sleep 0.1
  done
done
"""


def test_every_shell_line_of_the_docs_runs_or_has_a_reason_not_to(start_stack: StartStack, tmp_path: Path) -> None:
    stack = start_stack("web", "deliveries1", "background", "beat")
    key = manage("issue_key", "--role", "operator", DATABASE_URL=orm_database_url())
    with stack.client(key) as api:
        api.post("consumers/", json={"uid": "acme", "name": "Acme"}).raise_for_status()
        wanted = {"url": "http://127.0.0.1:9/nobody", "event_types": ["none.such"]}
        endpoint = api.post("consumers/acme/endpoints/", json=wanted).raise_for_status().json()["id"]
        api_key = api.post("consumers/acme/keys/", json={"name": "to rotate"}).raise_for_status().json()["id"]
    shell = Shell(tmp_path, url=stack.url, key=key, endpoint=endpoint, api_key=api_key)
    try:
        start = ROOT / "docs" / "quick-start.md"
        shell.run(start, between=SETTLED)
        # Sent, and replayed: two requests, one event to work on.
        sent = Delivery.objects.get(event__type="order.shipped")
        assert (sent.state, sent.attempt_count) == ("delivered", 2)
        with closing(sqlite3.connect(tmp_path / "seen.sqlite3")) as inbox:
            assert inbox.execute("SELECT count(*) FROM inbox").fetchall() == [(1,)]

        for page in PAGES:
            if page != start:
                shell.run(page)
    finally:
        shell.close()


def test_what_is_not_run_is_there_and_has_its_reason() -> None:
    every = [block for page in PAGES for block in blocks(page)]
    assert len(every) > 25
    assert [start for start in NOT_RUN if not any(block.startswith(start) for block in every)] == []
    # Most of what can be typed is.
    assert sum(reason(block) is None for block in every) > len(every) / 2
