"""A service, its dependencies and its orchestrator on one manual clock: the pure cores, and nothing that waits.

Laws of this module:

1. All that decides is the product's: rounds, snapshot, watchdog and answers of health, the machine of the rehearsal.
2. Time goes from one instant at which something happens to the next. Nothing reads a clock.
3. What the settings leave open (phases, jitter, how long runs and answers take) is :class:`Chances`.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.health.answers import liveness_answer, readiness_answer, startup_answer
from idkmesh.health.watchdog import Watchdog
from idkmesh.rehearsal import orchestrator as machine
from idkmesh.rehearsal.orchestrator import Answer, Container, Do, Kind, Phase, Settings
from idkmesh.service_runtime import ServiceIdentity
from tests.health.support import OK, START, Game, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.health.model import Dependency, Outcome
    from idkmesh.health.rounds import Run
    from idkmesh.health.watchdog import Beat

NEVER: Final = float("inf")
IDENTITY: Final = ServiceIdentity(service="fixture", service_version="1", api_version="v1")
ENDS_AFTER: Final = 0.1
"""How long after TERM a process takes to end, unless it is stopped."""
BEAT_SECONDS: Final = 0.5
"""A front's longest time between two beats (HL-2.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is done. ``hits`` names dependencies; ``says`` is what their runs come to, in turn, while it lasts.

    A run's word is its outcome and after what share of its timeout it comes; ``NEVER`` is when the fault ends.
    ``halts`` is what makes no progress: the ``runner`` of the probes, the ``front``, or the whole ``process``.
    """

    hits: tuple[str, ...] = ()
    says: tuple[tuple[Outcome, float], ...] = ()
    halts: str = ""
    becomes: tuple[Dependency, ...] = ()
    """The matrix that is read when the fault begins, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """What no setting says. In seconds, but ``healthy``, the share of its timeout that a good run takes.

    ``boot`` is until a process listens, ``answer`` until an answer is there; it says what was so when it was asked for.
    """

    begin: float
    end: float
    boot: float = 0.0
    healthy: float = 0.0
    answer: float = 0.0
    random: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True, slots=True)
class Shown:
    """What ``/readyz`` says from an instant on."""

    at: float
    ready: bool
    warnings: tuple[str, ...]


