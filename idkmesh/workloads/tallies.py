"""What is counted since the supervisor began (AR-7.4). Pure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.workloads.model import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from idkmesh.workloads.survey import Observation

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0)
"""Upper bounds of the histograms, in seconds; one more bucket has no bound. 15 s is the longest time limit."""


class CheckName(NamedTuple):
    """A check of a module: ``port`` or ``command``."""

    module: str
    check: str


@dataclass(frozen=True, slots=True)
class Timing:
    """A histogram. ``buckets`` are counts for each of :data:`BUCKETS` and beyond, not summed up."""

    buckets: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)
    seconds: float = 0.0

    def with_one(self, seconds: float) -> Timing:
        """Return it with one duration more."""
        place = bisect_left(BUCKETS, seconds)
        counts = (count + (number == place) for number, count in enumerate(self.buckets))
        return Timing(tuple(counts), self.seconds + seconds)


@dataclass(frozen=True, slots=True)
class Tallies:
    """Checks by what came of them, how long those took that said something, and how long passes took."""

    outcomes: Mapping[tuple[CheckName, Word], int] = field(default_factory=lambda: MappingProxyType({}))
    checks: Mapping[CheckName, Timing] = field(default_factory=lambda: MappingProxyType({}))
    passes: Timing = Timing()

    def with_observations(self, observations: Iterable[Observation]) -> Tallies:
        """Return them with the checks of one pass more."""
        outcomes, checks = dict(self.outcomes), dict(self.checks)
        for seen in observations:
            for check, probe in (("port", seen.port), ("command", seen.command)):
                if probe is None:
                    continue
                name = CheckName(seen.key.module, check)
                outcomes[name, probe.word] = outcomes.get((name, probe.word), 0) + 1
                if probe.word is not Word.NOTHING:
                    checks[name] = checks.get(name, Timing()).with_one(probe.seconds)
        return replace(self, outcomes=MappingProxyType(outcomes), checks=MappingProxyType(checks))

    def with_pass(self, seconds: float) -> Tallies:
        """Return them with the duration of one pass more."""
        return replace(self, passes=self.passes.with_one(seconds))

    def of(self, modules: Iterable[str]) -> Tallies:
        """Return them without those of other modules."""
        names = set(modules)
        outcomes = {place: count for place, count in self.outcomes.items() if place[0].module in names}
        checks = {name: timing for name, timing in self.checks.items() if name.module in names}
        return replace(self, outcomes=MappingProxyType(outcomes), checks=MappingProxyType(checks))
