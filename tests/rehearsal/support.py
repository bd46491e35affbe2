"""What the tests of rehearsals share: matrices, a service on a manual clock, and records that are written by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from idkmesh.health.model import Figures, Orchestrator, ProbeMatrix, WatchdogFigures
from idkmesh.rehearsal import orchestrator as machine
from idkmesh.rehearsal.orchestrator import NEVER, Answer, Container, Do, Kind, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.health.model import Dependency
    from idkmesh.rehearsal.orchestrator import Decision, Step

FIGURES = Orchestrator(
    startup=Figures(period_ms=1000, timeout_ms=1000, failure_threshold=30),
    liveness=Figures(period_ms=10_000, timeout_ms=1000, failure_threshold=3),
    readiness=Figures(period_ms=3000, timeout_ms=1000, failure_threshold=2),
)
SETTINGS = Settings(figures=FIGURES, grace=30.0, backoff=10.0)


def matrix_of(*dependencies: Dependency, figures: Orchestrator = FIGURES) -> ProbeMatrix:
    watchdog = WatchdogFigures(interval_ms=1000, max_missed_ticks=5)
    return ProbeMatrix(orchestrator=figures, watchdog=watchdog, dependencies=dependencies)


def well(_kind: Kind, _now: float, _launch: int) -> bool:
    return True


@dataclass
class Simulation:
    """A container and a service that answers at once, on a clock that goes from instant to instant.

    ``answers`` says yes or no to a question, and ``ends`` how long after TERM a process takes to end.
    """

    answers: Callable[[Kind, float, int], bool] = well
    ends: float = 1.0
    settings: Settings = SETTINGS
    now: float = 0.0
    container: Container = field(default_factory=Container)
    done: list[tuple[float, Decision]] = field(default_factory=list)
    questions: list[tuple[float, Kind]] = field(default_factory=list)
    end_at: float = NEVER
    crash_at: float = NEVER

    def run(self, until: float) -> Simulation:
        """Let time pass until an instant."""
        while True:
            self.turn()
            following = min(machine.next_instant(self.container), self.end_at, self.crash_at)
            if following > until:
                self.now = until
                return self
            self.now = max(self.now, following)

    def turn(self) -> None:
        """Do what is due now."""
        if min(self.end_at, self.crash_at) <= self.now:
            self.end_at = self.crash_at = NEVER
            self.take(machine.exited(self.container, self.now, self.settings, "exit 0"))
        self.take(machine.passed(self.container, self.now, self.settings))
        for kind in machine.due(self.container, self.now):
            self.questions.append((self.now, kind))
            self.container = machine.asked(self.container, kind, self.now, self.settings)
            launch = self.container.launches
            answer = Answer(kind, launch, self.answers(kind, self.now, launch), "status 503")
            self.take(machine.answered(self.container, answer, self.now, self.settings))

    def take(self, step: Step) -> None:
        self.container, decisions = step
        for decision in decisions:
            self.done.append((self.now, decision))
            if decision.do is Do.TERMINATE:
                self.end_at = self.now + self.ends
            elif decision.do is Do.KILL:
                self.end_at = self.now

    def delete(self) -> None:
        self.take(machine.deleted(self.container, self.now, self.settings))

    def times(self, do: Do) -> list[float]:
        """Return when something was done."""
        return [at for at, decision in self.done if decision.do is do]

    def asked_at(self, kind: Kind) -> list[float]:
        return [at for at, asked in self.questions if asked is kind]
