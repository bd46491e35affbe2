"""What is known of every dependency of a matrix, and what changes of it (HL-3.5, HL-4.7, HL-5).

Laws of this module:

1. It reads no clock: each method is given the moment. One thread owns it.
2. Others read :attr:`Ledger.snapshot`, which nobody changes: :meth:`Ledger.publish` puts another in its place.
3. Readiness is judged when a verdict has changed, when a probe has run for the first time, and when a verdict expires;
   never because somebody asks, and not for a result that changes nothing.
4. Each change is told once, and after the snapshot that shows it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh.changes import Change, named
from idkmesh.health.changes import (
    DEPENDENCY_CHANGED,
    DEPENDENCY_NOT_RUN,
    MATRIX_RELOADED,
    READINESS_CHANGED,
    STARTUP_SUCCEEDED,
)
from idkmesh.health.history import Entry
from idkmesh.health.model import Outcome, Refresh, Verdict
from idkmesh.health.snapshot import (
    NEVER,
    HealthSnapshot,
    Moment,
    Record,
    ask_after,
    earliest_expiry,
    is_critical_down,
    judged,
)
from idkmesh.health.state import DependencyState, VerdictChange, ended, expire, refigured, step, verdict_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from idkmesh.health.model import Dependency, Probe, ProbeMatrix, Result
    from idkmesh.health.readiness import Readiness

OTHER_PROBE: Final = "not run: its probe is another"
"""The word on a verdict that another matrix has taken away."""


class Taken(NamedTuple):
    """What another matrix came to, by names in its order (HL-3.5).

    ``fresh`` begin anew: they are new, or have another probe. Of these nothing speaks against ``unsuspected`` ones.
    ``refigured`` have their probe and other figures.
    """

    fresh: tuple[str, ...]
    unsuspected: frozenset[str]
    refigured: tuple[str, ...]


class Ledger:
    """Begins empty, and starting: :meth:`take` gives it its first matrix."""

    def __init__(self, moment: Moment) -> None:
        self._records: dict[str, Record] = {}
        self._on_request: tuple[str, ...] = ()
        self._changes: list[Change] = []
        self._period = 0.0
        """Between two questions for readiness, in seconds, as the matrix declares it."""
        self._began = moment.now
        self._unjudged = self._unshown = True
        self._valid_until = NEVER
        self._stuck_total = 0
        self._hanging: frozenset[str] = frozenset()
        """Dependencies with a call that has not come back."""
        self.snapshot = self._initial()

    def __getitem__(self, name: str) -> Record:
        return self._records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._records))

    def get(self, name: str) -> Record | None:
        """Return what is known of a dependency, None where the matrix has none of that name."""
        return self._records.get(name)

    @property
    def next_instant(self) -> float:
        """When a verdict may expire, in monotonic seconds: never later than the first of them does."""
        return self._valid_until

    def ask_after(self, name: str) -> float:
        """Return when asking for a dependency would start a run, in monotonic seconds (HL-4.6)."""
        return ask_after(self._records[name], self._period)

    # --- what is known --------------------------------------------------------------------------------------------

    def begin(self, matrix: ProbeMatrix, probes: Mapping[str, Probe], moment: Moment) -> None:
        """Take the first matrix. Until the first :meth:`publish` it is starting, whatever the matrix says."""
        self._take(matrix, probes, moment)
        self.snapshot = self._initial()

    def reload(self, matrix: ProbeMatrix, probes: Mapping[str, Probe], moment: Moment) -> Taken:
        """Take another matrix. A dependency with the same probe keeps that, and all that is known of it (HL-3.5)."""
        self.expire(moment)  # by the figures that held until now
        before = self._records
        taken = self._take(matrix, probes, moment)
        after = self._records
        changed = len(before.keys() & set(taken.fresh)) + len(taken.refigured)
        facts = {
            "dependencies": len(after),
            "kept": len(before.keys() & after.keys()) - changed,
            "changed": changed,
            "added": len(after.keys() - before.keys()),
            "removed": len(before.keys() - after.keys()),
        }
        self._changes.append(Change(MATRIX_RELOADED, None, facts))
        for name in taken.fresh:
            if name in before and (lost := before[name].state.verdict) is not Verdict.UNKNOWN:
                self._note(after[name].dependency, VerdictChange(lost, Verdict.UNKNOWN, OTHER_PROBE), moment)
        return taken

    def wait_for(self, name: str, until: float) -> None:
        """Have a dependency no say in readiness before its first result is there, ``until`` an instant (HL-3.5)."""
        self.update(name, awaited_until=until)
        self._valid_until = min(self._valid_until, until)
        self._unjudged = True

    def update(self, name: str, **facts: Any) -> None:  # noqa: ANN401  fields of a record, each of its own type
        """Set what is known of a dependency's runs; its state is :meth:`hear`'s."""
        self._records[name] = replace(self._records[name], **facts)
        self._unshown = True

    def hear(self, name: str, result: Result, moment: Moment) -> None:
        """Take a result in: step the dependency, and keep the result."""
        record = self._records[name]
        # What expired before this result was known is told first, although nobody may have looked since.
        known, expired = expire(record.state, ended(result))
        state, change = step(known, result, record.dependency)
        if state is known:
            return  # older than what is known
        began = moment.utc - timedelta(seconds=max(0.0, moment.now - result.began))
        history = record.history.with_entry(Entry(result, began))
        self._unjudged = self._unjudged or record.state.last is None
        if state.verdict is not Verdict.UNKNOWN:
            self._valid_until = min(self._valid_until, state.expires)
        if result.hanging and result.outcome is Outcome.FAILED:
            self.gave_up()
        self._hanging = self._hanging | {name} if result.hanging else self._hanging - {name}
        self.update(name, state=state, history=history, hanging=result.hanging)
        self._note(record.dependency, expired, moment)
        self._note(record.dependency, change, moment)
        could_before = known.last is None or known.last.outcome is not Outcome.COULD_NOT_RUN
        if change is None and could_before and result.outcome is Outcome.COULD_NOT_RUN:
            # Its verdict is unknown as before, which is no change; that it cannot be asked at all is to be heard of.
            facts = {"detail": result.detail, "critical": record.dependency.critical}
            self._changes.append(Change(DEPENDENCY_NOT_RUN, name, facts))

    def gave_up(self) -> None:
        """Count a run that has overstayed, or a call of one (HL-4.11)."""
        self._stuck_total += 1
        self._unshown = True

    def expire(self, moment: Moment) -> None:
        """Let go of the verdicts that have expired, and wait no longer for first results that are late (HL-4.5)."""
        if moment.now < self._valid_until:
            return
        for name, record in tuple(self._records.items()):
            state, change = expire(record.state, moment.now)
            if change is not None:
                self.update(name, state=state)
                self._note(record.dependency, change, moment)
            self._unjudged = self._unjudged or (state.last is None and record.awaited_until <= moment.now)
        self._valid_until = earliest_expiry(self._records.values(), moment.now)
        self._unshown = True

    # --- what is told ---------------------------------------------------------------------------------------------

    def publish(self, moment: Moment, *, stuck: int) -> list[Change]:
        """Put another snapshot in place, if there is anything new, and return what has changed since the last one.

        ``stuck`` is how many probes have not come back; calls are added here.
        """
        before = self.snapshot
        stuck += len(self._hanging)
        if self._unshown or self._unjudged or stuck != before.stuck:
            readiness, started, transitions = before.readiness, before.started, before.transitions_total
            if self._unjudged:
                readiness = judged(self._records.values(), moment.now, started=started)
                started = readiness.status != "starting"
                transitions += {before.readiness.status, readiness.status} == {"ready", "not_ready"}
                self._note_readiness(before, readiness, moment)
            self.snapshot = replace(
                before,
                records=MappingProxyType(self._records.copy()),
                started=started,
                readiness=readiness,
                valid_until=self._valid_until,
                ask_after=min(map(self.ask_after, self._on_request), default=NEVER),
                critical_down=is_critical_down(self._records.values()) if self._unjudged else before.critical_down,
                stuck=stuck,
                stuck_total=self._stuck_total,
                transitions_total=transitions,
            )
            self._unshown = self._unjudged = False
        changes, self._changes = self._changes, []
        return changes

    def _take(self, matrix: ProbeMatrix, probes: Mapping[str, Probe], moment: Moment) -> Taken:
        before, self._records = self._records, {}
        self._period = matrix.orchestrator.readiness.period_ms / 1000
        fresh: list[str] = []
        unsuspected: set[str] = set()
        refigured_names: list[str] = []
        for dependency in matrix.dependencies:
            name = dependency.name
            record = before.get(name)
            if record is None or record.dependency.probe != dependency.probe:
                fresh.append(name)
                if record is None or moment.now < record.awaited_until or _is_ok(record, moment.now):
                    unsuspected.add(name)
                state = DependencyState(since=moment.now)
                record = Record(dependency=dependency, probe=probes[name], state=state, since=moment.utc)
            elif record.dependency != dependency:
                refigured_names.append(name)
                state = refigured(record.state, dependency, moment.now)
                record = replace(record, dependency=dependency, state=state)
            self._records[name] = record
        self._on_request = tuple(each.name for each in matrix.dependencies if each.refresh is Refresh.REQUEST)
        self._hanging = self._hanging.intersection(self._records).difference(fresh)
        self._valid_until = earliest_expiry(self._records.values(), moment.now)
        self._unjudged = True
        return Taken(tuple(fresh), frozenset(unsuspected), tuple(refigured_names))

    def _initial(self) -> HealthSnapshot:
        readiness = judged(self._records.values(), self._began, started=False)
        return HealthSnapshot(
            records=MappingProxyType(self._records.copy()),
            started=False,
            readiness=replace(readiness, status="starting"),
            valid_until=NEVER,
        )

    def _note(self, dependency: Dependency, change: VerdictChange | None, moment: Moment) -> None:
        if change is None:
            return
        self.update(dependency.name, since=moment.utc)
        self._unjudged = True
        facts = {
            "from": change.before.value,
            "to": change.after.value,
            "detail": change.detail,
            "critical": dependency.critical,
        }
        self._changes.append(Change(DEPENDENCY_CHANGED, dependency.name, facts))

    def _note_readiness(self, before: HealthSnapshot, readiness: Readiness, moment: Moment) -> None:
        if before.readiness.status == readiness.status:
            return
        if not before.started:
            self._changes.append(Change(STARTUP_SUCCEEDED, None, {"seconds": round(moment.now - self._began, 3)}))
        facts = {
            "from": before.readiness.status,
            "to": readiness.status,
            **named("failing", readiness.failing),
            **named("warnings", readiness.warnings),
        }
        self._changes.append(Change(READINESS_CHANGED, None, facts))


def _is_ok(record: Record, now: float) -> bool:
    return verdict_at(record.state, now) is Verdict.OK
