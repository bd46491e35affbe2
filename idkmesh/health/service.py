"""Health of one service as a whole: its watchdog, the runner of its probes, and one thread that watches both.

Laws of this module:

1. Everything that a probe is answered from is read without waiting (HL-1.5). Liveness is read from the beats
   themselves: it is right also where the watching thread is not.
2. The watching thread tells of what it sees, and nothing depends on it: it makes events, lines and figures.
3. Changes are told by the scheduler, by the watching thread, and by whoever reloads; never by who asks.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from idkmesh.changes import Change
from idkmesh.health.change_lines import ChangeLog
from idkmesh.health.changes import MATRIX_REFUSED
from idkmesh.health.liveness import Liveness, watch
from idkmesh.health.probes import probe_for as known_probe_for
from idkmesh.health.reloads import MatrixReading, RefusedMatrix
from idkmesh.health.runner import HealthRunner
from idkmesh.health.slots import Slots, look
from idkmesh.health.watchdog import Watchdog
from idkmesh.service_runtime import log_line
from idkmesh.validation.findings import MatrixError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from pathlib import Path

    from idkmesh.clock import Clock
    from idkmesh.health.model import Probe, ProbeMatrix, ProbeSpec
    from idkmesh.health.readiness import Readiness
    from idkmesh.health.snapshot import HealthSnapshot
    from idkmesh.health.watchdog import Beat

STOP_SECONDS: Final = 1.0
"""How long the end of a service waits for probes that are out."""
FRONT: Final = "front"
"""How the loop that answers is called in the watchdog."""
PROBES: Final = "probes"
"""How the runner of the probes is called there."""
LONGEST_LOOK_SECONDS: Final = 0.5
"""The longest time between two looks of the watching thread."""
SHORTEST_LOOK_SECONDS: Final = 0.01
LATELY_SECONDS: Final = 1.0
"""Twice the longest pause of the two loops here: whoever has beaten within it makes progress, also where the matrix has
an interval that is shorter than the pause of a loop with nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReading:
    """A service's health at ``now`` (monotonic seconds). ``silences`` are seconds by component, ``budget`` is too."""

    now: float
    snapshot: HealthSnapshot
    liveness: Liveness
    silences: Mapping[str, float]
    overdue: tuple[str, ...]
    budget: float
    slots_held: int
    matrix: MatrixReading


