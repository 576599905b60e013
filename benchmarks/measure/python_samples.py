"""Where a Python process spends its time, by py-spy: own time, grouped by package, and by file for our own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report.figures import significant

PER_SECOND = 200
OURS = ("deliveries", "subscriptions", "webhooks_platform")
FRAME = re.compile(r"^(?P<what>.*) \((?P<file>[^()]*?)(?::\d+)?\)$")


@contextmanager
def sampled(pid: int) -> Iterator[dict[str, float]]:
    """Fills, at the end, each group's share of the samples; stays empty where there is no py-spy, or no permission."""
    shares: dict[str, float] = {}
    program = shutil.which("py-spy", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        yield shares
        return
    with tempfile.TemporaryDirectory(prefix="whb") as folder:
        out = Path(folder) / "stacks"
        command = [program, "record", "--pid", str(pid), "--subprocesses", "--rate", str(PER_SECOND), "--gil"]
        command += ["--format", "raw", "--output", str(out), "--duration", "600"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield shares
        finally:
            process.send_signal(signal.SIGINT)  # as a terminal would: it writes what it has
            process.wait(30)
        if out.exists():
            shares.update(grouped(out.read_text()))


def grouped(stacks: str) -> dict[str, float]:
    """From lines `outer (file:line);inner (file:line) count` to shares of own time, the largest first."""
    counts: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        counts[group_of(frames.rpartition(";")[2])] += int(count)
    whole = sum(counts.values())
    return {group: significant(count / whole, 3) for group, count in counts.most_common()}


def group_of(frame: str) -> str:
    """`deliveries/settle.py` of ours, `aiohttp` of others; `python` for what the interpreter brings along."""
    found = FRAME.match(frame)
    path = found["file"] if found else frame
    parts = Path(path).parts
    if parts and parts[0] in OURS:
        return "/".join(parts)
    package = Path(parts[0]).stem if parts else ""
    return "python" if len(parts) < 2 or package in sys.stdlib_module_names else package
