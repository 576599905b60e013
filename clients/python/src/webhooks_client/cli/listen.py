"""`webhooks listen`: a consumer's events at a local port, without a public address.

It long-polls the feed, and sends each event to the local URL as the platform would, signed with a local secret. Each
event is written down before it is forwarded and after it was answered, so a restart goes on where it was. Killed in
between, nobody knows whether it arrived: it is forwarded again with the same id, as attempt 2, and the screen says so.
"""

import argparse
import base64
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from webhooks_client.cli.commands import Command
from webhooks_client.cli.screen import Screen
from webhooks_client.client import Client
from webhooks_client.errors import RateLimited, Unavailable, Unreachable
from webhooks_client.protocol import Retries
from webhooks_client.receive.verify import Scheme, sign

WAIT_SECONDS = 25
_LONGEST_PAUSE_SECONDS = 15.0
# As long as the platform gives an endpoint by default.
_LOCAL_TIMEOUT_SECONDS = 10.0


@dataclass
class State:
    """What is written down: the secret, the start of the current page, what of that page was forwarded, and what is
    being forwarded, with the number of the attempt."""

    path: Path
    secret: str = ""
    cursor: str | None = None
    forwarded: list[str] = field(default_factory=list)
    forwarding: str | None = None
    attempt: int = 0
    started: bool = False

    @classmethod
    def load(cls, path: Path) -> "State":
        try:
            kept = json.loads(path.read_text())
        except FileNotFoundError:
            return cls(path)
        except ValueError:
            kept = None
        if not isinstance(kept, dict):
            raise ValueError(f"{path} is damaged. Delete it to begin anew, at the end of the feed.")
        return cls(path, **kept, started=True)

    def begins(self, event_id: str) -> int:
        """Written down before the event goes out; which attempt this is."""
        self.attempt = self.attempt + 1 if self.forwarding == event_id else 1
        self.forwarding = event_id
        self.save()
        return self.attempt

    def ended(self, event_id: str) -> None:
        self.forwarded.append(event_id)
        self.forwarding, self.attempt = None, 0
        self.save()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".new")
        kept = {name: getattr(self, name) for name in ("secret", "cursor", "forwarded", "forwarding", "attempt")}
        # Whole or not at all, and for nobody else's eyes.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(kept, file)
        temporary.replace(self.path)


