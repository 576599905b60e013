"""Every command but `listen`: it takes arguments, makes calls, shows what came back."""

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webhooks_client.cli.screen import Screen
from webhooks_client.client import Client
from webhooks_client.receive.verify import TOLERANCE_SECONDS, VerificationError, verify

_FILTERS = (
    *("consumer", "endpoint", "event", "event_type", "ordering_key"),
    *("state", "dead_reason", "error_kind", "since", "until"),
)
_FILTERS_EXPLAINED = {"state": "dead (by default) or delivered", "error_kind": "such as timeout or 503"}
# How many deliveries `tail` remembers having shown.
_REMEMBERED = 2000
# Between two looks of `tail` and of a replay's progress (seconds).
_PAUSE_SECONDS = 2.0


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[..., int]
    needs_client: bool = True
    client_options: Mapping[str, Any] = field(default_factory=dict)


# ── emit ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _emit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--consumer")
    parser.add_argument("--type")
    parser.add_argument("--data", default="{}", help="a JSON object, @file, or - for stdin")
    parser.add_argument("--id", help="your own stable id")
    parser.add_argument("--ordering-key")
    parser.add_argument("--file", help="many: one event as JSON per line; - for stdin")


def _emit(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    if arguments.file:
        return _emit_lines(client, arguments.file, screen)
    if not arguments.consumer or not arguments.type:
        raise ValueError("Give --consumer and --type, or --file.")
    data = _json(_text(arguments.data), "--data")
    event = client.emit(
        consumer=arguments.consumer,
        type=arguments.type,
        data=data,
        id=arguments.id,
        ordering_key=arguments.ordering_key,
    )
    count = event["delivery_count"]
    deliveries = "1 delivery" if count == 1 else f"{count} deliveries"
    screen.document(event, f"accepted  {event['id']}  {deliveries}", colour="green")
    return 0


def _emit_lines(client: Client, source: str, screen: Screen) -> int:
    counts = {"accepted": 0, "duplicate": 0, "refused": 0}
    lines: deque[int] = deque()
    for number, result in enumerate(client.emit_many(_lines(source, lines)), start=1):
        counts[result.status] += 1
        line = lines.popleft()
        if not result.stored:
            problem = dict(result.problem or {})
            text = f"refused  line {line}  {problem.get('code')}: {problem.get('detail')}"
            screen.document({"line": line, "status": "refused", "problem": problem}, text, colour="red")
        if number % 10_000 == 0:
            screen.note(f"{number} sent")
    screen.document(counts, "  ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if counts["refused"] else 0


def _lines(source: str, numbers: deque[int]) -> Iterator[dict[str, Any]]:
    """Each event; the number of its line goes to `numbers`."""
    with sys.stdin if source == "-" else Path(source).open() as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                numbers.append(number)
                yield _json(line, f"Line {number}")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where} is no JSON: {error}") from None


def _text(given: str) -> str:
    if given == "-":
        return sys.stdin.read()
    return Path(given[1:]).read_text() if given.startswith("@") else given


# ── feed, tail ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _feed_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("consumer", help="uid or id")
    parser.add_argument("--cursor", help="where to go on; by default from the beginning")
    parser.add_argument("--follow", action="store_true", help="wait for more at the end")
    parser.add_argument("--undelivered", action="store_true", help="only what has not arrived everywhere")


def _feed(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    cursor, more = arguments.cursor, True
    while more or arguments.follow:
        wait = 20 if arguments.follow and not more else None
        begun = time.monotonic()
        page = client.feed_page(
            arguments.consumer, cursor=cursor, wait=wait, undelivered=arguments.undelivered or None, limit=200
        )
        for event in page.events:
            states = ",".join(sorted({each["state"] for each in event["deliveries"]})) or "-"
            screen.document(event, f"{event['created_at']}  {event['type']}  {event['id']}  {states}")
        more, cursor = page.more, page.cursor
        if arguments.follow and not more:
            # Where too many wait already, the platform answers at once.
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun)))
    screen.note(f"cursor: {cursor}")
    return 0