class World:
    """One process after another under an orchestrator, while a fault comes and goes.

    ``budget`` is the watchdog's. Afterwards ``shown`` has each change of what ``/readyz`` says, ``done`` what the
    orchestrator did, ``begun`` when each dependency's runs began, and ``words`` the letters (S, F, N) of what they
    said.
    """

    def __init__(
        self, rows: tuple[Dependency, ...], fault: Fault, settings: Settings, chances: Chances, budget: float
    ) -> None:
        self.clock = ManualClock()
        self.shown: list[Shown] = []
        self.done: list[tuple[float, Do, str]] = []
        names = [row.name for row in (*rows, *fault.becomes)]
        self.words: dict[str, str] = dict.fromkeys(names, "")
        self.begun: dict[str, list[float]] = {name: [] for name in names}
        self._rows, self._fault, self._settings, self._chances, self._budget = rows, fault, settings, chances, budget
        self._container = Container(until=START)
        self._game: Game | None = None
        self._watchdog: Watchdog
        self._beats: tuple[Beat, ...] = ()
        self._order = itertools.count()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._said: dict[str, itertools.cycle[tuple[Outcome, float]]] = {}
        self._at(chances.begin, self._reload)
        self._at(chances.end, lambda: None)

    def run(self, until: float) -> World:
        """Let time pass until an instant."""
        while (at := self._next()) <= until:
            self.clock.now = max(self.clock.now, at)
            self._turn()
        return self

    def times(self, do: Do) -> list[float]:
        """Return when the orchestrator did something."""
        return [at for at, what, _ in self.done if what is do]

    # --- time -----------------------------------------------------------------------------------------------------

    def _at(self, instant: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._later, (instant, next(self._order), what))

    def _next(self) -> float:
        instants = [machine.next_instant(self._container), self._later[0][0] if self._later else NEVER]
        if self._game is not None:
            instants.append(self._game.rounds.snapshot.next_expiry(self.clock.now))
            if not self._halted("runner"):
                instants.append(self._game.rounds.next_instant())
        return min(instants)

    def _turn(self) -> None:
        now = self.clock.now
        while self._later and self._later[0][0] <= now:
            heapq.heappop(self._later)[2]()
        if self._game is not None and not self._halted("runner"):
            for run in self._game.turn():
                self._begun(run)
            self._game.turn()
        self._take(machine.passed(self._container, now, self._settings))
        for kind in machine.due(self._container, now):
            self._ask(kind)
        self._look()

    def _faulty(self) -> bool:
        return self._chances.begin <= self.clock.now < self._chances.end

    def _halted(self, what: str) -> bool:
        # What has taken the place of the first process is not halted.
        return self._faulty() and self._container.launches == 1 and self._fault.halts in {what, "process"}

    # --- the service ----------------------------------------------------------------------------------------------

    def _listen(self, launch: int) -> None:
        if launch != self._container.launches or self._container.phase is Phase.WAITING:
            return
        self._game = Game(
            *self._rows, clock=self.clock, random=self._chances.random, orchestrator=self._settings.figures
        )
        self._watchdog = Watchdog(self._budget, self.clock)
        self._beats = tuple(self._watchdog.register(name) for name in ("front", "runner"))
        self._beat(launch)

    def _beat(self, launch: int) -> None:
        """Each half second, or half of the budget, is when both beat at the latest."""
        if launch != self._container.launches or self._game is None:
            return
        for beat in self._beats:
            if not self._halted(beat.name):
                beat.beat()
        self._at(self.clock.now + min(BEAT_SECONDS, self._budget / 2), lambda: self._beat(launch))

    def _reload(self) -> None:
        if self._fault.becomes and self._game is not None:
            self._game.reload(*self._fault.becomes)

    def _begun(self, run: Run) -> None:
        self.begun[run.name].append(self.clock.now)
        outcome, share = OK, self._chances.healthy
        if self._faulty() and run.name in self._fault.hits:
            outcome, share = next(self._said.setdefault(run.name, itertools.cycle(self._fault.says)))
        latency = self._chances.end - self.clock.now if share == NEVER else share * run.timeout
        game = self._game
        self._at(self.clock.now + latency, lambda: self._ended(run, outcome, latency, game))

    def _ended(self, run: Run, outcome: Outcome, latency: float, game: Game | None) -> None:
        if game is None or game is not self._game:
            return
        if self._halted("runner"):  # the result waits in the scheduler's inbox
            self._at(self._chances.end, lambda: self._ended(run, outcome, latency, game))
        elif game.end(run, outcome, latency=latency):
            self.words[run.name] += {"ok": "S", "failed": "F"}.get(outcome.value, "N")

    def _answer(self, kind: Kind) -> int:
        if self._game is None or self._halted("process"):
            return 0
        now = self.clock.now
        readiness = self._game.rounds.snapshot.readiness_at(now)
        if kind is Kind.LIVENESS:
            return liveness_answer(alive=not self._watchdog.overdue(now)).status
        if kind is Kind.STARTUP:
            return startup_answer(IDENTITY, readiness).status
        self._game.rounds.ask_all(self.clock.moment())
        return readiness_answer(IDENTITY, readiness).status

    def _look(self) -> None:
        if self._game is None:
            return
        readiness = self._game.rounds.snapshot.readiness_at(self.clock.now)
        seen = Shown(self.clock.now, readiness.status == "ready", readiness.warnings)
        last = self.shown[-1] if self.shown else None
        if last is None or (last.ready, last.warnings) != (seen.ready, seen.warnings):
            self.shown.append(seen)

    # --- the orchestrator -----------------------------------------------------------------------------------------

    def _ask(self, kind: Kind) -> None:
        now = self.clock.now
        self._container = machine.asked(self._container, kind, now, self._settings)
        status = self._answer(kind)
        answer = Answer(kind, self._container.launches, status == 200, f"status {status}")
        silent = self._halted("process")  # what does not listen yet refuses at once
        took = self._settings.of(kind).timeout_ms / 1000 if silent else self._chances.answer
        self._at(now + took, lambda: self._take(machine.answered(self._container, answer, now + took, self._settings)))

    def _take(self, step: machine.Step) -> None:
        self._container, decisions = step
        now, launch = self.clock.now, self._container.launches
        for decision in decisions:
            self.done.append((now, decision.do, decision.why))
            if decision.do is Do.START:
                self._at(now + self._chances.boot, lambda: self._listen(launch))
            elif decision.do is Do.KILL or (decision.do is Do.TERMINATE and not self._halted("process")):
                ends = now if decision.do is Do.KILL else now + ENDS_AFTER
                self._at(ends, lambda: self._exited(launch))

    def _exited(self, launch: int) -> None:
        if launch == self._container.launches and self._container.phase is Phase.STOPPING:
            self._game = None
            self._take(machine.exited(self._container, self.clock.now, self._settings, "exit 0"))
