"""Whether this process makes progress, and what a failure of that has to do with the dependencies (HL-1.1, HL-5.4).

Pure. Who asks a watchdog hands in what it says; the state is the asker's to keep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from idkmesh.changes import Change, named
from idkmesh.health.changes import LIVENESS_FAILED, LIVENESS_RECOVERED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """``overdue`` names the silent components, and is empty while the process is alive.

    ``dependency_only`` is of the failure that goes on: a critical dependency was down, and something in this process
    still beat, so that a restart would mend nothing. Totals count since the start.
    """

    overdue: tuple[str, ...] = ()
    dependency_only: bool = False
    failures_total: int = 0

    @property
    def alive(self) -> bool:
        """Whether no component is overdue. No dependency has a part in it."""
        return not self.overdue


def watch(
    before: Liveness,
    overdue: Sequence[str],
    silences: Mapping[str, float],
    *,
    critical_down: bool,
    interval: float,
) -> tuple[Liveness, Change | None]:
    """Take in what a watchdog says now, and return what that makes of liveness, with the change if there is one.

    ``critical_down`` is whether a critical dependency was failing by the last word on it: one that has only gone stale
    may be the stall's own doing. ``interval`` is how long a component that is well may be silent between two beats, in
    seconds: this process has beaten within it if any component has.
    """
    names = tuple(overdue)
    if bool(names) is bool(before.overdue):
        return replace(before, overdue=names), None
    if not names:
        facts = {**named("components", before.overdue), "dependency_only": before.dependency_only}
        return replace(before, overdue=(), dependency_only=False), Change(LIVENESS_RECOVERED, None, facts)
    only = critical_down and min(silences.values(), default=interval) < interval
    after = Liveness(overdue=names, dependency_only=only, failures_total=before.failures_total + 1)
    return after, Change(LIVENESS_FAILED, None, {**named("components", names), "dependency_only": only})
