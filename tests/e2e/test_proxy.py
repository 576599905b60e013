"""The proxy that docker-compose.yml puts in front (deploy/nginx.conf), where nginx is installed."""

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from subscriptions import keys
from subscriptions.models import Consumer, Role
from tests.local import wait_until
from tests.proxy import configure, nginx, running_proxy
from tests.slow_clients import slow_body, slow_clients, wait_answered
from tests.stack import StartStack

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_nginx_accepts_the_configuration(tmp_path: Path) -> None:
    path = configure(tmp_path, port=9000, upstream="127.0.0.1:9001")
    command = [nginx(), "-t", "-q", "-c", str(path), "-e", str(tmp_path / "error.log")]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_proxy_keeps_slow_bodies_to_itself_and_passes_on_the_rest(
    start_stack: StartStack, acme: Consumer, tmp_path: Path
) -> None:
    # Whatever reaches the web server slowly would be answered 408 at once.
    stack = start_stack("web", REQUEST_BODY_TIMEOUT_SECONDS="0.1")
    key = keys.issue(role=Role.PRODUCER)[1]
    headers = {"Authorization": f"Bearer {key}"}
    lines = f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    with running_proxy(tmp_path, upstream=urlsplit(stack.url).netloc) as url:
        wait_until(lambda: answers(url))
        with slow_clients(url, slow_body("/api/v1/events/", headers=lines), count=100) as clients:
            for _ in range(20):
                assert httpx.post(f"{url}/api/v1/events/", json=EVENT, headers=headers).status_code == 202
            assert {client.look().answer for client in clients} == {b""}

        batch = {"events": [{**EVENT, "data": {"filler": "x" * 200_000}}] * 20}
        assert httpx.post(f"{url}/api/v1/events/batch/", json=batch, headers=headers).status_code == 202

        limits = {"/api/v1/events/": 300_000, "/api/v1/events/batch/": 10_000_000, "/admin/login/": 50_000}
        for path, length in limits.items():
            with slow_clients(url, slow_body(path, headers=lines, length=length), count=1) as [client]:
                wait_answered([client], 413)
                assert (b'"code":"payload_too_large"' in client.body) == path.startswith("/api/")
