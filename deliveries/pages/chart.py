"""Charts as geometry: the template draws them as SVG, so a page needs no library and no inline script. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deliveries.browse import words
from deliveries.statistics.figures import Range, Sums

WIDTH, HEIGHT = 720.0, 200.0
LEFT, BOTTOM, TOP = 52.0, 22.0, 20.0
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT, HEIGHT - BOTTOM - TOP
GAP = 0.22  # of a bar's width


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    tone: str


@dataclass(frozen=True)
class Slot:
    """A bar's whole column: what the pointer hits, and what it says."""

    x: float
    width: float
    tip: str


@dataclass(frozen=True)
class Line:
    path: str
    tone: str
    name: str
    # Where it has a value with none on either side: a path of one point shows next to nothing.
    lone: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    bars: list[Bar]
    lines: list[Line]
    slots: list[Slot]
    y_ticks: list[Tick]
    x_ticks: list[Tick]
    is_empty: bool
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    top: float = TOP
    base: float = HEIGHT - BOTTOM


def traffic(entries: Sequence[Sums], span: Range) -> Chart:
    """Attempts per step, stacked by how they ended, and events accepted as a line."""
    top = nice(max([max(entry.attempts, entry.accepted) for entry in entries] or [0]))
    slot = PLOT_WIDTH / len(entries)
    bars: list[Bar] = []
    for index, entry in enumerate(entries):
        bottom = HEIGHT - BOTTOM
        parts = [("good", entry.delivered), ("wait", entry.failed - entry.dead), ("bad", entry.dead)]
        for tone, count in parts:
            if count > 0:
                height = PLOT_HEIGHT * count / top
                bottom -= height
                x = LEFT + index * slot + slot * GAP / 2
                bars.append(Bar(_r(x), _r(bottom), _r(slot * (1 - GAP)), _r(height), tone))
    accepted = [(index, entry.accepted / top) for index, entry in enumerate(entries)]
    line = _path([(LEFT + (index + 0.5) * slot, share) for index, share in accepted])
    return Chart(
        bars=bars,
        lines=[Line(line, "accepted", "accepted")] if any(entry.accepted for entry in entries) else [],
        slots=[
            Slot(_r(LEFT + index * slot), _r(slot), _traffic_tip(entry, span)) for index, entry in enumerate(entries)
        ],
        y_ticks=[Tick(_r(_y(share)), _count(top * share)) for share in (0, 0.5, 1)],
        x_ticks=_x_ticks(entries, span, slot),
        is_empty=not any(entry.attempts or entry.accepted for entry in entries),
    )


def times(entries: Sequence[Sums], span: Range, *, of: str) -> Chart:
    """p50, p95 and p99 on a logarithmic scale: a slow minute does not flatten the fast ones."""
    shares = [("p50", "p50", 0.5), ("p95", "p95", 0.95), ("p99", "p99", 0.99)]
    values = {
        name: [(entry.latency if of == "latency" else entry.duration)(share) for entry in entries]
        for name, _, share in shares
    }
    known = [value for each in values.values() for value in each if value]
    low = math.floor(math.log10(max(1.0, min(known, default=1.0))))
    high = max(low + 1, math.ceil(math.log10(max(known, default=10.0))))
    slot = PLOT_WIDTH / len(entries)

    def share_of(value: float) -> float:
        return min(1.0, max(0.0, (math.log10(max(value, 0.1)) - low) / (high - low)))

    lines = []
    for name, tone, _ in shares:
        points = [
            None if value is None else (LEFT + (index + 0.5) * slot, share_of(value))
            for index, value in enumerate(values[name])
        ]
        lines.append(Line(_path(points), tone, name, _lone(points)))
    slots = [
        Slot(_r(LEFT + index * slot), _r(slot), _times_tip(entry, span, [values[name][index] for name, _, _ in shares]))
        for index, entry in enumerate(entries)
    ]
    return Chart(
        bars=[],
        lines=lines,
        slots=slots,
        y_ticks=[Tick(_r(_y((power - low) / (high - low))), _duration(power)) for power in range(low, high + 1)],
        x_ticks=_x_ticks(entries, span, slot),
        is_empty=not known,
    )


def nice(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, … above a value, and 4 at least: half of it is a whole number too."""
    if value <= 4:
        return 4
    power = 10 ** math.floor(math.log10(value))
    return float(next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value))


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    """`M` begins anew after each gap: nothing happened then, and a line across it would say otherwise."""
    parts, pen_down = [], False
    for point in points:
        if point is not None:
            parts.append(f"{'L' if pen_down else 'M'}{_r(point[0])} {_r(_y(point[1]))}")
        pen_down = point is not None
    return "".join(parts)


def _lone(points: Sequence[tuple[float, float] | None]) -> list[tuple[float, float]]:
    beside = [None, *points, None]
    return [
        (_r(point[0]), _r(_y(point[1])))
        for index, point in enumerate(points)
        if point is not None and beside[index] is None and beside[index + 2] is None
    ]


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - PLOT_HEIGHT * share


def _x_ticks(entries: Sequence[Sums], span: Range, slot: float) -> list[Tick]:
    every = max(1, len(entries) // 6)
    form = "%H:%M" if span.length.days <= 1 else "%d %b"
    return [
        Tick(_r(LEFT + (index + 0.5) * slot), entry.at.strftime(form))
        for index, entry in enumerate(entries)
        if index % every == every // 2
    ]


def _traffic_tip(entry: Sums, span: Range) -> str:
    parts = [_when(entry.at, span), f"{entry.accepted:,} accepted", f"{entry.delivered:,} delivered"]
    return " · ".join([*parts, f"{entry.failed:,} failed", f"{entry.dead:,} dead"])


def _times_tip(entry: Sums, span: Range, values: Sequence[float | None]) -> str:
    named = zip(("p50", "p95", "p99"), values, strict=True)
    return " · ".join([_when(entry.at, span), *(f"{name} {words.milliseconds(value)}" for name, value in named)])


def _when(at: datetime, span: Range) -> str:
    return at.strftime("%H:%M" if span.length.days <= 1 else "%a %d %b %H:%M") + " UTC"


def _duration(power: int) -> str:
    """A power of ten of milliseconds, short enough for an axis."""
    return f"{10**power} ms" if power < 3 else f"{10 ** (power - 3):,} s"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k"


def _r(value: float) -> float:
    return round(value, 2)
