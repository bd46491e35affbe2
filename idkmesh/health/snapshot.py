"""What everybody may read of the runner at any time: frozen, replaced as a whole (HL-1.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from idkmesh.health.history import History
from idkmesh.health.model import Refresh, Verdict
from idkmesh.health.readiness import Known, Readiness, judge
from idkmesh.health.state import DependencyState, verdict_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from idkmesh.health.model import Dependency, Probe

NEVER = float("inf")


class Moment(NamedTuple):
    """Now, by both clocks: monotonic seconds, which decide, and the wall clock in UTC, which only labels."""

    now: float
    utc: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that is known of one dependency.

    ``since`` labels when the verdict became what it is. ``tried`` is when its probe was last to be started, ``due``
    when it is to be next, None where it waits for something else: to come back, or to be asked for. Until
    ``awaited_until`` it may be without a result and have no say in readiness (HL-3.5). ``overstays`` says that the
    probe itself has not come back in its time, ``hanging`` that a call of its last run had not (HL-4.11).
    """

    dependency: Dependency
    probe: Probe
    state: DependencyState
    since: datetime
    history: History = field(default_factory=History)
    tried: float = -NEVER
    due: float | None = None
    awaited_until: float = -NEVER
    running: bool = False
    overstays: bool = False
    hanging: bool = False

    @property
    def stuck(self) -> bool:
        """Whether something of it has not come back."""
        return self.overstays or self.hanging

    def known_at(self, now: float) -> Known:
        """Return what readiness needs of it."""
        dependency = self.dependency
        ran = self.state.last is not None
        awaited = not ran and now < self.awaited_until
        return Known(dependency.name, dependency.critical, verdict_at(self.state, now), ran, awaited)

    def holds_until(self, now: float) -> float:
        """Return when what readiness needs of it changes though nothing is heard, after ``now``."""
        if self.state.last is None:
            until = self.awaited_until
        else:
            until = NEVER if self.state.verdict is Verdict.UNKNOWN else self.state.expires
        return until if until > now else NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSnapshot:
    """The runner at one instant. ``records`` are by name, in the matrix's order.

    ``readiness`` holds until ``valid_until`` (monotonic seconds), the earliest instant at which a verdict may expire;
    :meth:`readiness_at` says what holds then. ``ask_after`` is the earliest instant at which asking would start a run
    (HL-4.6). ``critical_down`` says that a critical dependency was last known to be failing; stale is not that.
    ``stuck`` counts the probes and calls that have not come back now (probes also of declarations that are gone), and
    ``stuck_total`` those that ever did not. ``transitions_total`` counts changes between ready and not ready.
    """

    records: Mapping[str, Record]
    started: bool
    readiness: Readiness
    valid_until: float
    ask_after: float = NEVER
    critical_down: bool = False
    stuck: int = 0
    stuck_total: int = 0
    transitions_total: int = 0

    def readiness_at(self, now: float) -> Readiness:
        """Return the readiness at ``now``, though nobody may have looked at the verdicts since. O(1) while it holds."""
        return self.readiness if now < self.valid_until else judged(self.records.values(), now, started=self.started)

    def next_expiry(self, now: float) -> float:
        """Return until when what :meth:`readiness_at` says of ``now`` holds, if nothing new is heard."""
        return earliest_expiry(self.records.values(), now)


def judged(records: Iterable[Record], now: float, *, started: bool) -> Readiness:
    """Return the readiness that the records come to at ``now``."""
    return judge((record.known_at(now) for record in records), started=started)


def is_critical_down(records: Iterable[Record]) -> bool:
    """Say whether a critical dependency is failing by the last word on it, however old."""
    return any(record.dependency.critical and record.state.verdict is Verdict.FAILING for record in records)


def earliest_expiry(records: Iterable[Record], now: float) -> float:
    """Return when the first of what is known or awaited at ``now`` ends, in monotonic seconds."""
    return min((record.holds_until(now) for record in records), default=NEVER)


def ask_after(record: Record, period: float) -> float:
    """Return when asking for a dependency would start a run, in monotonic seconds (HL-4.6).

    That is when its result would not live until the next question, which comes a ``period`` (seconds) after this one,
    has been heard of; an interval after the last run at the soonest, and never for one that is scheduled, or is on its
    way.
    """
    dependency = record.dependency
    if dependency.refresh is not Refresh.REQUEST or record.running or record.due is not None:
        return NEVER
    needed = period + dependency.timeout_ms / 1000
    return max(record.state.expires - needed, record.tried + dependency.interval_ms / 1000)
