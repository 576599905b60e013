"""`make soak`: the real system near its limit, for as long as asked, with receivers that fail and hang.

    make soak                      # half an hour at half of what this machine can do
    make soak MINUTES=5 RATE=100   # less, at 100 events a second
    make soak REPORT=no            # without writing docs/reliability.md

1. For twenty seconds, events as fast as four connections take them: what is delivered then is the limit.
2. For the time asked, a share of that, to twenty endpoints: two answer 500, one does not answer.
3. The three are mended. What had gathered for them drains.
4. The verdicts: each event answered with 202 was taken, or is dead; memory, latency and tables at the end are those of
   the beginning; nothing is owed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

import httpx

from tests.faults.harness.report import current_commit
from tests.faults.harness.system import System, running_system
from tests.faults.soak import page
from tests.faults.soak.load import Load
from tests.faults.soak.receivers import COUNT, WELL
from tests.faults.soak.samples import Sampler, owed
from tests.local import free_port, wait_until

_LIMIT_SECONDS = 20
_SHARE_OF_LIMIT = 0.5
_DRAIN_SECONDS = 600
# Retries of the failing ones come soon enough to see all of them within the time of the drain.
_SCHEDULE = [0, 5, 10, 20, *[30] * 16]
_DEAD = "SELECT count(*) FROM deliveries_delivery WHERE state = 'dead'"
_SETTINGS = {
    "API_RATE_PER_SECOND": "100000",
    "BREAKER_COOLDOWN_SECONDS": "5",
    "BREAKER_MAX_COOLDOWN_SECONDS": "20",
    "LOG_LEVEL": "INFO",
}


def main() -> int:
    options = _options()
    with _receivers() as url, running_system(settings=_SETTINGS) as system:
        run = _run(system, url, minutes=options.minutes, rate=options.rate)
    run.commit, run.note = current_commit(), options.note
    if options.save:
        Path(options.save).write_text(json.dumps(run.stored()))
    if options.report == "yes":
        page.write(run)
    for verdict in run.verdicts():
        _say(f"{'✔' if verdict.holds else '✘'} {verdict.what}: {verdict.figures}")
    return 0 if all(verdict.holds for verdict in run.verdicts()) else 1


def _run(system: System, url: str, *, minutes: float, rate: float | None) -> page.Run:
    with system.client(system.issue_key("producer"), seconds=30) as client, httpx.Client(base_url=url) as receivers:
        _register(client, url)
        limit, first = _limit(system, client, receivers)
        chosen = rate or limit * _SHARE_OF_LIMIT
        _say(f"limit {limit:.0f} events/s; {chosen:.0f}/s for {minutes:g} minutes")
        before = receivers.get("taken").json()["taken"]
        begun_at = time.monotonic()
        sampler = Sampler(system, url, clock=lambda: time.monotonic() - begun_at)
        load = Load(client, name="soak", per_second=chosen)
        sampler.start()
        load.start()
        while (left := begun_at + minutes * 60 - time.monotonic()) > 0:
            time.sleep(min(60, left))  # the load's own length
            _say(page.line(sampler.samples))
        load.stop()
        seconds = time.monotonic() - begun_at
        gathered = _owed(system)
        receivers.post("heal").raise_for_status()
        with suppress(AssertionError):
            wait_until(lambda: _owed(system) == 0, seconds=_DRAIN_SECONDS)
        drained_seconds = time.monotonic() - begun_at - seconds
        # One more look, at rest.
        wait_until(lambda: sampler.samples[-1].at > seconds + drained_seconds, seconds=60)
        sampler.stop()
        after = receivers.get("taken").json()
        with system.connect() as connection:
            [dead] = connection.execute(_DEAD).fetchone() or [0]
        return page.Run(
            limit=limit,
            rate=chosen,
            seconds=seconds,
            drained_seconds=drained_seconds,
            gathered=gathered,
            left=_owed(system),
            accepted=first + load.accepted.total(),
            taken=sum(after["taken"]),
            accepted_of_well=sum(load.accepted[number] for number in WELL),
            taken_by_well=sum(after["taken"][number] - before[number] for number in WELL),
            dead=dead,
            again=after["again"],
            refused=dict(load.refused),
            worst_delay=load.worst_delay,
            ended=system.dead_processes(),
            samples=sampler.samples,
        )


def _register(client: httpx.Client, url: str) -> None:
    client.post("consumers/", json={"uid": "acme"}).raise_for_status()
    for number in range(COUNT):
        endpoint = {
            "url": f"{url}/{number}", "event_types": [f"soak.n{number}"], "max_in_flight": 20,
            "retry_schedule": _SCHEDULE, "timeout_seconds": 10,
        }  # fmt: skip
        client.post("consumers/acme/endpoints/", json=endpoint).raise_for_status()


def _limit(system: System, client: httpx.Client, receivers: httpx.Client) -> tuple[float, int]:
    """Events a second that reach the receivers that are well, the others made up for; and how many were emitted."""
    load = Load(client, name="limit", per_second=None)
    before = sum(receivers.get("taken").json()["taken"])
    begun_at = time.monotonic()
    load.start()
    time.sleep(_LIMIT_SECONDS)
    load.stop()
    wait_until(lambda: _owed(system) <= _parked(load), seconds=300)
    taken = sum(receivers.get("taken").json()["taken"]) - before
    return taken / (time.monotonic() - begun_at) * COUNT / len(WELL), load.accepted.total()


def _parked(load: Load) -> int:
    return sum(count for number, count in load.accepted.items() if number not in WELL)


def _owed(system: System) -> int:
    with system.connect() as connection:
        return owed(connection)


@contextmanager
def _receivers() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.faults.soak.receivers", str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(url), seconds=30)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/taken").status_code == 200
    except httpx.TransportError:
        return False


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=None, help="events a second; otherwise half of the limit")
    parser.add_argument("--report", default="yes", choices=["yes", "no"])
    parser.add_argument("--save", default="", help="a file for all figures, as JSON")
    parser.add_argument("--note", default="", help="a sentence for the report, such as what else the machine did")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
