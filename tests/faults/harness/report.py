"""docs/reliability.md: what was run, what came of it, and the command that repeats each line."""

import os
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tests.faults.harness.rounds import Round

ROOT = Path(__file__).parents[3]
CHART = ROOT / "docs" / "pictures" / "recovery.svg"
_BEGIN, _END = "<!-- report: written by make faults -->", "<!-- end of report -->"
_WIDTH, _ROW, _LABEL = 900, 18, 220


@dataclass(frozen=True)
class About:
    """The run itself."""

    commit: str
    minutes: float
    # A sentence of whoever ran it, such as what else the machine did.
    note: str


def write(rounds: list[Round], *, ended: list[str], page: Path, about: About) -> None:
    """Replaces the part of the page between the marks."""
    text = page.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page.write_text(f"{before}{_BEGIN}\n\n{render(rounds, ended=ended, about=about)}\n{_END}{after}")
    CHART.write_text(chart(rounds))


def render(rounds: list[Round], *, ended: list[str], about: About) -> str:
    ran = [each for each in rounds if not each.skipped]
    broken = [each for each in ran if not each.passed]
    accepted = sum(each.audit.accepted for each in ran)
    doubled = sum(each.audit.duplicate_count for each in ran)
    lines = [
        f"Run on {datetime.now(UTC):%Y-%m-%d} at commit `{about.commit}`, {about.minutes:.0f} minutes."
        f" {about.note}".rstrip(),
        "",
        f"{len(ran)} rounds of {len({each.fault.name for each in ran})} faults: {accepted:,} events answered 202,"
        f" {sum(each.audit.delivered for each in ran):,} deliveries delivered, {sum(each.audit.dead for each in ran):,}"
        f" dead, {_lost(ran)} lost, {doubled:,} requests doubled and each of them explained,"
        f" {len(broken)} rounds with a broken promise, {sum(each.was_in_time for each in ran)} rounds in time."
        f" The machine's load average was {median(each.machine_load for each in ran):.0f} in the median and"
        f" {max(each.machine_load for each in ran):.0f} at most, on {os.cpu_count()} cores.",
        "",
        *_broken(broken, ended),
        *_table(ran),
        "",
        "![How soon deliveries are back after each fault](pictures/recovery.svg)",
        "",
        *_duplicates(ran),
        *_skipped(rounds),
    ]
    return "\n".join(lines)


def _lost(ran: list[Round]) -> int:
    return sum(violation.startswith("lost") for each in ran for violation in each.audit.violations)


def _table(ran: list[Round]) -> list[str]:
    lines = [
        "Seconds are the median and the worst of the seeds. *Back* is the time from the fault's end (the server"
        " answers, the process is started) to the next request at a healthy receiver. *Lag* is the longest time from a"
        " 202 to the first request, for healthy endpoints; it includes the outage. *Held* is the time from the"
        " fault's end until what killed workers had in flight went out again. *In flight* is the most when a"
        " fault began;"
        " *doubled* are events that a receiver took twice; *callers saw* is what emits met before their 202. *In time*:"
        " back within two seconds, what was held too (the lease and two seconds where a host is lost), and where"
        " healthy endpoints should notice nothing, no lag over two seconds.",
        "",
        "| fault | what | 202s | outage | back | held | lag | in flight | doubled | callers saw | in time | result |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|---|---|",
    ]
    for name, group in _grouped(ran).items():
        result = "kept" if all(each.passed for each in group) else "**broken**"
        lines.append(
            f"| `{name}` | {group[0].fault.what} | {sum(each.audit.accepted for each in group)}"
            f" | {_seconds([each.outage_seconds for each in group])}"
            f" | {_seconds([each.back_seconds for each in group])}"
            f" | {_held(group)}"
            f" | {_seconds([each.worst_lag_seconds for each in group])}"
            f" | {max(each.in_flight for each in group)}"
            f" | {sum(each.audit.duplicate_count for each in group)} | {_seen_by_callers(group)}"
            f" | {_in_time(group)} | {result} |"
        )
    return [*lines, "", "To repeat one: `make faults ONLY=redis-frozen SEEDS=2`."]


def _held(group: list[Round]) -> str:
    return _seconds([each.held_seconds for each in group]) if any(each.held_seconds for each in group) else "–"


def _in_time(group: list[Round]) -> str:
    late = sum(not each.was_in_time for each in group)
    return f"**{late} of {len(group)} late**" if late else "yes"


def _seen_by_callers(group: list[Round]) -> str:
    """What emits met before their 202: status codes, and the client's names for no answer at all."""
    seen: Counter[str] = Counter()
    for each in group:
        seen.update(each.unanswered)
    return ", ".join(f"{name} × {count}" for name, count in sorted(seen.items())) or "202 only"


def _grouped(ran: list[Round]) -> dict[str, list[Round]]:
    grouped: dict[str, list[Round]] = defaultdict(list)
    for each in ran:
        grouped[each.fault.name].append(each)
    return grouped


def _seconds(values: list[float]) -> str:
    return f"{median(values):.1f} / {max(values):.1f}"


def _broken(broken: list[Round], ended: list[str]) -> list[str]:
    lines = [
        f"- `make faults ONLY={each.fault.name} SEEDS={each.seed}`: {v}"
        for each in broken
        for v in each.audit.violations[:4]
    ]
    lines += [f"- at the end of a session: {each}" for each in ended]
    return ["Promises that were broken:", "", *lines, ""] if lines else []


def _duplicates(ran: list[Round]) -> list[str]:
    reasons: dict[str, int] = defaultdict(int)
    for each in ran:
        for reason, count in each.audit.duplicates.items():
            reasons[reason] += count
    if not reasons:
        return []
    shown = ", ".join(f"{count} of `{reason}`" for reason, count in sorted(reasons.items()))
    return [f"Why requests came twice, by what is recorded of the first: {shown}.", ""]


def _skipped(rounds: list[Round]) -> list[str]:
    reasons = {each.fault.name: each.skipped for each in rounds if each.skipped}
    return [f"- `{name}` was skipped: {reason}" for name, reason in reasons.items()]


def current_commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


def chart(rounds: list[Round]) -> str:
    """One bar per fault: the worst time back of its seeds, on a line of seconds."""
    worst = {
        name: max(each.back_seconds for each in group)
        for name, group in _grouped([each for each in rounds if not each.skipped]).items()
    }
    longest = max([2.0, *worst.values()]) * 1.1
    scale = (_WIDTH - _LABEL - 60) / longest
    height = _ROW * len(worst) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for place, (name, seconds) in enumerate(sorted(worst.items(), key=lambda item: item[1])):
        top = place * _ROW + 8
        width = max(1.0, seconds * scale)
        colour = "#2f7d4f" if seconds <= 2 else "#b7791f"
        parts.append(f'<text x="{_LABEL - 8}" y="{top + 12}" text-anchor="end" fill="#333">{name}</text>')
        parts.append(f'<rect x="{_LABEL}" y="{top + 2}" width="{width:.1f}" height="{_ROW - 5}" fill="{colour}"/>')
        parts.append(f'<text x="{_LABEL + width + 6:.1f}" y="{top + 12}" fill="#333">{seconds:.1f} s</text>')
    two = _LABEL + 2 * scale
    parts.append(
        f'<line x1="{two:.1f}" y1="4" x2="{two:.1f}" y2="{height - 28}" stroke="#999" stroke-dasharray="3 3"/>'
    )
    parts.append(
        f'<text x="{two + 4:.1f}" y="{height - 16}" fill="#666">2 s; worst of the seeds, from the fault\'s end</text>'
    )
    return "\n".join([*parts, "</svg>", ""])
