"""What a family of processes has used so far, read from /proc: CPU seconds and memory."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """A line of /proc/<pid>/stat, as far as it matters here."""

    pid: int
    parent: int
    # Its own time, in user and kernel mode, and that of children which have ended and were waited for.
    ticks: int


def cpu_seconds(root: int) -> float:
    """Of a process and all its descendants, the ended ones included."""
    return family_ticks(_all_stats(), root) / TICKS_PER_SECOND


def memory_mib(root: int) -> float:
    """Of a process and its descendants, each page shared by several counted once (proportional set size)."""
    kib = sum(parse_pss(_read(PROC / str(pid) / "smaps_rollup")) for pid in family(_all_stats(), root))
    return kib / 1024


def parse_stat(line: str) -> Stat:
    """The name stands in parentheses and may hold anything, parentheses and spaces too."""
    pid = int(line[: line.index(" ")])
    fields = line[line.rindex(")") + 2 :].split()
    # Counted from the state: ppid is the second; utime, stime, cutime and cstime are the 12th to the 15th.
    return Stat(pid=pid, parent=int(fields[1]), ticks=sum(int(field) for field in fields[11:15]))


def parse_pss(rollup: str) -> int:
    """KiB; 0 for a process that is gone, or a kernel thread."""
    return next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def family(stats: Iterable[Stat], root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    known = set()
    for stat in stats:
        children.setdefault(stat.parent, []).append(stat.pid)
        known.add(stat.pid)
    found, waiting = set(), [root] if root in known else []
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children.get(pid, [])
    return found


def family_ticks(stats: Iterable[Stat], root: int) -> int:
    """A child counts by itself while it lives, and through its parent once it has ended: never twice."""
    stats = list(stats)
    members = family(stats, root)
    return sum(stat.ticks for stat in stats if stat.pid in members)


def _all_stats() -> list[Stat]:
    lines = [_read(path / "stat") for path in PROC.iterdir() if path.name.isdecimal()]
    return [parse_stat(line) for line in lines if line]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
