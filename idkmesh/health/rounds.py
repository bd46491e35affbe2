"""Which probes run when, and which runs still count: everything that the runner decides about runs (HL-4).

Laws of this module:

1. It reads no clock, starts no thread and calls no probe: each method is given the moment. One thread owns it.
2. A run is settled once: by its result, or, when it has overstayed, without it. What comes later is dropped.
3. While a run is out, its probe is not due: the next run is planned when it is settled. So there are never two at once.
4. A probe that has overstayed is not run until it has come back. A run that is due meanwhile could not be made, and
   counts as that: the dependency is failing first, then unknown (HL-4.2, HL-4.11).
5. Noncritical dependencies never take all places, and critical ones go first: however many of the former hang, what
   readiness depends on is asked in time (HL-1.2, HL-4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from idkmesh.health.ledger import Ledger
from idkmesh.health.model import Outcome, Refresh, Result
from idkmesh.health.schedule import Agenda, first_due, next_due
from idkmesh.health.snapshot import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.changes import Change
    from idkmesh.health.model import Dependency, Probe, ProbeMatrix
    from idkmesh.health.snapshot import HealthSnapshot, Moment, Record

OVERSTAY_SECONDS: Final = 1.0
"""How long after its timeout a run may still come back before it is given up."""

TIMEOUT: Final = "timeout"
CONCURRENCY: Final = 16
"""Probes that run at once (HL-4.4)."""

NONCRITICAL_SHARE: Final = 3 / 4
"""How much of the places noncritical dependencies may take at once (HL-4.4)."""

NOT_BACK: Final = "the last run has not come back"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of one probe, known by its identity. ``due`` and ``began`` are in monotonic seconds."""

    dependency: Dependency
    probe: Probe
    due: float
    began: float

    @property
    def name(self) -> str:
        """The dependency's name."""
        return self.dependency.name

    @property
    def timeout(self) -> float:
        """The time it has, in seconds."""
        return self.dependency.timeout_ms / 1000

    @property
    def given_up_at(self) -> float:
        """When it has overstayed, in monotonic seconds."""
        return self.began + self.timeout + OVERSTAY_SECONDS


