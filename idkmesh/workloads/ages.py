"""How old something is that another process has written down (AR-4.5). Pure but for :func:`system_stamp`.

Ages by the boot clock are true while the machine has not been started anew, its sleep included. After that the wall
clock alone tells how long it was: it is believed where it has not gone back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from idkmesh.workloads.boot_clock import boot_id, boot_seconds
from idkmesh.workloads.tracker import NEVER, Tracker

if TYPE_CHECKING:
    from idkmesh.workloads.record import Kept


@dataclass(frozen=True, slots=True)
class Stamp:
    """An instant by three clocks: which boot (None where the system does not say), seconds since it, Unix time."""

    boot_id: str | None
    boot: float
    wall: float

    @property
    def utc(self) -> datetime:
        """The wall clock, aware, in UTC: a label."""
        return datetime.fromtimestamp(self.wall, UTC)

    def label_of(self, instant: float) -> datetime:
        """Return the wall clock at an instant of the boot clock, as far as it can be told: a label."""
        return datetime.fromtimestamp(max(0.0, self.wall - max(0.0, self.boot - instant)), UTC)


def system_stamp() -> Stamp:
    """Return this instant by the clocks of the system."""
    return Stamp(boot_id(), boot_seconds(), time.time())


def shift_between(written: Stamp, now: Stamp) -> float | None:
    """Return what is to be added to instants that were written down, None where their ages cannot be told."""
    if written.boot_id is not None and written.boot_id == now.boot_id and now.boot >= written.boot:
        return 0.0
    away = now.wall - written.wall
    return None if away < 0 else now.boot - away - written.boot


def aged(kept: Kept, written: Stamp, now: Stamp) -> Kept:
    """Return what was kept with its instants in the boot clock of now.

    Where the ages cannot be told the tracker begins anew, and a restart counts as one of this moment: its claim may be
    younger than its cooldown.
    """
    shift = shift_between(written, now)
    if shift is None:
        tracker = Tracker(since=now.boot, identity=kept.tracker.identity, opened=kept.tracker.opened)
        restart = None if kept.restart is None else replace(kept.restart, at=now.boot)
        return replace(kept, tracker=tracker, restart=restart, not_before=NEVER)
    old = kept.tracker
    tracker = replace(old, since=old.since + shift, first=old.first + shift, newest=old.newest + shift)
    restart = None if kept.restart is None else replace(kept.restart, at=kept.restart.at + shift)
    return replace(kept, tracker=tracker, restart=restart, not_before=kept.not_before + shift)
