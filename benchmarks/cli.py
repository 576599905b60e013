"""What `make bench` runs: the measures asked for, one after another on one stand, then a table and a file."""

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.beside import Broken
from benchmarks.load import Refused
from benchmarks.progress import say
from benchmarks.stand import Failed, Stand, stand
from benchmarks.steady import NotArrived

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
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    asked = parse(arguments)
    # Somebody who stops us with SIGTERM gets the same tidy end as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        results, failed = run(asked.measures or list(MEASURES), quick=asked.quick)
    except KeyboardInterrupt:
        print("\nStopped. Nothing was written, and nothing is left running.", file=sys.stderr)
        return INTERRUPTED
    print("\n" + report.table(results["measures"]) + "\n", flush=True)
    if asked.quick:
        print("A quick run: fewer turns, and fewer rows parked and finished than the lines say. A hint, no verdict.\n")
    keep(results, out=asked.out, complete=not failed and not asked.quick and len(results["measures"]) == len(MEASURES))
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def keep(results: dict[str, Any], *, out: Path | None, complete: bool) -> None:
    """Only a complete, full run is worth the docs; any run can have a file of its own."""
    text = json.dumps(results, indent=1) + "\n"
    if out:
        out.write_text(text)
        say(f"written to {out}")
    elif complete:
        report.RESULTS.write_text(text)
        report.write(results)
        say("docs/performance.md, its figures and its plots are written anew")


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
    measure: Callable[..., dict[str, Any]] = import_module(f"benchmarks.{name}").measure
    return measure


def run(names: Sequence[str], *, quick: bool) -> tuple[dict[str, Any], list[str]]:
    """The results, and the names of measures that failed: one that does ends nobody else's."""
    measured: dict[str, Any] = {}
    failed = []
    begun = time.monotonic()
    with stand() as bench:
        for name in names:
            say(f"── {name} ──")
            try:
                measured[name] = find(name)(bench, quick=quick)
            except (Failed, Refused, NotArrived, Broken) as error:
                say(f"{name} failed: {error}")
                failed.append(name)
                bench.stop(now=True)
        machine = describe(bench)
    return {
        "machine": machine,
        "quick": quick,
        "seconds": round(time.monotonic() - begun),
        "measures": measured,
    }, failed


def describe(bench: Stand) -> dict[str, Any]:
    """What the figures were taken on; nothing that names the machine."""
    from benchmarks.preload import database

    with database(bench) as connection:
        [[postgres]] = connection.execute("SHOW server_version").fetchall()
    return {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgres": postgres,
    }