class Listener:
    def __init__(
        self,
        client: Client,
        screen: Screen,
        state: State,
        *,
        consumer: str,
        forward_to: str,
        scheme: Scheme = "timestamped",
        local: httpx.Client,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._screen = screen
        self._state = state
        self._consumer = consumer
        self._forward_to = forward_to
        self._scheme = scheme
        self._local = local
        self._sleep = sleep
        self._failures = 0

    def skip_to_the_end(self) -> None:
        """What has happened before is not forwarded."""
        self._screen.note("Passing over what has happened before (--from-start would forward it)")
        more, count = True, 0
        while more:
            page = self._client.feed_page(self._consumer, cursor=self._state.cursor, limit=200)
            self._state.cursor, more = page.cursor, page.more
            if (count + len(page.events)) // 5000 > count // 5000:
                self._screen.note(f"{count + len(page.events)} passed over")
            count += len(page.events)
        self._state.save()

    def turn(self) -> int:
        """One page: waits for it, forwards it, writes down the position behind it. How many were forwarded."""
        begun = time.monotonic()
        try:
            page = self._client.feed_page(self._consumer, cursor=self._state.cursor, wait=WAIT_SECONDS, limit=50)
        except (Unreachable, Unavailable, RateLimited) as error:
            self._pause(f"The platform is not to be had ({error})")
            return 0
        self._failures = 0
        count = 0
        for event in page.events:
            if event["id"] not in self._state.forwarded:
                self._forward(event)
                count += 1
        if page.more:
            self._state.cursor, self._state.forwarded = page.cursor, []
            self._state.save()
        else:
            # Where too many wait already, the platform answers at once.
            self._sleep(max(0.0, 1.0 - (time.monotonic() - begun)))
        return count

    def _forward(self, event: Mapping[str, Any]) -> None:
        attempt = self._state.begins(event["id"])
        if attempt > 1:
            self._screen.note(f"{event['id']} was under way when this was stopped: again, as attempt {attempt}")
        body = json.dumps(wire_body(event), ensure_ascii=False, separators=(",", ":")).encode()
        while True:
            now = int(time.time())
            headers = sign(body, secret=self._state.secret, event_id=event["id"], timestamp=now, scheme=self._scheme)
            headers["webhook-attempt"] = str(attempt)
            begun = time.monotonic()
            try:
                answer = self._local.post(self._forward_to, content=body, headers=headers)
            except httpx.ConnectError as error:
                # Nobody listens there yet: the event is kept for when somebody does.
                self._pause(f"{self._forward_to} is not to be had ({error})")
                continue
            except httpx.HTTPError as error:
                self._show(event, 0, str(error) or type(error).__name__, begun)
            else:
                self._show(event, answer.status_code, answer.text[:200], begun)
            self._failures = 0
            self._state.ended(event["id"])
            return

    def _show(self, event: Mapping[str, Any], status: int, text: str, begun: float) -> None:
        taken = round((time.monotonic() - begun) * 1000)
        shown = f"{time.strftime('%H:%M:%S')}  {event['type']}  {event['id']}  -> {status or 'no answer'}  {taken} ms"
        good = 200 <= status < 300
        document = {"event": event["id"], "type": event["type"], "status": status or None, "ms": taken, "answer": text}
        self._screen.document(document, shown if good else f"{shown}  {text}", colour="green" if good else "red")

    def _pause(self, why: str) -> None:
        self._failures += 1
        seconds = min(_LONGEST_PAUSE_SECONDS, 0.5 * 2 ** min(self._failures - 1, 8))
        self._screen.note(f"{why}; next try in {seconds:.1f} s")
        self._sleep(seconds)


def wire_body(event: Mapping[str, Any]) -> dict[str, Any]:
    """The body as the platform sends it to an endpoint."""
    body = {
        "id": event["id"],
        "type": event["type"],
        "created_at": event["created_at"],
        "timestamp": event["occurred_at"] or event["created_at"],
        "api_version": event["api_version"],
        "data": event["data"],
    }
    return body | {name: event[name] for name in ("ordering_key", "sequence") if event[name] is not None}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--forward-to", required=True, metavar="URL", help="such as http://localhost:8001/webhooks")
    parser.add_argument("--consumer", default=os.environ.get("WEBHOOKS_CONSUMER"), help="uid or id; WEBHOOKS_CONSUMER")
    parser.add_argument("--secret", help="the local secret; by default one is made and kept")
    parser.add_argument("--scheme", choices=["timestamped", "standard"], default="timestamped")
    parser.add_argument("--from-start", action="store_true", help="the first time, also what happened before")
    parser.add_argument("--state", help="the file that remembers the position")
    parser.add_argument("--turns", type=int, help=argparse.SUPPRESS)


def _run(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    if not arguments.consumer:
        raise ValueError("Give --consumer, or set WEBHOOKS_CONSUMER.")
    state = State.load(Path(arguments.state) if arguments.state else _state_path(arguments))
    state.secret = arguments.secret or state.secret or "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    with httpx.Client(timeout=_LOCAL_TIMEOUT_SECONDS, trust_env=False) as local:
        listener = Listener(
            client,
            screen,
            state,
            consumer=arguments.consumer,
            forward_to=arguments.forward_to,
            scheme=arguments.scheme,
            local=local,
        )
        if not state.started and not arguments.from_start:
            listener.skip_to_the_end()
        state.save()
        screen.note(f"Forwarding events of {arguments.consumer} to {arguments.forward_to}")
        screen.note(f"Verify them with the local secret in {state.path}" if not arguments.secret else "Ready")
        turns = 0
        while not arguments.turns or turns < arguments.turns:
            listener.turn()
            turns += 1
    return 0


def _state_path(arguments: argparse.Namespace) -> Path:
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = "".join(each if each.isalnum() or each in "-_" else "_" for each in f"{arguments.url}-{arguments.consumer}")
    return home / "webhooks" / f"listen-{name[-150:]}.json"


COMMAND = Command(
    "listen",
    "Forward a consumer's events to a local port, as they come.",
    _arguments,
    _run,
    # It shows an outage itself, and goes on for as long as it takes.
    client_options={"retries": Retries(tries=1)},
)
