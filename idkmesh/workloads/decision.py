"""Which instances are to be restarted (AR-5.1, AR-5.2). Pure; seconds are those of the boot clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from idkmesh.workloads.model import InstanceState
from idkmesh.workloads.tracker import NEVER, Health, health_at, is_due

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from idkmesh.workloads.record import Key, Record


@dataclass(frozen=True, slots=True)
class Due:
    """A restart that is to be done now.

    ``alone``: every other instance of the module is known to be healthy, so no restart of anybody's is outstanding.
    """

    key: Key
    detail: str
    unhealthy_seconds: float
    alone: bool


def is_outstanding(record: Record, now: float, fresh_from: float, cooldown: float) -> bool:
    """Say whether a restart goes on in the sense of AR-5.2: not healthy again, and its cooldown is not over."""
    restart = record.restart
    if restart is None or now - restart.at >= cooldown:
        return False
    return not is_healthy(record, fresh_from)


def is_healthy(record: Record, fresh_from: float) -> bool:
    """Say whether an instance is known to be healthy."""
    return health_at(record.tracker, fresh_from) is Health.HEALTHY


def due_restarts(records: Iterable[Record], now: float, fresh_from: float, cooldown: float) -> list[Due]:
    """Return the restarts that the pass of ``now`` brings: at most one a module, of who is unhealthy the longest."""
    modules: dict[str, list[Record]] = {}
    for record in records:
        if record.restartable:
            modules.setdefault(record.key.module, []).append(record)
    found = (_due_of(replicas, now, fresh_from, cooldown) for replicas in modules.values())
    return [due for due in found if due is not None]


def cooldown_left(record: Record, now: float, cooldown: float) -> float:
    """Return the seconds until this instance may be restarted again, 0 where it may."""
    until = record.not_before if record.restart is None else max(record.not_before, record.restart.at + cooldown)
    return max(0.0, until - now)


def _due_of(replicas: Sequence[Record], now: float, fresh_from: float, cooldown: float) -> Due | None:
    if any(is_outstanding(record, now, fresh_from, cooldown) for record in replicas):
        return None
    ready = [record for record in replicas if _may_be_restarted(record, now, cooldown)]
    if not ready:
        return None
    chosen = min(ready, key=_turn)
    alone = all(is_healthy(record, fresh_from) for record in replicas if record is not chosen)
    return Due(chosen.key, chosen.tracker.detail, now - chosen.tracker.since, alone)


def _turn(record: Record) -> tuple[float, float]:
    """Return what orders those that are due: tried the longest ago while it was unhealthy, then unhealthy the longest.

    A restart that failed leaves its instance unhealthy, and so the one that is so for the longest: it would be the
    first after each cooldown, and no other one would ever have its turn.
    """
    tracker, restart = record.tracker, record.restart
    return (NEVER if restart is None or restart.at < tracker.since else restart.at), tracker.since


def _may_be_restarted(record: Record, now: float, cooldown: float) -> bool:
    instance = record.instance
    running = instance is not None and instance.state is InstanceState.RUNNING and instance.owned
    return running and is_due(record.tracker, now) and cooldown_left(record, now, cooldown) == 0
