"""emit: single and batch events per second, beside a view that does nothing on the same server."""

import json
import subprocess
import sys
import urllib.request
from typing import Any

from benchmarks.stand import Stand, wait_until


def serve(stand: Stand) -> str:
    """The web server, with the no-op view beside the real ones; its base URL."""
    stand.start("web", DJANGO_SETTINGS_MODULE="benchmarks.settings")
    url = f"http://127.0.0.1:{stand.port}"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    wait_until(answers, seconds=60)
    return url


def load(url: str, key: str, body: Any, *, count: int, at_once: int = 32) -> dict[str, float]:
    asked = {"url": url, "key": key, "body": json.dumps(body), "count": count, "at_once": at_once}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(stand: Stand, *, seconds_each: int = 5) -> dict[str, Any]:
    from subscriptions import consumers, endpoints, keys
    from subscriptions.models import Role

    consumer = consumers.create(uid="emit")
    endpoint, _ = endpoints.create(consumer=consumer, url=f"{stand.receiver_url}/emit")
    endpoints.pause(endpoint)  # emitting alone: nothing is delivered beside it
    key = keys.issue(role=Role.PRODUCER)[1]
    url = serve(stand)
    event = {"consumer": "emit", "type": "bench.event", "data": {"filler": "x" * 300}}
    load(f"{url}/noop", key, event, count=500)  # warm
    load(f"{url}/api/v1/events/", key, event, count=500)
    results = {}
    for name, path, body, events, count in (
        ("noop", "noop", event, 1, 6000),
        ("single", "api/v1/events/", event, 1, 3000),
        ("batch of 100", "api/v1/events/batch/", {"events": [event] * 100}, 100, 150),
        ("noop again", "noop", event, 1, 6000),
    ):
        before = stand.cpu()
        result = load(f"{url}/{path}", key, body, count=count)
        after = stand.cpu()
        results[name] = {
            "events_per_second": result["rate"] * events,
            "p50_ms": result["p50_ms"],
            "p99_ms": result["p99_ms"],
            "web_cpu_ms": 1000 * (after["web"] - before["web"]) / (count * events),
            "postgres_cpu_ms": 1000 * (after["postgres"] - before["postgres"]) / (count * events),
        }
    stand.stop("web")
    return results
