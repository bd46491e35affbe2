"""Runs the probes of a matrix, and keeps what they say for everybody to read (HL-1.5, HL-4).

Laws of this module:

1. One thread, the scheduler, owns every record and decides (:mod:`idkmesh.health.rounds`). All others put a message
   into its inbox, or read the snapshot, which is replaced as a whole: nobody waits for anybody.
2. It beats at the top of each pass and never waits longer than half of what its beat allows. It calls no probe.
3. When it stalls or ends, verdicts expire by themselves, since readers hold them against the clock, and its beat tells.
4. A fault in a pass ends that pass, is told once, and the next pass follows: the thread lives on.
5. Time is monotonic; the wall clock labels.
"""

from __future__ import annotations

import logging
import queue
import random as chance
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.health.crew import Crew
from idkmesh.health.model import Outcome, Result
from idkmesh.health.rounds import CONCURRENCY, Rounds
from idkmesh.health.snapshot import Moment
from idkmesh.service_runtime import log_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.changes import Change
    from idkmesh.clock import Clock
    from idkmesh.health.model import Probe, ProbeMatrix, ProbeSpec
    from idkmesh.health.readiness import Readiness
    from idkmesh.health.rounds import Run
    from idkmesh.health.snapshot import HealthSnapshot
    from idkmesh.health.watchdog import Beat

LONGEST_PAUSE_SECONDS: Final = 0.5
"""The longest time between two beats of the scheduler; less where its budget is small."""


@dataclass(frozen=True, slots=True)
class _Done:
    run: Run
    result: Result
    raised: BaseException | None


@dataclass(frozen=True, slots=True)
class _Ask:
    name: str | None


@dataclass(frozen=True, slots=True)
class _Reload:
    matrix: ProbeMatrix
    probes: Mapping[str, Probe]


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Message = _Done | _Ask | _Reload | _Stop


