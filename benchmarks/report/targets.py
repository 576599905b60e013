"""What the figures must show, line by line, and whether they do. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FigureTarget:
    says: str
    # Where in the results its figure stands; the first part is the measure.
    path: tuple[str, ...]
    bound: float
    at_most: bool = False
    unit: str = ""

    @property
    def shown(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}{self.unit}"

    def is_met_by(self, figure: float) -> bool:
        return figure <= self.bound if self.at_most else figure >= self.bound


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    target: FigureTarget
    # None where it was not measured.
    figure: float | None
    low: float | None = None
    high: float | None = None

    @property
    def word(self) -> str:
        if self.figure is None:
            return "not measured"
        if not self.target.is_met_by(self.figure):
            return "MISSED"
        worst = self.high if self.target.at_most else self.low
        return "met" if worst is None or self.target.is_met_by(worst) else "met, not in every turn"

    @property
    def shown(self) -> str:
        if self.figure is None:
            return "–"
        turns = "" if self.low is None else f" ({self.low:.3g}–{self.high:.3g})"
        return f"{self.figure:.3g}{self.target.unit}{turns}"


TARGETS: Sequence[FigureTarget] = (
    FigureTarget("deliver: one worker ÷ bare loop, one process", ("deliver", "one", "ratio"), 0.4),
    FigureTarget("deliver: two workers ÷ bare loop, two processes", ("deliver", "two", "ratio"), 0.5),
    FigureTarget("deliver: two workers ÷ one", ("deliver", "two_by_one"), 1.5),
    FigureTarget("emit: single ÷ no-op DRF view", ("emit", "single_by_noop"), 0.5),
    # The target names no consumers, so both readings of it are judged.
    FigureTarget("emit: batch of 100 for one consumer ÷ single, events/s", ("emit", "batch_one_by_single"), 8),
    FigureTarget("emit: batch of 100 for 100 consumers ÷ single, events/s", ("emit", "batch_by_single"), 8),
    FigureTarget(
        "isolation: healthy beside 20 % that hang ÷ alone", ("isolation", "a_fifth", "throughput", "ratio"), 0.95
    ),
    FigureTarget("isolation: their p99 ÷ alone", ("isolation", "a_fifth", "latency", "ratio"), 2, at_most=True),
    FigureTarget(
        "isolation: beside more hung requests than slots ÷ alone",
        ("isolation", "many_hang", "throughput", "ratio"),
        0.95,
    ),
    FigureTarget(
        "isolation: the p99 of these ÷ alone", ("isolation", "many_hang", "latency", "ratio"), 2, at_most=True
    ),
    FigureTarget("backlog: with a million parked ÷ without", ("backlog", "ratio"), 0.9),
    FigureTarget("history: with five million finished ÷ without", ("history", "ratio"), 0.9),
    FigureTarget("endpoints: CPU per delivery, 10,000 ÷ 10", ("endpoints", "growth"), 1.5, at_most=True),
    FigureTarget("through at 200/s: p95", ("through", "200", "arrival", "p95_ms"), 50, at_most=True, unit=" ms"),
    FigureTarget(
        "a worker's memory at 1,000 in flight",
        ("in_flight", "levels", "1000", "memory_mib"),
        250,
        at_most=True,
        unit=" MiB",
    ),
    FigureTarget("the idle system, of one core", ("idle", "total_percent"), 3, at_most=True, unit=" %"),
)


def judge(measures: Mapping[str, Any], target: FigureTarget) -> TargetVerdict:
    found: Any = measures
    for part in target.path:
        if not isinstance(found, Mapping) or part not in found:
            return TargetVerdict(target, None)
        found = found[part]
    if isinstance(found, Mapping):
        return TargetVerdict(target, found["median"], found["low"], found["high"])
    return TargetVerdict(target, found)


def judge_all(measures: Mapping[str, Any]) -> list[TargetVerdict]:
    return [judge(measures, target) for target in TARGETS]
