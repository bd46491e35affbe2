"""Order statistics over small samples: no interpolation, so every figure shown is one that was measured."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence


class Latency(TypedDict):
    """A distribution of durations, in milliseconds."""

    count: int
    p50: float
    p99: float
    max: float


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of values in ascending order, NaN when there is none."""
    if not ordered:
        return math.nan
    rank = math.ceil(percent / 100 * len(ordered))
    return ordered[max(rank, 1) - 1]


def latency(seconds: Sequence[float]) -> Latency:
    """Summarise durations given in seconds."""
    ordered = sorted(seconds)
    return {
        "count": len(ordered),
        "p50": percentile(ordered, 50) * 1000,
        "p99": percentile(ordered, 99) * 1000,
        "max": percentile(ordered, 100) * 1000,
    }


def middle(values: Sequence[float]) -> float:
    """Return the median, NaN when there is no value."""
    return median(values) if values else math.nan


def ratio(values: Sequence[float], base: Sequence[float]) -> float:
    """Return the median over rounds of value / base, each pair measured next to each other; NaN without a pair."""
    return middle([value / other for value, other in zip(values, base, strict=False) if other > 0])
