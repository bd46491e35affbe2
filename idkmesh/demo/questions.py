"""What looks are asked for: whether something that was announced is so (DM-3.2). Pure.

Each question has two looks, the newest and the one before the fault. A look that says nothing is no evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.demo.seen import InstanceSeen, Seen

WEDGED: Final = "web-2"
SPARED: Final = "web-1"


def verdict(name: str, verdict: str) -> Callable[[Seen, Seen], bool]:
    """Return the question whether a dependency has this verdict."""
    return lambda seen, _: seen.tower is not None and seen.tower.verdicts.get(name) == verdict


def not_ready(seen: Seen, _: Seen) -> bool:
    """Say whether the tower says that it is not ready."""
    return seen.tower is not None and seen.tower.readiness == "not_ready"


def overloaded(seen: Seen, before: Seen) -> bool:
    """Say whether more was refused as overloaded than before."""
    return seen.tower is not None and before.tower is not None and seen.tower.overloaded > before.tower.overloaded


def full(seen: Seen, _: Seen) -> bool:
    """Say whether no connection to the tower is free."""
    return seen.tower is not None and seen.tower.free_connections == 0


def tower_answers(seen: Seen, _: Seen) -> bool:
    """Say whether the tower is alive and ready."""
    return seen.alive is True and seen.tower is not None and seen.tower.readiness == "ready"


def adapter_not_live(seen: Seen, _: Seen) -> bool:
    """Say whether the adapter says not live."""
    return seen.adapter is not None and not seen.adapter.live


def adapter_not_ready(seen: Seen, _: Seen) -> bool:
    """Say whether the adapter says not ready."""
    return seen.adapter is not None and not seen.adapter.ready


def adapter_live_alone(seen: Seen, _: Seen) -> bool:
    """Say whether the adapter says live, and not ready."""
    return seen.adapter is not None and seen.adapter.live and not seen.adapter.ready


def adapter_ready(seen: Seen, _: Seen) -> bool:
    """Say whether the adapter says ready."""
    return seen.adapter is not None and seen.adapter.ready


def _instance(seen: Seen, name: str) -> InstanceSeen | None:
    return None if seen.tower is None else seen.tower.instances.get(name)


def unhealthy(seen: Seen, _: Seen) -> bool:
    """Say whether the wedged replica is unhealthy."""
    found = _instance(seen, WEDGED)
    return found is not None and found.health == "unhealthy"


def healthy(seen: Seen, _: Seen) -> bool:
    """Say whether the wedged replica is healthy."""
    found = _instance(seen, WEDGED)
    return found is not None and found.health == "healthy"


def restarted(seen: Seen, before: Seen) -> bool:
    """Say whether the wedged replica was restarted since."""
    found, then = _instance(seen, WEDGED), _instance(before, WEDGED)
    return found is not None and then is not None and found.restarts > then.restarts


def revised(times: int) -> Callable[[Seen, Seen], bool]:
    """Return the question whether the release in the topology is populated, and was changed so often since."""

    def holds(seen: Seen, before: Seen) -> bool:
        now, then = seen.tower, before.tower
        if now is None or then is None or now.release != "populated":
            return False
        return now.revision >= then.revision + times

    return holds


def _restarts(seen: Seen, *names: str) -> dict[str, int]:
    rows = {} if seen.tower is None else seen.tower.instances
    return {name: row.restarts for name, row in rows.items() if not names or name in names}


def kept(*names: str) -> Callable[[Seen, Seen], bool]:
    """Return the question whether none of these was restarted, of all that both looks know without names."""

    def holds(seen: Seen, before: Seen) -> bool:
        then = _restarts(before, *names)
        return all(then.get(name, count) == count for name, count in _restarts(seen, *names).items())

    return holds


def alive(seen: Seen, _: Seen) -> bool:
    """Say whether the tower does not say that it is stalled."""
    return seen.alive is not False  # no answer in time may be this machine's


def ready(seen: Seen, _: Seen) -> bool:
    """Say whether the tower does not say that it is not ready."""
    return seen.tower is None or seen.tower.readiness == "ready"  # a look that was refused says nothing of it
