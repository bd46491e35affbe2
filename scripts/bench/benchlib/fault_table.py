"""The fault table on real processes, as data: the matrix, each fault, and what the matrix implies for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.rehearsal.bounds import patience, verdict_bounds, wedge_bounds

if TYPE_CHECKING:
    from idkmesh.health.model import ProbeMatrix

GRACE_SECONDS: Final = 1.0
BACKOFF_SECONDS: Final = 0.1
"""Of the rehearsal: between TERM and KILL, and the first back-off."""

MATRIX: Final = """\
schema_version: "0.1"
kind: idkmesh-probe-matrix
orchestrator:
  startup: {{period_ms: 250, timeout_ms: 250, failure_threshold: 40}}
  liveness: {{period_ms: 500, timeout_ms: 400, failure_threshold: 3}}
  readiness: {{period_ms: 500, timeout_ms: 400, failure_threshold: 2}}
watchdog: {{interval_ms: 500, max_missed_ticks: 3}}
dependencies:
  - {{name: database, critical: true, probe: {{tcp: {{host: 127.0.0.1, port: {database}}}}},
     timeout_ms: 300, interval_ms: 500, cache_ms: 1000, success_threshold: 2}}
  - {{name: database-ready, critical: true, probe: {{command: {{argv: [{ready}, -h, 127.0.0.1, -p, "{database}"]}}}},
     timeout_ms: 300, interval_ms: 500, cache_ms: 1000, success_threshold: 2}}
  - {{name: api, critical: true, probe: {{http: {{url: "http://127.0.0.1:{api}/health"}}}},
     timeout_ms: 300, interval_ms: 500, cache_ms: 1000, success_threshold: 2}}
  - {{name: cache, critical: false, probe: {{tcp: {{host: 127.0.0.1, port: {cache}}}}},
     timeout_ms: 300, interval_ms: 500, cache_ms: 1000, failure_threshold: 2}}
  - {{name: cache-ping, critical: false, probe: {{command: {{argv: [{ping}, -h, 127.0.0.1, -p, "{cache}", ping]}}}},
     timeout_ms: 300, interval_ms: 500, cache_ms: 1000, failure_threshold: 2}}
"""
"""PostgreSQL, Redis and a small HTTP server. ``ready`` is ``pg_isready``, ``ping`` is ``redis-cli``."""


def matrix_text(scale: int) -> str:
    """Return :data:`MATRIX` with all its times so many times longer: a slow machine needs more for a command."""
    return re.sub(r"(?<=_ms: )[0-9]+", lambda found: str(int(found[0]) * scale), MATRIX)


NOT_READY, WARNING, NOTHING, RESTART = "not ready", "warning", "nothing", "restart"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault. ``hits`` are the dependencies that must notice it; ``shows`` is what it must come to.

    ``flags`` are what a rehearsal is told, with ``{0}`` and ``{1}`` for its begin and end; ``act`` is what is done to
    the stores themselves, a pair of names of :class:`benchlib.fault_site.Site`'s methods.
    """

    name: str
    hits: tuple[str, ...] = ()
    shows: str = NOT_READY
    flags: tuple[str, ...] = ()
    act: tuple[str, str] | None = None
    unsaid: bool = False
    """The probe cannot be run: no threshold counts, neither to lose the verdict nor to have it back."""
    alternates: bool = False
    """Every second run alone is hit, and the first may be well: one interval more."""


def _fail(how: str, *names: str) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--fail", f"{name}={how}@{{0}}..{{1}}"))


_SLOW: Final = ("--slow", "api=600ms@{0}..{1}")
_LATE: Final = ("--slow", "api=100ms@{0}..{1}")
FAULTS: Final = (
    Fault(name="PostgreSQL stopped", hits=("database-ready",), act=("stop_database", "start_database")),
    Fault(name="PostgreSQL paused (SIGSTOP)", hits=("database-ready",), act=("pause_database", "resume_database")),
    Fault(name="PostgreSQL refuses", hits=("database",), flags=_fail("refuse", "database")),
    Fault(name="PostgreSQL answers no connect", hits=("database",), flags=_fail("blackhole", "database")),
    Fault(name="HTTP slower than its timeout", hits=("api",), flags=_SLOW),
    Fault(name="HTTP slow, within its timeout", hits=("api",), flags=_LATE, shows=NOTHING),
    Fault(name="HTTP resets", hits=("api",), flags=_fail("cut", "api")),
    Fault(name="HTTP flaps, never twice well", hits=("api",), act=("flap", "settle"), alternates=True),
    Fault(name="Redis stopped, noncritical", hits=("cache-ping",), shows=WARNING, act=("stop_cache", "start_cache")),
    Fault(name="Redis paused, noncritical", hits=("cache-ping",), shows=WARNING, act=("pause_cache", "resume_cache")),
    Fault(name="all refuse", hits=("database", "api"), flags=_fail("refuse", "database", "api", "cache")),
    Fault(name="a probe cannot be run", hits=("database-ready",), act=("hide_program", "show_program"), unsaid=True),
    Fault(name="the service paused (SIGSTOP)", shows=RESTART, flags=("--wedge", "{0}..{1}")),
)


@dataclass(frozen=True)
class Bounds:
    """What the matrix implies, in seconds: until the answer tells, until the orchestrator has acted, and their ends.

    ``lasts`` is how long the fault is to be there. For a restart both begins are its decision, and both ends are
    counted from there.
    """

    notice: float
    act: float
    back: float
    enter: float
    lasts: float


def bounds(fault: Fault, matrix: ProbeMatrix, allowance: float) -> Bounds:
    """Return the bounds of a fault, by :mod:`idkmesh.rehearsal.bounds`, where their derivation stands."""
    figures = matrix.orchestrator
    if fault.shows == RESTART:
        found = wedge_bounds(figures, grace=GRACE_SECONDS, backoff=BACKOFF_SECONDS, starting=False)
        decided = patience(figures.liveness)
        return Bounds(decided, decided, found.recover, found.recover, decided + allowance)
    period, timeout = figures.readiness.period_ms / 1000, figures.readiness.timeout_ms / 1000
    rows = {each.name: each for each in matrix.dependencies}
    # Who is hit together is noticed by the first, and is well again with the last.
    both = [verdict_bounds(rows[name], period) for name in fault.hits] or [(0.0, 0.0)]
    notice, back = min(each[0] for each in both), max(each[1] for each in both)
    if fault.unsaid:
        (row,) = (rows[name] for name in fault.hits)
        notice, back = row.interval_ms / 1000, (row.interval_ms + row.timeout_ms) / 1000
    if fault.alternates:
        notice += max(rows[name].interval_ms for name in fault.hits) / 1000
    acted = notice + (patience(figures.readiness) if fault.shows == NOT_READY else period + timeout)
    return Bounds(notice, acted, back, back + period + timeout, max(acted, 2.0) + allowance)
