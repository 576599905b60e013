"""`make faults`: every fault of the catalogue with several seeds on the real system, and the report of it.

    make faults                                  # everything, three seeds: about half an hour
    make faults ONLY=redis-frozen,deploy SEEDS=7 # what a report's line says, or whatever is of interest
    make faults JOBS=3                           # three seeds beside each other: sooner, and slower each
    make faults REPORT=no                        # without writing docs/reliability.md

A seed runs on one system, the faults one after the other; a broken promise ends that system, and the next fault gets a
fresh one. What a round does depends on its fault and its seed alone, so it can be repeated by itself.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

from tests.faults.harness import report
from tests.faults.harness.audit import Audit
from tests.faults.harness.faults import FAULTS
from tests.faults.harness.receiver import Receivers, running_receivers
from tests.faults.harness.rounds import Round, Session, check_tables, running_session

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def main() -> int:
    options = _options()
    names = options.only.split(",") if options.only else list(FAULTS)
    unknown = sorted(set(names) - set(FAULTS))
    if unknown:
        sys.stderr.write(f"No such fault: {', '.join(unknown)}. There are: {', '.join(FAULTS)}.\n")
        return 2
    begun_at = time.monotonic()
    seeds = [int(each) for each in options.seeds.split(",")]
    if options.read:
        rounds, ended = _read(Path(options.read))
    elif options.jobs > 1 and len(seeds) > 1:
        rounds, ended = _run_beside(seeds, options)
    else:
        rounds, ended = _run(seeds, names, save=options.save)
    _save(options.save, rounds, ended)
    minutes = options.minutes or (time.monotonic() - begun_at) / 60
    # A part of the catalogue does not replace the report of the whole, unless asked to.
    if options.report == "yes" or (options.report == "auto" and not options.only):
        about = report.About(commit=options.commit or report.current_commit(), minutes=minutes, note=options.note)
        report.write(sorted(rounds, key=_place), ended=ended, page=PAGE, about=about)
    broken = [each for each in rounds if not each.passed]
    _say(f"{len(rounds)} rounds in {minutes:.0f} minutes, {len(broken)} with a broken promise")
    return 1 if broken or ended else 0


def _run(seeds: list[int], names: list[str], *, save: str) -> tuple[list[Round], list[str]]:
    """The rounds, and what was wrong at the end of a session."""
    rounds: list[Round] = []
    ended: list[str] = []
    for seed in seeds:
        # Each seed has an order of its own: what a fault leaves behind meets another one.
        order = random.Random(seed).sample(names, len(names))
        # Those that need a system of their own kind come together, and what leaves nothing to go on with at their end.
        order.sort(key=lambda name: (_world(name), FAULTS[name].is_last))
        while order:
            with running_receivers() as receivers:
                ended += _run_until_broken(receivers, seed, order, rounds, save=save)
    return rounds, ended


def _run_beside(seeds: list[int], options: argparse.Namespace) -> tuple[list[Round], list[str]]:
    """A process for each seed, so many at once; the kernel ties a system to the main thread that started it."""
    rounds: list[Round] = []
    ended: list[str] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        files = [Path(folder) / f"{seed}.json" for seed in seeds]
        commands = [
            [sys.executable, "-m", "tests.faults", "--seeds", str(seed), "--only", options.only, "--report", "no",
             "--save", str(file)]
            for seed, file in zip(seeds, files, strict=True)
        ]  # fmt: skip
        list(pool.map(lambda command: subprocess.run(command, check=False), commands))
        for seed, file in zip(seeds, files, strict=True):
            if not file.exists():
                ended.append(f"seed {seed} did not come to its end")
                continue
            more, wrong = _read(file)
            rounds += more
            ended += wrong
    return rounds, ended


def _save(name: str, rounds: list[Round], ended: list[str]) -> None:
    if name:
        Path(name).write_text(json.dumps({"rounds": [each.stored() for each in rounds], "ended": ended}))


def _read(file: Path) -> tuple[list[Round], list[str]]:
    found = json.loads(file.read_text())
    return [Round.read(each, FAULTS) for each in found["rounds"]], found["ended"]


def _run_until_broken(
    receivers: Receivers, seed: int, order: list[str], rounds: list[Round], *, save: str
) -> list[str]:
    """Takes names off `order`. Ends with the order, or after a round that leaves a system not worth going on with."""
    with ExitStack() as stack:
        _say(f"seed {seed}: starting a system for {len(order)} faults")
        first = FAULTS[order[0]]
        if reason := first.skip() if first.own_disk else "":
            rounds.append(Round(FAULTS[order.pop(0)], seed, Audit(), skipped=reason))
            _say(_line(rounds[-1], len(order)))
            return []
        session = stack.enter_context(running_session(receivers, own_disk=first.own_disk, settings=first.settings))
        while order and _world(order[0]) == _world(first.name):
            done = session.run(FAULTS[order.pop(0)], seed)
            rounds.append(done)
            _say(_line(done, len(order)))
            _save(save, rounds, [])
            if not done.passed:
                _show_logs(session)
                return []
            if done.fault.is_last and not done.skipped:
                break
        return check_tables(session.system)


def _world(name: str) -> tuple[bool, list[tuple[str, str]]]:
    """What kind of system it needs."""
    return FAULTS[name].own_disk, sorted(FAULTS[name].settings.items())


def _line(done: Round, left: int) -> str:
    name = f"seed {done.seed} {done.fault.name:24}"
    if done.skipped:
        return f"{name} skipped: {done.skipped}"
    figures = (
        f"{done.audit.accepted:4} accepted  outage {done.outage_seconds:5.1f}  back {done.back_seconds:5.2f}"
        f"  held {done.held_seconds:5.2f}"
        f"  lag {done.worst_lag_seconds:5.2f}  rest {done.rest_seconds:5.1f}"
        f"  in flight {done.in_flight:3}  doubled {done.audit.duplicate_count:3}  ({left} left)"
    )
    problems = "".join(f"\n    ✘ {each}" for each in done.audit.violations[:8])
    late = "" if done.was_in_time else "  LATE"
    return f"{'✔' if done.passed else '✘'} {name} {figures}{late}{problems}"


def _show_logs(session: Session) -> None:
    for name in ("web", "deliveries1", "deliveries2", "background", "beat"):
        _say(f"── {name} ──\n{session.system.log(name, 12)}")


def _place(each: Round) -> tuple[int, int]:
    return list(FAULTS).index(each.fault.name), each.seed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--report", default="auto", choices=["auto", "yes", "no"])
    parser.add_argument("--jobs", type=int, default=1, help="seeds that run beside each other")
    parser.add_argument("--save", default="", help="a file for the rounds, as JSON, written after each")
    parser.add_argument("--read", default="", help="write the report of such a file, and run nothing")
    parser.add_argument("--minutes", type=float, default=0, help="how long that run took")
    parser.add_argument("--commit", default="", help="what that run ran on")
    parser.add_argument("--note", default="", help="a sentence for the report, such as what else the machine did")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
