"""The arithmetic of a noisy machine: medians of several turns, their spread, and ratios inside one turn. Pure."""

import math
import statistics
from collections.abc import Sequence
from typing import TypedDict, TypeVar

T = TypeVar("T")


class Spread(TypedDict):
    """A figure as it is reported: the middle one of its turns, and the least and the greatest beside it."""

    median: float
    low: float
    high: float
    turns: list[float]


def spread(turns: Sequence[float]) -> Spread:
    rounded = [significant(turn) for turn in turns]
    return {
        "median": significant(statistics.median(turns)),
        "low": min(rounded),
        "high": max(rounded),
        "turns": rounded,
    }


def take_turns(sides: Sequence[T], turn: int) -> Sequence[T]:
    """Now this side first, now the other: a machine that slows down does so for both."""
    return sides if turn % 2 == 0 else sides[::-1]


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Each turn's ratio, taken against its own neighbour: what slowed the machine then slowed both."""
    return spread([one / other for one, other in zip(ours, theirs, strict=True)])


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many per cent of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(percent / 100 * len(ordered))) - 1]


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """In milliseconds, as people speak of them."""
    return {f"p{percent}_ms": significant(1000 * percentile(seconds, percent)) for percent in (50, 95, 99)}


def significant(value: float, digits: int = 4) -> float:
    """What is beyond four digits is noise."""
    return float(f"{value:.{digits}g}")
