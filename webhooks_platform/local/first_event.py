"""The demo's event, through the front door: emitted over HTTP like any producer's, then followed until delivered."""

import json
import shlex
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 5
# Our own loopback server is not reached through a proxy, whatever the environment says.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class CallFailed(Exception):
    """The API did not do as asked."""


@dataclass(frozen=True)
class Demo:
    """What `manage.py demo` left in demo.json."""

    producer_key: str
    endpoint: str
    secrets: list[str]
    admin: str

    @classmethod
    def read(cls, path: Path) -> "Demo":
        found = json.loads(path.read_text())
        admin = f"{found['admin_name']} / {found['admin_password'] or 'the password you gave it'}"
        return cls(found["producer_key"], found["endpoint"], found["secrets"], admin)


def answers(url: str) -> bool:
    try:
        with _opener.open(url, timeout=TIMEOUT_SECONDS) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def emit(url: str, key: str) -> str:
    """The id of the event that was accepted."""
    return str(_call(f"{url}/api/v1/events/", key, body=_event(invoice="inv_1001"))["id"])


def is_delivered(url: str, key: str, *, event: str, endpoint: str) -> bool:
    try:
        found = _call(f"{url}/api/v1/events/{event}/deliveries/", key)["results"]
    except CallFailed:  # a web server that is just being restarted knows no more than "not yet"
        return False
    return any(delivery["endpoint"] == endpoint and delivery["state"] == "delivered" for delivery in found)


def curl_line(url: str, key: str) -> str:
    headers = [f"Authorization: Bearer {key}", "Content-Type: application/json"]
    options = [part for header in headers for part in ("-H", header)]
    return shlex.join(["curl", "-sS", f"{url}/api/v1/events/", *options, "-d", json.dumps(_event(invoice="inv_1002"))])


def _event(*, invoice: str) -> dict[str, Any]:
    return {"consumer": "acme", "type": "invoice.paid", "data": {"invoice": invoice, "amount": 4200, "currency": "EUR"}}


def _call(url: str, key: str, *, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 (an address of our own making)
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with _opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        raise CallFailed(f"{url} answered {error.code}: {error.read(500).decode(errors='replace')}") from None
    except (OSError, ValueError) as error:
        raise CallFailed(f"{url} did not answer: {error}") from None
