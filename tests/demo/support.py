"""What the tests of the demo share: looks that are written by hand, a table that asks little, and a course to walk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from idkmesh.demo.course import Course, Do, Said
from idkmesh.demo.faults import Expectation, Fault
from idkmesh.demo.seen import AdapterSeen, InstanceSeen, Seen, TowerSeen

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = ("web-1", "web-2", "store-1", "cache-1", "worker-1")
WELL_INSTANCE = InstanceSeen(running=True, health="healthy", progress=None, restarts=0, restart_in=None)
WELL_TOWER = TowerSeen(
    readiness="ready",
    verdicts=dict.fromkeys(("store", "cache", "web-1", "web-2", "worker", "adapter"), "ok"),
    instances=dict.fromkeys(NAMES, WELL_INSTANCE),
    free_connections=60,
    release="populated",
    revision=1,
)


def seen_at(now: float, *, live: bool = True, ready: bool = True, alive: bool | None = True, **tower: Any) -> Seen:
    """Return a look at all that is well, but for what is said."""
    return Seen(
        tower=replace(WELL_TOWER, **tower),
        tower_at=now,
        alive=alive,
        alive_at=now,
        adapter=AdapterSeen(live=live, ready=ready),
        adapter_at=now,
    )


def failing(now: float, name: str, **tower: Any) -> Seen:
    return seen_at(now, verdicts={**WELL_TOWER.verdicts, name: "failing"}, **tower)


def _fails(seen: Seen, _: Seen) -> bool:
    return seen.tower is not None and seen.tower.verdicts["cache"] == "failing"


def _holds(seen: Seen, _: Seen) -> bool:
    return seen.tower is not None and seen.tower.verdicts["cache"] == "ok"


def _alive(seen: Seen, _: Seen) -> bool:
    return seen.alive is not False


def fault(key: str = "1", name: str = "slow the cache", seconds: float = 5.0) -> Fault:
    return Fault(
        key=key,
        name=name,
        does="this is done",
        see="this is to be seen",
        why="for this reason",
        seconds=seconds,
        then=(Expectation(what="the cache is failing", bound=2.0, holds=_fails),),
        stays=(Expectation(what="the node stays alive", bound=0.0, holds=_alive),),
        after=(Expectation(what="the cache is ok", bound=3.0, holds=_holds),),
    )


FIRST = fault()
SECOND = fault("2", "the second")


def course(*faults: Fault, **options: Any) -> Course:
    """Return a course that began at 100 s, and in which all has been well since."""
    found = Course(faults=faults or (FIRST, SECOND), began=100.0, **options)
    list(found.well(100.0))
    return found


def texts(things: Iterable[Said | Do]) -> list[str]:
    return [thing.text for thing in things if isinstance(thing, Said)]


def done(things: Iterable[Said | Do]) -> list[tuple[str, bool]]:
    return [(thing.fault.name, thing.undo) for thing in things if isinstance(thing, Do)]
