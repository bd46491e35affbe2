"""Durations counted in buckets, as Prometheus wants them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0)
"""Upper bounds in seconds; one more bucket has no bound. A check has 15 s at most, an invocation 30 s."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A histogram. ``buckets`` are counts for each of :data:`BUCKETS` and beyond, not summed up."""

    buckets: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)
    seconds: float = 0.0

    @property
    def count(self) -> int:
        """How many durations there are."""
        return sum(self.buckets)

    def with_one(self, seconds: float) -> Timing:
        """Return it with one duration more."""
        place = bisect_left(BUCKETS, seconds)
        counts = (count + (number == place) for number, count in enumerate(self.buckets))
        return Timing(tuple(counts), self.seconds + seconds)


def summed(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return buckets as the format wants them: each with all below it. ``counts`` has one more than ``bounds``."""
    return list(zip((*map(str, bounds), "+Inf"), accumulate(counts), strict=True))
