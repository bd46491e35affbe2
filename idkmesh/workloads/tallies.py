"""What is counted since the supervisor began (AR-7.4). Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from idkmesh.histogram import Timing
from idkmesh.workloads.model import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from idkmesh.workloads.survey import Observation


class CheckName(NamedTuple):
    """A check of a module: ``port`` or ``command``."""

    module: str
    check: str


@dataclass(frozen=True, slots=True)
class Tallies:
    """Checks by what came of them, how long those took that said something, and how long passes took."""

    outcomes: Mapping[tuple[CheckName, Word], int] = field(default_factory=lambda: MappingProxyType({}))
    checks: Mapping[CheckName, Timing] = field(default_factory=lambda: MappingProxyType({}))
    passes: Timing = field(default_factory=Timing)

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
