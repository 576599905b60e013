"""A real Prometheus that scrapes the platform, where Debian's package is installed."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.local import free_port, wait_until

INSTALLED = shutil.which("prometheus") is not None

CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: webhooks
    authorization: {{credentials: {token}}}
    static_configs: [{{targets: [{targets}]}}]
"""


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, query: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self._url}/api/v1/query", params={"query": query}, timeout=10).json()
        assert answer["status"] == "success", f"{query}: {answer}"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def value(self, query: str) -> float | None:
        """None where nothing is known yet."""
        found = self.ask(query)
        return float(found[0]["value"][1]) if found else None

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self._url}/-/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running_prometheus(folder: Path, *, urls: Sequence[str], token: str, rules: Path) -> Iterator[Prometheus]:
    targets = ", ".join(f'"{urlsplit(url).netloc}"' for url in urls)
    (folder / "prometheus.yml").write_text(CONFIGURATION.format(rules=rules, token=token, targets=targets))
    address = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    prometheus = Prometheus(f"http://{address}")
    try:
        wait_until(prometheus.is_ready, seconds=60)
        yield prometheus
    finally:
        process.kill()
        process.wait(10)
