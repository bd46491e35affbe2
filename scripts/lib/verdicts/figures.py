"""The figures of the site, and the bounds that they and the contracts imply (FT-3). Pure.

Nothing here is a copy of a figure of the code: what a contract names is imported from the part that keeps it, and what
the page keeps is read in its files.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

from idkmesh.adapter.sampling import CHILD_SECONDS, INTERVAL_SECONDS
from idkmesh.adapter.verdict import MAX_AGE_SECONDS
from idkmesh.control_tower.node import LOOK_SECONDS
from idkmesh.demo.faults import PRESSURE_SECONDS, SLACK_SECONDS
from idkmesh.events.recorder import RETRY_SECONDS
from idkmesh.health.model import Command, Dependency, Figures, Http, Orchestrator, ProbeMatrix, WatchdogFigures
from idkmesh.rehearsal.bounds import patience, verdict_bounds
from idkmesh.topology.backoff import MOST_SECONDS
from idkmesh.topology.providers.boundary import PAUSE_SECONDS, TRUST_SECONDS
from idkmesh.topology.providers.etcd_follower import REQUEST_SECONDS
from idkmesh.topology.providers.etcd_stream import SILENT_SECONDS
from idkmesh.workloads.drivers.lxd import RESTART_SECONDS
from idkmesh.workloads.drivers.lxd_exec import HELD_SECONDS, KILL_SECONDS
from idkmesh.workloads.model import Word
from idkmesh.workloads.tracker import HYSTERESIS_SECONDS, RESTART_AFTER_SECONDS

ASK_SECONDS: Final = 2.0
"""How long an observer waits for an answer. Who waits longer is told: no answer."""

START_SECONDS: Final = 5.0
"""For the start of one of the project's processes on a busy machine. No contract says it."""

CALL_SECONDS: Final = 0.5
"""From one invocation to the next: each is an event, so a store that takes none is noticed by the next."""

FORWARD_SECONDS: Final = 20
"""How far the wall clock is stepped forward: so long it is behind afterwards what was recorded meanwhile."""

PASS_SECONDS: Final = 3
"""``interval_s`` of the supervisor of modules."""

COMMAND_SECONDS: Final = 5
"""``timeoutSecs`` of the readiness command in an instance."""

PLACES: Final = 8
CONNECTIONS: Final = 64
"""``max_concurrent_requests`` and ``max_connections`` of the tower."""

ORCHESTRATOR: Final = Orchestrator(
    startup=Figures(period_ms=1000, timeout_ms=900, failure_threshold=30),
    liveness=Figures(period_ms=1000, timeout_ms=1000, failure_threshold=3),
    readiness=Figures(period_ms=2000, timeout_ms=2000, failure_threshold=2),
)
WATCHDOG: Final = WatchdogFigures(interval_ms=1000, max_missed_ticks=3)


def matrix(db: int, cache_port: int, argv: tuple[str, ...]) -> ProbeMatrix:
    """Return what the tower depends on: two programs, the second one noncritical, and a command."""

    def http(name: str, port: int, *, critical: bool) -> Dependency:
        return Dependency(
            name=name,
            critical=critical,
            probe=Http(url=f"http://127.0.0.1:{port}/health"),
            interval_ms=1000,
            timeout_ms=800,
            cache_ms=3000,
            success_threshold=2,
        )

    check = Dependency(
        name="check", critical=True, probe=Command(argv=argv), interval_ms=2000, timeout_ms=1500, cache_ms=6000
    )
    rows = (http("db", db, critical=True), http("cache", cache_port, critical=False), check)
    return ProbeMatrix(orchestrator=ORCHESTRATOR, watchdog=WATCHDOG, dependencies=rows)


_ROWS: Final = {row.name: row for row in matrix(1, 1, ("x",)).dependencies}
_READINESS_SECONDS: Final = ORCHESTRATOR.readiness.period_ms / 1000


def noticed(name: str) -> float:
    """Return by when a dependency that fails shows in readiness (HL-8.5)."""
    return verdict_bounds(_ROWS[name], _READINESS_SECONDS)[0] + SLACK_SECONDS


def back(name: str) -> float:
    """Return by when it shows that it answers again."""
    return verdict_bounds(_ROWS[name], _READINESS_SECONDS)[1] + SLACK_SECONDS


def interval(name: str) -> float:
    """Return how far apart its runs are."""
    return _ROWS[name].interval_ms / 1000


