"""What a service watches where nobody has written a matrix for it (HL-3.4)."""

from __future__ import annotations

from typing import Final

from idkmesh.health.model import Dependency, Disk, Figures, Orchestrator, ProbeMatrix, WatchdogFigures

DISK_ROOM: Final = "disk-room"
"""Less than 1 % of the disk is free: what comes next may not be kept."""
DISK_RESERVE: Final = "disk-reserve"
"""Less than 5 % is free: somebody should look, while there is time."""

_WATCHDOG: Final = WatchdogFigures(interval_ms=2_000, max_missed_ticks=5)
"""Ten seconds: a machine that is short of CPU takes long for a turn, and that is no deadlock."""

_FIGURES: Final = Figures(period_ms=10_000, timeout_ms=1_000, failure_threshold=3)
"""The kubelet's own defaults; nothing is held against them here."""

_ORCHESTRATOR: Final = Orchestrator(startup=_FIGURES, liveness=_FIGURES, readiness=_FIGURES)


def nothing_but_itself() -> ProbeMatrix:
    """Return a matrix without dependencies: whoever asks hears of this process alone."""
    return ProbeMatrix(orchestrator=_ORCHESTRATOR, watchdog=_WATCHDOG, dependencies=())


def room_for_files(folder: str) -> ProbeMatrix:
    """Return a matrix that watches the room on the disk under ``folder``: noncritical below 5 %, critical below 1 %."""
    rows = ((DISK_ROOM, 1.0, True), (DISK_RESERVE, 5.0, False))
    matrix = nothing_but_itself()
    dependencies = tuple(
        Dependency(
            name=name,
            critical=critical,
            probe=Disk(path=folder, min_free_percent=percent),
            timeout_ms=900,
            interval_ms=5_000,
            cache_ms=15_000,
        )
        for name, percent, critical in rows
    )
    return ProbeMatrix(orchestrator=matrix.orchestrator, watchdog=matrix.watchdog, dependencies=dependencies)
