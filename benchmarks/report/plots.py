"""Bar charts as SVG, without a library: legible on light and on dark, and the same bytes for the same data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 64, 44

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px } .small { font-size: 11px }
.grid { stroke: #d0d7de } .whisker { stroke: #24292f; stroke-width: 1.5 }
.s0 { fill: #0969da } .s1 { fill: #bf5700 } .s2 { fill: #1a7f37 } .s3 { fill: #8250df }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .grid { stroke: #3d444d } .whisker { stroke: #e6edf3 }
.s0 { fill: #58a6ff } .s1 { fill: #f0883e } .s2 { fill: #3fb950 } .s3 { fill: #bc8cff }
}
"""


@dataclass(frozen=True, slots=True)
class PlotBar:
    value: float
    # Of its turns; None where there was one.
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    unit: str
    # One per group of bars, and one per bar of a group.
    groups: Sequence[str]
    series: Sequence[str]
    # For each of the series, a bar for each of the groups.
    bars: Sequence[Sequence[PlotBar]]
    logarithmic: bool = False


def render(chart: Plot) -> str:
    axis = Axis.over([bar for row in chart.bars for bar in row], logarithmic=chart.logarithmic)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(chart.title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="22">{escape(chart.title)}</text>',
        *_legend(chart),
        *_grid(axis),
        *_bars(chart, axis),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class Axis:
    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool

    @classmethod
    def over(cls, bars: Sequence[PlotBar], *, logarithmic: bool) -> "Axis":
        greatest = max(bar.high if bar.high is not None else bar.value for bar in bars) or 1.0
        if not logarithmic:
            ticks = linear_ticks(greatest)
            return cls(0.0, ticks[-1], ticks, False)
        least = min(bar.low if bar.low is not None else bar.value for bar in bars)
        ticks = log_ticks(least, greatest)
        return cls(ticks[0], ticks[-1], ticks, True)

    def y(self, value: float) -> float:
        """From the bottom of the chart up."""
        if self.logarithmic:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def linear_ticks(greatest: float) -> list[float]:
    """From zero, in steps of 1, 2 or 5 times a power of ten, four to ten of them, the last one not below."""
    power = 10.0 ** math.floor(math.log10(greatest / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if greatest / (power * factor) <= 8)
    return [round(step * number, 10) for number in range(math.ceil(round(greatest / step, 6)) + 1)]


def log_ticks(least: float, greatest: float) -> list[float]:
    """Powers of ten around the values, always at least two."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(greatest))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _legend(chart: Plot) -> list[str]:
    parts = [f'<text class="small" x="{LEFT}" y="44">{escape(chart.unit)}</text>']
    x = LEFT + 16 + 7 * len(chart.unit)
    for number, name in enumerate(chart.series):
        parts.append(f'<rect class="s{number}" x="{x}" y="35" width="10" height="10"/>')
        parts.append(f'<text class="small" x="{x + 15}" y="44">{escape(name)}</text>')
        x += 31 + 7 * len(name)
    return parts


def _grid(axis: Axis) -> list[str]:
    parts = []
    for tick in axis.ticks:
        y = axis.y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="small" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:,g}</text>')
    return parts


def _bars(chart: Plot, axis: Axis) -> list[str]:
    room = (WIDTH - LEFT - RIGHT) / len(chart.groups)
    width = min(64.0, room * 0.8 / len(chart.series))
    parts = []
    for place, group in enumerate(chart.groups):
        middle = LEFT + room * (place + 0.5)
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 16}" text-anchor="middle">{escape(group)}</text>')
        for number, row in enumerate(chart.bars):
            x = middle + width * (number - len(chart.series) / 2)
            parts += _bar(row[place], axis, x=x, width=width, series=number)
    return parts


def _bar(bar: PlotBar, axis: Axis, *, x: float, width: float, series: int) -> list[str]:
    top, bottom, middle = axis.y(bar.value), axis.y(axis.low), x + width / 2
    shown = f'<rect class="s{series}" x="{x + 2:.1f}" y="{top}" width="{width - 4:.1f}" height="{bottom - top:.1f}"/>'
    parts, highest = [shown], top
    if bar.low is not None and bar.high is not None:
        highest = min(top, axis.y(bar.high))
        ends = f'x1="{middle:.1f}" x2="{middle:.1f}" y1="{axis.y(bar.low)}" y2="{axis.y(bar.high)}"'
        parts.append(f'<line class="whisker" {ends}/>')
    label = f"{bar.value:,.0f}" if bar.value >= 100 else f"{bar.value:.3g}"
    parts.append(f'<text class="small" x="{middle:.1f}" y="{highest - 4:.1f}" text-anchor="middle">{label}</text>')
    return parts
