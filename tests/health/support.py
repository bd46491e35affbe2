"""What the tests of health share: a clock that stands still, declarations, results, and probes that tests hold."""

from __future__ import annotations

import datetime as dt
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from idkmesh.clock import SystemClock
from idkmesh.health.model import Dependency, Figures, Orchestrator, Outcome, ProbeMatrix, Result, Tcp, WatchdogFigures
from idkmesh.health.rounds import Rounds
from idkmesh.health.runner import HealthRunner
from idkmesh.health.snapshot import Moment
from idkmesh.health.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.changes import Change
    from idkmesh.clock import Clock
    from idkmesh.health.model import Probe, ProbeSpec
    from idkmesh.health.rounds import Run

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, dt.UTC)
START = 1000.0
PATIENCE = 60.0

OK, FAILED, COULD_NOT_RUN = Outcome.OK, Outcome.FAILED, Outcome.COULD_NOT_RUN
LETTERS = {"S": OK, "F": FAILED, "N": COULD_NOT_RUN}
FIGURES = Figures(period_ms=10_000, timeout_ms=5_000, failure_threshold=3)


class ManualClock:
    """Stands still until it is moved. ``wall_step`` moves the wall clock alone, in seconds."""

    def __init__(self) -> None:
        self.now = START
        self.wall_step = 0.0

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> dt.datetime:
        return NOW + dt.timedelta(seconds=self.now - START + self.wall_step)

    def moment(self) -> Moment:
        return Moment(self.now, self.utc())


def dependency(name: str = "db", **more: Any) -> Dependency:
    """Return a critical dependency that is asked each second and whose results live for two and a half."""
    given: dict[str, Any] = {
        "name": name,
        "critical": True,
        "probe": Tcp(host=name, port=1),
        "timeout_ms": 500,
        "interval_ms": 1000,
        "cache_ms": 2500,
    }
    return Dependency(**(given | more))


ORCHESTRATOR = Orchestrator(startup=FIGURES, liveness=FIGURES, readiness=FIGURES)


def matrix_of(*dependencies: Dependency, orchestrator: Orchestrator = ORCHESTRATOR) -> ProbeMatrix:
    return ProbeMatrix(
        orchestrator=orchestrator,
        watchdog=WatchdogFigures(interval_ms=1000, max_missed_ticks=3),
        dependencies=dependencies,
    )


def result(
    outcome: Outcome = OK, began: float = START, latency: float = 0.0, detail: str = "", *, hanging: bool = False
) -> Result:
    return Result(began, latency, outcome, detail or outcome.value, hanging)


def until(happened: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.002)


class NoProbe:
    """Stands for a probe that nobody runs: the test says itself what came of it."""

    def run(self, timeout: float, clock: Clock) -> Result:
        raise AssertionError("rounds call no probe")

    def close(self) -> None:
        """Have nothing to end."""


class Game:
    """Rounds on a manual clock: the test is the clock, the workers and the probes."""

    def __init__(
        self,
        *dependencies: Dependency,
        concurrency: int = 16,
        random: float | Callable[[], float] = 0.0,
        clock: ManualClock | None = None,
        orchestrator: Orchestrator = ORCHESTRATOR,
    ) -> None:
        self.clock = clock or ManualClock()
        self.orchestrator = orchestrator
        self.told: list[Change] = []
        self.rounds = Rounds(
            matrix_of(*dependencies, orchestrator=orchestrator),
            {each.name: NoProbe() for each in dependencies},
            self.clock.moment(),
            concurrency=concurrency,
            random=random if callable(random) else lambda: random,
        )

    def turn(self, after: float = 0.0) -> list[Run]:
        """Let time pass, do what a pass does, and return the runs that begin."""
        self.clock.now += after
        moment = self.clock.moment()
        self.rounds.tick(moment)
        runs = self.rounds.start_due(moment)
        self.told += self.rounds.publish(moment)
        return runs

    def end(self, run: Run, outcome: Outcome = OK, **more: Any) -> bool:
        """Let a run come back now."""
        given = {"began": run.began, "latency": self.clock.now - run.began} | more
        awaited = self.rounds.finished(run, result(outcome, **given), self.clock.moment())
        self.told += self.rounds.publish(self.clock.moment())
        return awaited

    def reload(self, *dependencies: Dependency) -> None:
        probes = {each.name: NoProbe() for each in dependencies}
        matrix = matrix_of(*dependencies, orchestrator=self.orchestrator)
        self.rounds.reload(matrix, probes, self.clock.moment())
        self.told += self.rounds.publish(self.clock.moment())

    def verdict(self, name: str = "db") -> str:
        return self.rounds.snapshot.records[name].known_at(self.clock.now).verdict.value

    def status(self) -> str:
        return self.rounds.snapshot.readiness_at(self.clock.now).status

    def take_told(self, what: str) -> list[Change]:
        """Return what was told of one kind, and forget it."""
        found = [change for change in self.told if change.what == what]
        self.told = [change for change in self.told if change.what != what]
        return found


class HeldProbe:
    """Answers by ``outcome``, at once or when the test opens it. Notes how many runs there were, how many at once."""

    def __init__(self, *, held: bool = False, outcome: Outcome = OK) -> None:
        self.opened = threading.Event()
        if not held:
            self.opened.set()
        self.outcome = outcome
        self.raising: BaseException | None = None
        self.detail: str | None = ""
        self.runs = 0
        self.at_once = 0
        self.most_at_once = 0
        self._lock = threading.Lock()

    def run(self, timeout: float, clock: Clock) -> Result:
        with self._lock:
            self.runs += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        began = clock.monotonic()
        try:
            self.opened.wait(PATIENCE)
            if self.raising is not None:
                raise self.raising
            detail: Any = self.detail if self.detail != "" else self.outcome.value
            return Result(began, clock.monotonic() - began, self.outcome, detail)
        finally:
            with self._lock:
                self.at_once -= 1

    def close(self) -> None:
        """Have nothing to end: the test opens it."""


class Stage:
    """A runner with real threads; probes are the test's, by the host that a declaration names."""

    def __init__(self, *dependencies: Dependency, clock: Clock | None = None, concurrency: int = 16) -> None:
        self.clock = clock or SystemClock()
        self.watchdog = Watchdog(3.0, self.clock)
        self.probes: dict[str, HeldProbe] = {}
        self.told: list[Change] = []
        self.lines: list[tuple[int, str]] = []
        self.runner = HealthRunner(
            matrix_of(*dependencies),
            self.probe_for,
            clock=self.clock,
            beat=self.watchdog.register("probes"),
            changed=self.changed,
            concurrency=concurrency,
            log=lambda line, level: self.lines.append((level, line)),
        )

    def probe_for(self, spec: ProbeSpec) -> Probe:
        assert isinstance(spec, Tcp)
        return self.probes.setdefault(spec.host, HeldProbe())

    def changed(self, change: Change) -> None:
        self.told.append(change)

    def verdict(self, name: str) -> str:
        return self.runner.snapshot().records[name].known_at(self.clock.monotonic()).verdict.value

    def status(self) -> str:
        return self.runner.readiness().status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for probe in self.probes.values():
            probe.opened.set()
        assert self.runner.stop(PATIENCE)