def _tail_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("consumer", "endpoint", "state", "event-type"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--looks", type=int, help="end after so many looks; by default never")


def _tail(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Deliveries as they change, the newest 50 of them at each look."""
    wanted = {name: getattr(arguments, name) for name in ("consumer", "endpoint", "state", "event_type")}
    shown: deque[tuple[Any, ...]] = deque(maxlen=_REMEMBERED)
    looks = 0
    while True:
        fresh = []
        for row, _ in zip(client.deliveries(**wanted, limit=50), range(50), strict=False):
            seen = (row["id"], row["state"], row["attempt_count"])
            if seen not in shown:
                shown.append(seen)
                fresh.append(row)
        for row in reversed(fresh):
            state = str(row["state"])
            text = f"{row['created_at']}  {state:9}  {row['id']}  {row['event']}  attempts {row['attempt_count']}"
            colour = {"delivered": "green", "dead": "red"}.get(state, "")
            screen.document(row, f"{text}  {row['dead_reason'] or ''}".rstrip(), colour=colour)
        looks += 1
        if arguments.looks and looks >= arguments.looks:
            return 0
        time.sleep(_PAUSE_SECONDS)


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("deliveries", nargs="*", help="ids of deliveries; or say which by the options")
    for name in _FILTERS:
        parser.add_argument(f"--{name.replace('_', '-')}", help=_FILTERS_EXPLAINED.get(name))
    parser.add_argument("--all", action="store_true", help="every dead letter there is")
    parser.add_argument("--rate", type=int, help="deliveries per second")
    parser.add_argument("--why", help="the reason, for the audit log")
    parser.add_argument("--dry-run", action="store_true", help="say what it would take, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--wait", action="store_true", help="show its progress until it is done")


def _replay(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    wanted = {name: getattr(arguments, name) for name in _FILTERS if getattr(arguments, name)}
    if arguments.deliveries:
        wanted["deliveries"] = arguments.deliveries
    if arguments.all:
        wanted["all"] = True
    preview = client.preview_replay(**wanted)
    if arguments.dry_run:
        screen.document(preview, f"{preview['matched']} would be sent again")
        if not screen.as_json and preview["by_endpoint"]:
            screen.table(preview["by_endpoint"], ["endpoint", "matched"])
        return 0
    if not arguments.yes and not _agrees(f"Send {preview['matched']} deliveries again?", screen):
        return 1
    job = client.start_replay(rate_per_second=arguments.rate, why=arguments.why, **wanted)
    while arguments.wait and job["status"] == "running":
        screen.note(f"{job['replayed']} of {job['matched']}")
        time.sleep(_PAUSE_SECONDS)
        job = client.replay(job["id"])
    screen.document(job, f"{job['status']}  {job['id']}  {job['replayed']} of {job['matched']} sent again")
    return 0


def _agrees(question: str, screen: Screen) -> bool:
    if not sys.stdin.isatty():
        raise ValueError(f"{question} Nobody is there to answer: give --yes.")
    screen.note(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ── check-up, verify ─────────────────────────────────────────────────────────────────────────────────────────────────


def _check_up_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("endpoint", help="ep_…")


def _check_up(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    report = client.check_up(arguments.endpoint)
    findings = report.get("findings", [])
    if screen.as_json:
        screen.document(report, "")
    else:
        screen.table(findings, ["verdict", "title", "meaning"])
        for finding in findings:
            if finding.get("advice") and finding["verdict"] != "pass":
                screen.document({}, f"{finding['title']}: {finding['advice']}")
    return 1 if any(finding["verdict"] == "fail" for finding in findings) else 0


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--headers", help="a file of `Name: value` lines; without it, the headers precede the body")
    parser.add_argument("--body", default="-", help="a file with the raw body; - for stdin")
    parser.add_argument("--secret", help="one or several with commas; better WEBHOOK_SECRET")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE_SECONDS, help="seconds of age; default 300")
    parser.add_argument("--any-age", action="store_true", help="for a request that was saved a while ago")


def _verify(_client: None, arguments: argparse.Namespace, screen: Screen) -> int:
    secrets = [each for each in (arguments.secret or os.environ.get("WEBHOOK_SECRET", "")).split(",") if each]
    if not secrets:
        raise ValueError("Set WEBHOOK_SECRET, or give --secret.")
    body = sys.stdin.buffer.read() if arguments.body == "-" else Path(arguments.body).read_bytes()
    if arguments.headers:
        head = Path(arguments.headers).read_bytes()
    else:
        head, body = _halves(body)
    tolerance = float("inf") if arguments.any_age else arguments.tolerance
    try:
        event = verify(body, _headers(head), secrets, tolerance)
    except VerificationError as error:
        found = {"verified": False, "reason": error.reason, "detail": error.explain()}
        screen.document(found, f"not verified: {error.explain()}", colour="red")
        return 1
    screen.document(
        {"verified": True, "id": event.id, "type": event.type},
        f"verified: {event.type} {event.id}",
        colour="green",
    )
    return 0


def _halves(request: bytes) -> tuple[bytes, bytes]:
    """Headers and body, at the first empty line."""
    for gap in (b"\r\n\r\n", b"\n\n"):
        if gap in request:
            head, _, body = request.partition(gap)
            return head, body
    raise ValueError("There is no empty line between headers and body; give the headers with --headers.")


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.decode(errors="replace").splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


COMMANDS = (
    Command("emit", "Emit an event, or a file of them.", _emit_arguments, _emit),
    Command("tail", "Show deliveries as they change.", _tail_arguments, _tail),
    Command("replay", "Send deliveries again.", _replay_arguments, _replay),
    Command("verify", "Is this request genuine, and if not, why?", _verify_arguments, _verify, needs_client=False),
    Command("check-up", "Try an endpoint: does it verify, dedupe, answer fast?", _check_up_arguments, _check_up),
    Command("feed", "Read a consumer's events from a cursor.", _feed_arguments, _feed),
)