class HealthService:
    """Liveness, startup and readiness of one service.

    ``changed`` gets each change (HL-5.4) in the thread that saw it, and must not wait; ``log`` takes a line and a level
    of :mod:`logging`, and must not wait either. ``watchdog`` is a program's own; without one there is one with the
    budget of the matrix. Any thread may call any method.

    :raises WatchdogError: the watchdog has a component named ``probes``.
    """

    def __init__(  # noqa: PLR0913  what one service differs in from another, a keyword each
        self,
        matrix: ProbeMatrix,
        *,
        clock: Clock,
        changed: Callable[[Change], None] = lambda _change: None,
        log: Callable[[str, int], None] = log_line,
        probe_for: Callable[[ProbeSpec], Probe] = known_probe_for,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._clock = clock
        self._changed = changed
        self._log = log
        self._lines = ChangeLog(log)
        self._interval = matrix.watchdog.interval_ms / 1000
        self._matrix = MatrixReading(clock.utc())
        self.watchdog = watchdog or Watchdog(matrix.watchdog.budget_seconds, clock)
        self._beat = self.watchdog.register(PROBES)
        self._runner = HealthRunner(matrix, probe_for, clock=clock, beat=self._beat, changed=self._tell, log=log)
        self._holders: Callable[[], Iterable[Hashable]] = tuple
        self._liveness = Liveness()
        self._slots = Slots()
        self._faulty = False
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="health-watch", daemon=True)

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to probe and to watch.

        :raises RuntimeError: the system starts no thread. Nothing is left then, and another service can be made.
        """
        try:
            self._watcher.start()
            self._runner.start()
        except BaseException:  # no thread is to be had
            self._ended.set()
            self._beat.close()
            raise

    def forget(self) -> None:
        """Take the runner out of the watchdog: its threads have not come along through a fork."""
        self._beat.close()

    def stop(self, timeout: float) -> bool:
        """End, within ``timeout`` seconds, and say whether that was enough. A second call changes nothing."""
        if self._ended.is_set():
            return True
        self._ended.set()
        deadline = time.monotonic() + timeout
        ended = self._runner.stop(timeout)
        if self._watcher.is_alive():
            self._watcher.join(max(0.0, deadline - time.monotonic()))
        return ended and not self._watcher.is_alive()

    def register_front(self) -> Beat:
        """Take the loop that answers into the watchdog (HL-2.2)."""
        return self.watchdog.register(FRONT)

    def watch_slots(self, holders: Callable[[], Iterable[Hashable]]) -> None:
        """Have the watching thread look at who holds a worker slot (HL-2.3)."""
        self._holders = holders

    def reload(self, matrix: ProbeMatrix) -> None:
        """Take another matrix (HL-3.5): what has the same probe keeps its state."""
        self._runner.reload(matrix)
        self._interval = matrix.watchdog.interval_ms / 1000
        self.watchdog.rebudget(matrix.watchdog.budget_seconds)
        self._matrix = MatrixReading(self._clock.utc())

    def reload_from(self, path: Path | str) -> bool:
        """Read a matrix and take it, or say in one line why the running one stays, and keep that for :meth:`reading`.

        Reads a file: not for a front.
        """
        from idkmesh.health.matrix_file import read_matrix  # noqa: PLC0415  a start without a matrix needs no YAML

        try:
            self.reload(read_matrix(path, again=True))
        except MatrixError as error:
            first = error.findings[0]
            facts = {
                "findings": len(error.findings),
                "line": first.line,
                "column": first.column,
                "rule": first.rule.value,
                "what": first.what,
            }
            self._refuse("is refused", str(error))
            self._tell(Change(MATRIX_REFUSED, None, facts))
            return False
        except Exception as error:  # noqa: BLE001  a fault of ours must not end who reloads
            self._refuse("was not taken", f"{type(error).__name__}: {error}")
            return False
        return True

    def _refuse(self, how: str, what: str) -> None:
        self._log(f"the probe matrix {how}, the running one stays: {what}", logging.ERROR)
        self._matrix = replace(self._matrix, refused=RefusedMatrix(self._clock.utc(), what))

    # --- for who answers ------------------------------------------------------------------------------------------

    def overdue(self) -> tuple[str, ...]:
        """Return the components that have been silent for too long. None is alive (HL-1.1)."""
        return self.watchdog.overdue(self._clock.monotonic())

    def readiness(self) -> Readiness:
        """Return what the dependencies come to: the same object while that is the same."""
        return self._runner.readiness()

    def warnings(self) -> tuple[str, ...]:
        """Return what else readiness is to warn of."""
        return self._slots.warnings

    def refresh(self) -> None:
        """Ask for new results where they wait to be asked for and the next question would find none (HL-4.6)."""
        self._runner.refresh()

    def snapshot(self) -> HealthSnapshot:
        """Return what is known of the dependencies."""
        return self._runner.snapshot()

    def reading(self) -> HealthReading:
        """Return all of it at one instant."""
        now = self._clock.monotonic()
        return HealthReading(
            now=now,
            snapshot=self._runner.snapshot(),
            liveness=self._liveness,
            silences=self.watchdog.silences(now),
            overdue=self.watchdog.overdue(now),
            budget=self.watchdog.budget,
            slots_held=len(self._slots.held),
            matrix=self._matrix,
        )

    # --- the watching thread's ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._ended.wait(max(SHORTEST_LOOK_SECONDS, min(LONGEST_LOOK_SECONDS, self.watchdog.budget / 4))):
            try:
                self.look(self._clock.monotonic())
            except Exception as error:  # noqa: BLE001  a fault of ours: it is told once, and the next look follows
                if not self._faulty:
                    self._log(
                        f"the watch over this process has a fault: {type(error).__name__}: {error}", logging.ERROR
                    )
                self._faulty = True

    def look(self, now: float) -> None:
        """See what has become overdue or is so no longer, and who holds a slot for too long. One thread's."""
        self._liveness, change = watch(
            self._liveness,
            self.watchdog.overdue(now),
            self.watchdog.silences(now),
            critical_down=self._runner.snapshot().critical_down,
            interval=max(self._interval, LATELY_SECONDS),
        )
        if change is not None:
            self._tell(change)
        self._slots, held = look(self._slots, self._holders(), now, self.watchdog.budget)
        for each in held:
            self._tell(each)

    def _tell(self, change: Change) -> None:
        self._lines.write(change)
        self._changed(change)
