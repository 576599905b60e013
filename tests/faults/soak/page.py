"""What a soak came to: its verdicts, and its part of docs/reliability.md."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from tests.faults.soak import chart
from tests.faults.soak.samples import Sample

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reliability.md"
CHART = ROOT / "docs" / "pictures" / "soak.svg"
BEGIN, END = "<!-- soak: written by make soak -->", "<!-- end of soak -->"
_MB = 1_000_000
# What counts as flat: the last quarter's median is at most the second quarter's and a tenth, and this much for luck.
_MEMORY_SLACK = 8 * _MB
_LAG_SLACK = 0.1


@dataclass(frozen=True)
class Verdict:
    what: str
    holds: bool
    figures: str


@dataclass
class Run:
    limit: float
    rate: float
    seconds: float
    drained_seconds: float
    # Owed when the load ended, nearly all of it to those that failed and hung; and after the drain.
    gathered: int
    left: int
    accepted: int
    taken: int
    accepted_of_well: int
    taken_by_well: int
    dead: int
    again: int
    refused: dict[str, int]
    worst_delay: float
    ended: list[str]
    samples: list[Sample]
    commit: str = ""
    note: str = ""

    def stored(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "Run":
        return cls(**{**stored, "samples": [Sample(**each) for each in stored["samples"]]})

    def quarter(self, number: int) -> list[Sample]:
        """1 to 4, of the load's time."""
        low, high = (number - 1) * self.seconds / 4, number * self.seconds / 4
        return [sample for sample in self.samples if low <= sample.at < high]

    def verdicts(self) -> list[Verdict]:
        return [self._lost(), self._well(), self._backlog(), self._lags(), *self._memory(), *self._tables()]

    def _lost(self) -> Verdict:
        lost = self.accepted - self.taken - self.dead
        return Verdict(
            "every event answered with 202 was taken, or is a dead letter",
            lost <= 0 and not self.ended,
            f"{self.accepted:,} accepted, {self.taken:,} taken, {self.dead:,} dead, {self.again:,} taken again"
            + (f"; ended by themselves: {', '.join(self.ended)}" if self.ended else ""),
        )

    def _well(self) -> Verdict:
        return Verdict(
            "receivers that are well took all of theirs",
            self.accepted_of_well == self.taken_by_well,
            f"{self.taken_by_well:,} of {self.accepted_of_well:,}",
        )

    def _backlog(self) -> Verdict:
        return Verdict(
            "the backlog goes to zero once those that failed are well",
            self.left == 0,
            f"{self.gathered:,} owed at the end of the load, {self.left:,} after {self.drained_seconds:.0f} s",
        )

    def _lags(self) -> Verdict:
        early, late = self._lag(2), self._lag(4)
        return Verdict(
            "latency at receivers that are well is flat",
            late <= early * 1.1 + _LAG_SLACK,
            f"99th percentile (median of all looks): {early * 1000:.0f} ms, then {late * 1000:.0f} ms",
        )

    def _lag(self, quarter: int) -> float:
        return median([percentile(sample.lags, 0.99) for sample in self.quarter(quarter) if sample.lags] or [0.0])

    def _memory(self) -> list[Verdict]:
        of: dict[str, Callable[[Sample], int]] = {name: _memory_of(name) for name in self.samples[0].memory}
        of["Redis"] = lambda sample: sample.redis_bytes
        return [self._flat(f"memory of {name}", look, _MEMORY_SLACK, _megabytes) for name, look in of.items()]

    def _tables(self) -> list[Verdict]:
        # With what counts as luck.
        bounded: dict[str, tuple[Callable[[Sample], int], int]] = {
            "deltas": (lambda sample: sample.deltas, 5000),
            "leases": (lambda sample: sample.leases, 4),
            "notices": (lambda sample: sample.notices, 20),
            "connections": (lambda sample: sample.connections, 10),
        }
        return [self._flat(f"number of {name}", look, slack, _plain) for name, (look, slack) in bounded.items()]

    def _flat(self, what: str, of: Callable[[Sample], int], slack: float, show: Callable[[float], str]) -> Verdict:
        early, late = (median([of(sample) for sample in self.quarter(number)] or [0]) for number in (2, 4))
        return Verdict(f"{what} is flat", late <= early * 1.1 + slack, f"{show(early)}, then {show(late)}")


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def line(samples: list[Sample]) -> str:
    """For the screen, while it runs."""
    if not samples:
        return "…"
    last = samples[-1]
    return (
        f"{last.at:5.0f} s  p50 {percentile(last.lags, 0.5):.3f}  p99 {percentile(last.lags, 0.99):.3f}"
        f"  owed {last.pending + last.in_flight}  deltas {last.deltas}  load {last.machine_load:.1f}"
        f"  workers {_megabytes(last.memory.get('deliveries1', 0))}"
    )


def write(run: Run, *, page: Path = PAGE, picture: Path = CHART) -> None:
    """Replaces the part of the page between the marks."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{render(run)}\n{END}{after}")
    picture.write_text(chart.draw(run.samples, load_seconds=run.seconds))


def render(run: Run) -> str:
    load = [sample.machine_load for sample in run.samples]
    every = sorted(lag for sample in run.samples if sample.at < run.seconds for lag in sample.lags)
    refused = ", ".join(f"{name} × {count}" for name, count in sorted(run.refused.items())) or "202 only"
    lines = [
        f"Run on {datetime.now(UTC):%Y-%m-%d} at commit `{run.commit}`, {run.seconds / 60:.0f} minutes of load."
        f" {run.note}".rstrip(),
        f"The machine's load average was {median(load):.0f} in the median, {max(load):.0f} at most, on two cores.",
        "",
        f"At first {run.limit:.0f} events a second were the limit; the load was {run.rate:.0f} a second"
        f" ({run.accepted:,} events), to twenty endpoints: two answer 500, one does not answer."
        f" Callers saw: {refused}. No batch was sent more than {run.worst_delay:.1f} s late.",
        "",
        "From emit to arrival at the seventeen that are well, all of the load's time:"
        f" {percentile(every, 0.5) * 1000:.0f} ms (median), {percentile(every, 0.95) * 1000:.0f} ms (95 %),"
        f" {percentile(every, 0.99) * 1000:.0f} ms (99 %),"
        f" {every[-1] if every else 0:.1f} s (worst).",
        "",
        "| what | second quarter, last quarter | holds |",
        "|---|---|---|",
        *(f"| {each.what} | {each.figures} | {'yes' if each.holds else '**no**'} |" for each in run.verdicts()),
        "",
        "![Latency, memory and backlog over the time of the soak](pictures/soak.svg)",
        "",
    ]
    return "\n".join(lines)


def _memory_of(name: str) -> Callable[[Sample], int]:
    return lambda sample: sample.memory.get(name, 0)


def _plain(value: float) -> str:
    return f"{value:,.0f}"


def _megabytes(value: float) -> str:
    return f"{value / _MB:.0f} MB"