class Rounds:
    """Decides which runs begin, and what of them counts.

    ``probes`` has a probe for each name of the matrix, ``random`` gives numbers from 0 up to 1. At most ``concurrency``
    runs are out at once, and three quarters of that (one at least) of noncritical dependencies; those that have
    overstayed are not counted among them (HL-4.4).
    """

    def __init__(
        self,
        matrix: ProbeMatrix,
        probes: Mapping[str, Probe],
        moment: Moment,
        *,
        concurrency: int,
        random: Callable[[], float],
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"rounds: a concurrency of {concurrency} is refused, at 0 no probe would ever run")
        self._concurrency = concurrency
        self._noncritical_places = noncritical_places(concurrency)
        self._random = random
        self._agendas = {True: Agenda(), False: Agenda()}
        """By whether the dependencies are critical; those come first."""
        self._out: dict[Run, None] = {}
        self._stuck: dict[Run, None] = {}
        self._ledger = Ledger(moment)
        self._ledger.begin(matrix, probes, moment)
        self._plan_first(tuple(self._ledger), moment.now)

    # --- what comes in --------------------------------------------------------------------------------------------

    def reload(self, matrix: ProbeMatrix, probes: Mapping[str, Probe], moment: Moment) -> None:
        """Take another matrix (HL-3.5). Runs of declarations that are gone come back to nobody."""
        before = {name: self._ledger[name] for name in self._ledger}
        started = self.snapshot.started
        taken = self._ledger.reload(matrix, probes, moment)
        begun_anew = frozenset((*taken.fresh, *taken.refigured))
        for name in before:
            if name in begun_anew or self._ledger.get(name) is None:
                for agenda in self._agendas.values():  # it may have been of the other kind
                    agenda.remove(name)
        self._plan_first(taken.fresh, moment.now)
        for name in taken.refigured:
            self._plan_again(name, before[name].dependency.interval_ms, moment.now)
        for name in taken.unsuspected if started else ():
            record = self._ledger[name]
            if record.due is not None:
                self._ledger.wait_for(name, record.due + record.dependency.timeout_ms / 1000 + OVERSTAY_SECONDS)

    def finished(self, run: Run, result: Result, moment: Moment) -> bool:
        """Take the result of a run. Say whether it was awaited: one that was given up has no word any more."""
        awaited = run in self._out
        self._out.pop(run, None)
        self._stuck.pop(run, None)
        record = self._record_of(run)
        if record is None:
            return awaited
        self._ledger.update(run.name, running=False, overstays=False)
        if awaited:
            self._ledger.hear(run.name, _in_time(result, run.timeout), moment)
            self._plan(record, run.due, run.began)
        return awaited

    def ask(self, name: str, moment: Moment) -> None:
        """Run a probe because somebody asks, if it is one for that and it is time (HL-4.6)."""
        if self._ledger.get(name) is not None and moment.now >= self._ledger.ask_after(name):
            self._put(name, moment.now)

    def ask_all(self, moment: Moment) -> None:
        """Do so for each dependency."""
        for name in self._ledger:
            self.ask(name, moment)

    # --- what goes out --------------------------------------------------------------------------------------------

    def tick(self, moment: Moment) -> list[Run]:
        """Let go of verdicts that have expired, and of runs that have overstayed, which are returned."""
        self._ledger.expire(moment)
        overstayed = [run for run in self._out if moment.now >= run.given_up_at]
        for run in overstayed:
            del self._out[run]
            self._stuck[run] = None
            self._ledger.gave_up()
            record = self._record_of(run)
            if record is not None:
                self._ledger.update(run.name, running=False, overstays=True)
                result = Result(run.began, moment.now - run.began, Outcome.FAILED, TIMEOUT)
                self._ledger.hear(run.name, result, moment)
                self._plan(record, moment.now, moment.now)
        return overstayed

    def start_due(self, moment: Moment) -> list[Run]:
        """Return the runs that begin now: those that are due for longest, as many as there are places."""
        runs: list[Run] = []
        for critical, agenda in self._agendas.items():
            while self._has_place(critical=critical) and (entry := agenda.take(moment.now)) is not None:
                run = self._begun(*entry, moment)
                if run is not None:
                    runs.append(run)
        return runs

    def publish(self, moment: Moment) -> list[Change]:
        """Show what is known now, and return what has changed since the last time, each change once."""
        return self._ledger.publish(moment, stuck=len(self._stuck))

    def close(self) -> None:
        """End what runs have started that are out, also those of declarations that are gone. None begins after that."""
        for run in (*self._out, *self._stuck):
            run.probe.close()

    @property
    def snapshot(self) -> HealthSnapshot:
        """What was shown last."""
        return self._ledger.snapshot

    def next_instant(self) -> float:
        """Return when there is something to do although nothing comes in, in monotonic seconds."""
        instants = [self._ledger.next_instant, *(run.given_up_at for run in self._out)]
        for critical, agenda in self._agendas.items():
            if self._has_place(critical=critical) and (due := agenda.next_due()) is not None:
                instants.append(due)
        return min(instants)

    # --- places and plans ---------------------------------------------------------------------------------------------

    def _has_place(self, *, critical: bool) -> bool:
        """Say whether a run of that kind may begin."""
        if len(self._out) >= self._concurrency:
            return False
        return critical or sum(not run.dependency.critical for run in self._out) < self._noncritical_places

    def _begun(self, due: float, name: str, moment: Moment) -> Run | None:
        """Begin the run that is due, and return it; None where the last one has not come back."""
        record = self._ledger[name]
        self._ledger.update(name, tried=moment.now, due=None, running=not record.overstays)
        if record.overstays:
            self._ledger.hear(name, Result(moment.now, 0.0, Outcome.COULD_NOT_RUN, NOT_BACK), moment)
            self._plan(record, due, moment.now)
            return None
        run = Run(record.dependency, record.probe, due, moment.now)
        self._out[run] = None
        return run

    def _record_of(self, run: Run) -> Record | None:
        """Return the record that a run is of, None where another probe has taken its place."""
        record = self._ledger.get(run.name)
        return record if record is not None and record.probe is run.probe else None

    def _plan_first(self, names: tuple[str, ...], now: float) -> None:
        for place, name in enumerate(names):
            interval = self._ledger[name].dependency.interval_ms / 1000
            self._put(name, first_due(now, place, len(names), interval))

    def _plan(self, record: Record, due: float, began: float) -> None:
        """Plan the run after one that was due and began then; one that waits to be asked for has none."""
        dependency = record.dependency
        if dependency.refresh is Refresh.SCHEDULE:
            self._put(dependency.name, next_due(due, began, dependency.interval_ms / 1000, self._random))

    def _plan_again(self, name: str, interval_before: int, now: float) -> None:
        """Plan the next run by other figures (HL-3.5); of one that is out when it is settled."""
        record, due = self._ledger[name], self._ledger[name].due
        dependency = record.dependency
        if record.running:
            return
        if record.tried != -NEVER:
            if dependency.refresh is Refresh.REQUEST:
                due = None
            elif due is None or dependency.interval_ms != interval_before:
                due = max(now, next_due(record.tried, record.tried, dependency.interval_ms / 1000, self._random))
        if due is None:
            self._ledger.update(name, due=None)
        else:
            self._put(name, due)

    def _put(self, name: str, due: float) -> None:
        self._agendas[self._ledger[name].dependency.critical].put(name, due)
        self._ledger.update(name, due=due)


def noncritical_places(concurrency: int) -> int:
    """Return how many of the places noncritical dependencies may take at once."""
    return max(1, int(concurrency * NONCRITICAL_SHARE))


def _in_time(result: Result, timeout: float) -> Result:
    """Return the result, as a failure where it took longer than its timeout, whatever the probe says of it."""
    if result.outcome is not Outcome.OK or result.latency <= timeout:
        return result
    return replace(result, outcome=Outcome.FAILED, detail=TIMEOUT)