@cache
def page_figure(file: str, name: str) -> float:
    """Return a constant of the page's, in seconds. Raises ``LookupError`` where it is not there."""
    text = files("idkmesh.control_tower").joinpath("static", file).read_text(encoding="utf-8")
    found = re.search(rf"const {name} = (\d+);", text)
    if found is None:
        raise LookupError(f"{file} has no {name}")
    return int(found[1]) / 1000


def page_asks() -> float:
    """Return by when the page shows what the node answers: the next beat, and what its question may wait for."""
    return page_figure("poll.js", "BEAT") + page_figure("poll.js", "BEHIND") + SLACK_SECONDS


def page_silent() -> float:
    """Return by when it says that nobody answers: the next beat, and its patience."""
    return page_figure("poll.js", "BEAT") + page_figure("poll.js", "BEHIND") + page_figure("api.js", "PATIENCE")


def page_back() -> float:
    """Return by when it has asked again after a silence: its last question's patience, and its slowest pause."""
    slowest = page_figure("poll.js", "SLOWEST") * 1.25  # the pause is spread by a quarter
    return page_figure("api.js", "PATIENCE") + slowest + page_asks()


LOOKED: Final = INTERVAL_SECONDS + CHILD_SECONDS
"""Until the adapter has looked again (RA-7.1, RA-7.2)."""
NODE_LOOKED: Final = LOOK_SECONDS
STALE: Final = MAX_AGE_SECONDS + SLACK_SECONDS
"""Until an adapter says no of a node that answers nothing (RA-3.3)."""
PRESSURE: Final = PRESSURE_SECONDS
SILENT: Final = ASK_SECONDS + SLACK_SECONDS
"""Until an observer has told that nobody answers."""
STALLED: Final = WATCHDOG.budget_seconds + SLACK_SECONDS
RESTART: Final = patience(ORCHESTRATOR.liveness) + SLACK_SECONDS
"""Until an orchestrator has decided on a restart, of a node that answers nothing."""
SPARED: Final = (ORCHESTRATOR.liveness.period_ms + ORCHESTRATOR.liveness.timeout_ms) / 1000 + SLACK_SECONDS
"""Until it asks again."""
STARTED: Final = START_SECONDS + SLACK_SECONDS
REGISTRY_LOST: Final = SILENT_SECONDS + TRUST_SECONDS + PAUSE_SECONDS + SLACK_SECONDS
"""Until a registry that is silent or cut off shows (RT-7.3)."""
REGISTRY_BACK: Final = MOST_SECONDS + PAUSE_SECONDS + REQUEST_SECONDS + SLACK_SECONDS
"""Until an observation is right again (RT-3.5, RT-7.3)."""
CHANGE: Final = SLACK_SECONDS
"""A change of a registry that is well: 50 ms (RT-7.4), and the slack."""
STORE_REFUSES: Final = CALL_SECONDS + SLACK_SECONDS
STORE_TAKES: Final = RETRY_SECONDS + SLACK_SECONDS
SLACK: Final = SLACK_SECONDS
FORWARD: Final = FORWARD_SECONDS + LOOK_SECONDS + LOOKED + SLACK_SECONDS
"""Until a wall clock that was ahead is no longer behind what was recorded then (RA-5.7)."""
_PASS: Final = max(PASS_SECONDS, COMMAND_SECONDS + KILL_SECONDS + HELD_SECONDS) + SLACK_SECONDS
"""From a pass of the supervisor's to the next, where a command hangs (AR-3.4)."""
_ASKED: Final = ORCHESTRATOR.liveness.period_ms / 1000
FAILS_FOR: Final = HYSTERESIS_SECONDS[Word.FAILS] + RESTART_AFTER_SECONDS + 2 * _PASS
"""How long a fault of an instance's lasts at the least: one that its checks took for a failure would be restarted by
then (AR-5.1): from the first pass in it to the first one after 80 s."""
REPLICA_RESTARTED: Final = FAILS_FOR + _PASS + RESTART_SECONDS + _ASKED + SLACK_SECONDS
"""Until a replica whose command hangs has been restarted: and that pass, and the restart (AR-8.4)."""
REPLICA_WELL: Final = HYSTERESIS_SECONDS[Word.PASSES] + 2 * _PASS + _ASKED + SLACK_SECONDS
"""Until it is healthy again (AR-4.1): the pass under way has failed, and the last one may come a pass late."""
