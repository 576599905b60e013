"""What `make bench` runs: the measures asked for, one after another on one stand, then a table and a file."""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.load import receiver
from benchmarks.load.producer import LoadRefused
from benchmarks.load.steady_producer import NotArrived
from benchmarks.load.subprocesses import Broken
from benchmarks.report import document
from benchmarks.report.progress import say
from benchmarks.stand import Failed, Stand, stand
from webhooks_platform.local.environment import BASE_DIR

MEASURES = (
    "deliver",
    "emit",
    "through",
    "isolation",
    "backlog",
    "history",
    "endpoints",
    "in_flight",
    "idle",
    "profile",
)
# What a measure says when it cannot go on. Anything else is a mistake of ours, and comes with its traceback.
EXPECTED = (Failed, LoadRefused, NotArrived, Broken)
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    asked = parse(arguments)
    # Somebody who stops us with SIGTERM gets the same tidy end as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    partial = Path(tempfile.gettempdir()) / f"bench-{os.getpid()}.json"
    try:
        results, failed = run(asked.measures or list(MEASURES), quick=asked.quick, partial=partial)
    except KeyboardInterrupt:
        print("\nStopped, and nothing is left running.", file=sys.stderr)
        _say_what_is_left(partial)
        return INTERRUPTED
    except BaseException:
        _say_what_is_left(partial)
        raise
    print("\n" + document.table(results["measures"]) + "\n", flush=True)
    if asked.quick:
        print("A quick run: fewer turns, and fewer rows parked and finished than the lines say. A hint, no verdict.\n")
    complete = not failed and not asked.quick and len(results["measures"]) == len(MEASURES)
    kept = keep(results, out=asked.out, complete=complete)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    if kept:
        partial.unlink(missing_ok=True)
    else:
        _say_what_is_left(partial)
    return 1 if failed else 0


def keep(results: dict[str, Any], *, out: Path | None, complete: bool) -> bool:
    """Only a complete, full run is worth the docs; any run can have a file of its own. Whether it was written."""
    text = json.dumps(results, indent=1) + "\n"
    if out:
        out.write_text(text)
        say(f"written to {out}")
    elif complete:
        document.RESULTS.write_text(text)
        document.write(results)
        say("docs/performance.md, its figures and its plots are written anew")
    return bool(out or complete)


def _say_what_is_left(partial: Path) -> None:
    if partial.exists():
        print(f"What was measured is in {partial}.", file=sys.stderr)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="measure", help=f"one of {', '.join(MEASURES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns: for a look, not for the record")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the figures go, as JSON")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.measures) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}")
    return asked


def find(name: str) -> Callable[..., dict[str, Any]]:
    """Each measure is a module with a function `measure(bench, quick=…)`."""
    measure: Callable[..., dict[str, Any]] = import_module(f"benchmarks.measure.{name}").measure
    return measure


def run(names: Sequence[str], *, quick: bool, partial: Path) -> tuple[dict[str, Any], list[str]]:
    """The results, and the names of measures that failed."""
    with stand() as bench:
        results: dict[str, Any] = {"machine": describe(bench), "quick": quick, "seconds": 0, "measures": {}}
        failed = measure_each(bench, {name: find(name) for name in names}, results, partial=partial)
    return results, failed


def measure_each(
    bench: Stand, measures: Mapping[str, Callable[..., dict[str, Any]]], results: dict[str, Any], *, partial: Path
) -> list[str]:
    """One that fails ends nobody else's. After each, what there is stands in `partial`: half an hour is soon lost."""
    failed, begun = [], time.monotonic()
    for name, measure in measures.items():
        say(f"── {name} ──")
        try:
            results["measures"][name] = measure(bench, quick=results["quick"])
        except Exception as error:
            shown = str(error) if isinstance(error, EXPECTED) else traceback.format_exc()
            say(f"{name} failed: {shown}")
            failed.append(name)
            bench.stop(now=True)
        results["seconds"] = round(time.monotonic() - begun)
        partial.write_text(json.dumps(results, indent=1) + "\n")
    return failed


def describe(bench: Stand) -> dict[str, Any]:
    """What the figures were taken on; nothing that names the machine."""
    from benchmarks.load.preload import database

    with database(bench) as connection:
        [[postgres]] = connection.execute("SHOW server_version").fetchall()
    return {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgres": postgres,
        "receiver": receiver.kind(),
        "commit": commit(),
    }


def commit() -> str | None:
    """What was measured; None in a folder without a history. A `+` says that files differ from it."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        found = subprocess.run(asked, cwd=BASE_DIR, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
