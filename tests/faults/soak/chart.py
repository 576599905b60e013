"""The soak's picture: lags, memory and backlog over time, one below the other."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.faults.soak.samples import Sample

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _GAP = 900, 170, 70, 150, 40
_COLOURS = ("#1f5f8b", "#b7791f", "#2f7d4f", "#8b3a62", "#6b6b6b", "#4a4a9c")


class Panel(NamedTuple):
    title: str
    lines: dict[str, list[float]]


def draw(samples: Sequence[Sample], *, load_seconds: float) -> str:
    panels = _panels(samples)
    height = len(panels) * (_HEIGHT + _GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    times = [sample.at for sample in samples]
    for place, panel in enumerate(panels):
        parts += _panel(panel, times, top=30 + place * (_HEIGHT + _GAP), load_seconds=load_seconds)
    return "\n".join([*parts, "</svg>", ""])


def _panels(samples: Sequence[Sample]) -> list[Panel]:
    def lag(share: float) -> list[float]:
        return [each.lags[min(len(each.lags) - 1, int(len(each.lags) * share))] if each.lags else 0 for each in samples]

    names = ("web", "deliveries1", "deliveries2", "background", "postgres")
    memory = {name: [each.memory.get(name, 0) / 1e6 for each in samples] for name in names}
    return [
        Panel("from emit to arrival, receivers that are well (seconds)", {"median": lag(0.5), "99 %": lag(0.99)}),
        Panel("memory (MB)", {**memory, "Redis": [each.redis_bytes / 1e6 for each in samples]}),
        Panel(
            "owed, nearly all to receivers that fail or hang",
            {"owed": [each.pending + each.in_flight for each in samples]},
        ),
    ]


def _panel(panel: Panel, times: Sequence[float], *, top: int, load_seconds: float) -> list[str]:
    most = max([1e-9, *(value for values in panel.lines.values() for value in values)]) * 1.05
    across = (_WIDTH - _LEFT - _RIGHT) / max(times[-1], 1)
    bottom = top + _HEIGHT
    end = _LEFT + load_seconds * across
    parts = [
        f'<text x="{_LEFT}" y="{top - 8}" fill="#333">{panel.title}</text>',
        f'<path d="M{_LEFT} {top}V{bottom}H{_WIDTH - _RIGHT}" fill="none" stroke="#999"/>',
        f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end" fill="#666">{most:.3g}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end" fill="#666">0</text>',
        f'<line x1="{end:.0f}" y1="{top}" x2="{end:.0f}" y2="{bottom}" stroke="#999" stroke-dasharray="3 3"/>',
        f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 15}" text-anchor="end" fill="#666">{times[-1] / 60:.0f} min</text>',
    ]
    for place, (name, values) in enumerate(panel.lines.items()):
        points = " ".join(
            f"{_LEFT + at * across:.1f},{bottom - value / most * _HEIGHT:.1f}"
            for at, value in zip(times, values, strict=True)
        )
        colour = _COLOURS[place % len(_COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{top + 14 + place * 16}" fill="{colour}">{name}</text>')
    return parts