class HealthRunner:
    """Probes the dependencies of a matrix by their schedule.

    ``probe_for`` makes the probe of a declaration; what it raises is the constructor's and :meth:`reload`'s to raise.
    ``beat`` is this runner's registration with a watchdog, which it closes when it ends. ``changed`` is called by the
    scheduler, in order, after the snapshot shows the change, and must not wait. ``log`` takes a line and a level of
    :mod:`logging`, and must not wait either. ``random`` gives numbers from 0 up to 1.
    """

    def __init__(  # noqa: PLR0913  what it runs, and the five that it speaks to
        self,
        matrix: ProbeMatrix,
        probe_for: Callable[[ProbeSpec], Probe],
        *,
        clock: Clock,
        beat: Beat,
        changed: Callable[[Change], None],
        concurrency: int = CONCURRENCY,
        random: Callable[[], float] = chance.random,
        log: Callable[[str, int], None] = log_line,
    ) -> None:
        self._probe_for = probe_for
        self._clock = clock
        self._beat = beat
        self._changed = changed
        self._log = log
        self._inbox: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._asked: set[str | None] = set()
        self._crew = Crew(concurrency, clock, lambda *done: self._inbox.put(_Done(*done)))
        self._rounds = Rounds(matrix, self._probes(matrix), self._moment(), concurrency=concurrency, random=random)
        self._thread: threading.Thread | None = None
        self._fault: str | None = None
        self._stopped = False
        self._raising: set[str] = set()
        self._late: tuple[HealthSnapshot, float, Readiness] | None = None

    # --- for any thread -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to probe."""
        if self._thread is not None:
            raise RuntimeError("a health runner is started once")
        self._thread = threading.Thread(target=self._run, name="health-scheduler", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Begin no more runs, end what can be ended, and wait for every thread, at most ``timeout`` seconds.

        Say whether all have ended. A command is killed at once: nobody would be left to kill it at its deadline. A
        probe that does not come back cannot be stopped; its thread ends when it does, or with the process.
        """
        deadline = time.monotonic() + timeout
        self._inbox.put(_Stop())
        if self._thread is None:
            self._beat.close()
            return True
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._log("the scheduler of the probes has not ended in time: it is left to the process", logging.WARNING)
            return False
        left = self._crew.join(max(0.0, deadline - time.monotonic()))
        if left:
            self._log(f"{left} probes have not come back: their threads are left to the process", logging.WARNING)
        return not left

    def reload(self, matrix: ProbeMatrix) -> None:
        """Have the scheduler take another matrix (HL-3.5). What ``probe_for`` raises is raised, and nothing changes."""
        self._inbox.put(_Reload(matrix, self._probes(matrix)))

    def refresh(self, name: str | None = None) -> bool:
        """Ask for new results where the next question would find none: of one dependency, or of all (HL-4.6).

        Waits for nothing, and costs the same however many dependencies there are. Say whether a run may begin by this:
        not if one is on its way, and no sooner than an interval after the last.
        """
        if self._clock.monotonic() < self._rounds.snapshot.ask_after:
            return False
        # One message for all who ask until the scheduler has read it: the inbox does not grow with them.
        if name not in self._asked:
            self._asked.add(name)
            self._inbox.put(_Ask(name))
        return True

    def snapshot(self) -> HealthSnapshot:
        """Return what is known. Waits for nothing."""
        return self._rounds.snapshot

    def readiness(self) -> Readiness:
        """Return the readiness now. Waits for nothing, and takes no longer for many dependencies than for one.

        It is what the scheduler has judged, until a verdict may have expired that the scheduler has not looked at.
        """
        now, snapshot, late = self._clock.monotonic(), self._rounds.snapshot, self._late
        if now < snapshot.valid_until:
            return snapshot.readiness
        if late is None or late[0] is not snapshot or now >= late[1]:
            # Two readers may both do this; what they find is the same.
            self._late = late = (snapshot, snapshot.next_expiry(now), snapshot.readiness_at(now))
        return late[2]

    # --- the scheduler's ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        message: _Message | None = None
        try:
            while True:
                self._beat.beat()
                self._guarded_pass(message)
                if self._stopped:
                    break
                message = self._next_message()
        finally:
            self._rounds.close()
            self._crew.dismiss()
        # Not where the thread dies of something else: the silence of its beat is how that is noticed.
        self._beat.close()

    def _guarded_pass(self, message: _Message | None) -> None:
        try:
            self._pass(message)
        except Exception as error:  # noqa: BLE001  a fault of ours: it is told, and verdicts expire if it stays
            if self._fault is None:
                fault = f"{type(error).__name__}: {error}"
                self._log(f"the scheduler of the probes has a fault, it goes on: {fault}", logging.ERROR)
            self._fault = type(error).__name__
            return
        if self._fault is not None:
            self._fault = None
            self._log("the scheduler of the probes is well again", logging.INFO)

    def _pass(self, message: _Message | None) -> None:
        """Take in this message and all that wait, and do what is due.

        All of them first: after a stall, what came back in time meanwhile has not overstayed.
        """
        moment = self._moment()
        while message is not None and not self._stopped:
            self._take(message, moment)
            message = self._waiting_message()
        for run in self._rounds.tick(moment):
            self._crew.give_up()
            self._log(f"the probe of {run.name} has not come back in its time, its thread is left", logging.WARNING)
        for run in () if self._stopped else self._rounds.start_due(moment):
            try:
                self._crew.give(run)
            except RuntimeError:
                result = Result(moment.now, 0.0, Outcome.COULD_NOT_RUN, "no thread could be started")
                self._rounds.finished(run, result, moment)
        for change in self._rounds.publish(moment):
            self._tell(change)

    def _take(self, message: _Message, moment: Moment) -> None:
        if isinstance(message, _Done):
            self._take_result(message, moment)
        elif isinstance(message, _Ask):
            self._asked.discard(message.name)
            if message.name is None:
                self._rounds.ask_all(moment)
            else:
                self._rounds.ask(message.name, moment)
        elif isinstance(message, _Reload):
            self._rounds.reload(message.matrix, message.probes, moment)
        else:
            self._stopped = True

    def _take_result(self, done: _Done, moment: Moment) -> None:
        if self._rounds.finished(done.run, done.result, moment):
            self._crew.free()
        else:
            self._crew.regain()
            self._log(f"the probe of {done.run.name} has come back, {_ago(done.run, moment)}", logging.INFO)
        if done.raised is None:
            self._raising.discard(done.run.name)
        elif done.run.name not in self._raising:
            self._raising.add(done.run.name)
            raised = type(done.raised).__name__
            self._log(f"the probe of {done.run.name} has a fault: it raised {raised}", logging.ERROR)

    def _next_message(self) -> _Message | None:
        now = self._clock.monotonic()
        longest = min(LONGEST_PAUSE_SECONDS, self._beat.budget / 2)
        # While there is a fault, what is due stays due: the pause keeps that from being a tight loop.
        pause = longest if self._fault is not None else min(longest, max(0.0, self._rounds.next_instant() - now))
        try:
            return self._inbox.get(timeout=pause)
        except queue.Empty:
            return None

    def _waiting_message(self) -> _Message | None:
        try:
            return self._inbox.get_nowait()
        except queue.Empty:
            return None

    def _tell(self, change: Change) -> None:
        try:
            self._changed(change)
        except Exception as error:  # noqa: BLE001  a fault of who takes changes is not the scheduler's
            self._log(f"a taker of changes has a fault: {change.what}: {type(error).__name__}", logging.ERROR)

    def _probes(self, matrix: ProbeMatrix) -> dict[str, Probe]:
        return {dependency.name: self._probe_for(dependency.probe) for dependency in matrix.dependencies}

    def _moment(self) -> Moment:
        return Moment(self._clock.monotonic(), self._clock.utc())


def _ago(run: Run, moment: Moment) -> str:
    return f"{moment.now - run.began:.1f} s after it began"
