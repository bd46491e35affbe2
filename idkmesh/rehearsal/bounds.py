"""What the figures of a matrix imply: by when a fault is noticed, and by when its end is (HL-8.5). Pure.

How each bound comes about. Times of a dependency: interval I, timeout T, cache C, thresholds F (failures) and S
(successes). Of an orchestrator's probe: period P, timeout t, threshold N; those of readiness unless said otherwise.

- *A dependency fails.* At worst a run has succeeded just before. Runs begin at most I apart (jitter only makes them
  earlier), so the F-th that fails begins by F I and has ended by F I + T: then the verdict is ``failing``. At worst
  readiness was asked just before; the N-th question that fails is sent by N P and judged by N P + t.
  Notice: F I + T + N P + t. Its warning, for a noncritical one, is in the next answer: F I + T + P + t.
- *It comes back.* At worst a run has begun just before the end, and fails. The S-th after it begins by S I and has
  ended by S I + T. One success of readiness is enough: S I + T + P + t. No sooner than S successes: S - 1 times the
  shortest time between two runs, which is (1 - jitter - catch-up) I.
- *Refresh by request.* A run begins before the last result expires at the latest, which is C after its end, or the
  dependency is unknown then, which is not ok either: F C + T in place of F I + T. To come back, a service may wait for
  each of S results to expire, or for I, and then for a question: S (max(C + T, I) + P) + T in place of S I + T.
- *The service is stopped.* At worst liveness was asked just before: L = N P + t of liveness until the restart. It may
  come as soon as (N - 1) P after the first question. Then grace (a stopped process takes no TERM), back-off, startup by
  its own patience N P + t, and a first readiness of t.
- *Startup is never answered.* Killed by N P + t of startup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.health.model import Http, Refresh
from idkmesh.health.schedule import CATCH_UP, JITTER
from idkmesh.rehearsal.faults import How

if TYPE_CHECKING:
    from idkmesh.health.model import Dependency, Figures, Orchestrator
    from idkmesh.rehearsal.faults import Fault

ALLOWANCE_SECONDS: Final = 0.5
"""What the machine may add to each bound: threads that start late, a proxy that follows its dependency (0.25 s)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds after a fault's begin by which it shows, after its end by which that shows, and no sooner.

    ``notice`` is None where the probe cannot see the fault.
    """

    notice: float | None
    recover: float
    earliest: float = 0.0


def patience(figures: Figures) -> float:
    """Return within how many seconds of a lasting failure an orchestrator has acted: N P + t."""
    return (figures.period_ms * figures.failure_threshold + figures.timeout_ms) / 1000


def visible(dependency: Dependency, fault: Fault) -> bool:
    """Say whether a dependency's probe can see a fault. A ``tcp`` probe connects and no more."""
    if isinstance(dependency.probe, Http):
        return fault.how is not How.SLOW or fault.delay * 1000 > dependency.timeout_ms
    return fault.how in {How.REFUSE, How.BLACKHOLE}


def verdict_bounds(dependency: Dependency, period: float) -> tuple[float, float]:
    """Return by when a dependency's verdict is not ok, and ok again. ``period`` is readiness's, in seconds."""
    interval, timeout, cache = (
        figure / 1000 for figure in (dependency.interval_ms, dependency.timeout_ms, dependency.cache_ms)
    )
    if dependency.refresh is Refresh.REQUEST:
        lasting = max(cache + timeout, interval) + period
        return dependency.failure_threshold * cache + timeout, dependency.success_threshold * lasting + timeout
    return dependency.failure_threshold * interval + timeout, dependency.success_threshold * interval + timeout


def dependency_bounds(dependency: Dependency, fault: Fault, orchestrator: Orchestrator) -> Bounds:
    """Return the bounds of a fault of a dependency."""
    readiness = orchestrator.readiness
    period, timeout = readiness.period_ms / 1000, readiness.timeout_ms / 1000
    not_ok, ok = verdict_bounds(dependency, period)
    acted = patience(readiness) if dependency.critical else period + timeout
    shortest = (1 - JITTER - CATCH_UP) * dependency.interval_ms / 1000
    return Bounds(
        notice=not_ok + acted if visible(dependency, fault) else None,
        recover=ok + period + timeout,
        earliest=(dependency.success_threshold - 1) * shortest,
    )


def wedge_bounds(orchestrator: Orchestrator, *, grace: float, backoff: float, starting: bool) -> Bounds:
    """Return the bounds of a stopped service: until the restart is decided, and from then until it is in rotation.

    ``starting`` is whether startup had not succeeded when it was stopped.
    """
    asked = orchestrator.startup if starting else orchestrator.liveness
    again = grace + backoff + patience(orchestrator.startup) + orchestrator.readiness.timeout_ms / 1000
    return Bounds(notice=patience(asked), recover=again)


def soonest_restart(figures: Figures) -> float:
    """Return the shortest failure, in seconds, that can lead to a restart: N - 1 periods lie between N questions."""
    return figures.period_ms * (figures.failure_threshold - 1) / 1000
