"""What has been seen of the demo at one instant, from what the tower and the adapter answered. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSeen:
    """An instance as ``/api/v1/modules`` tells it. ``restart_in`` are the seconds until a restart falls due."""

    running: bool
    health: str
    progress: str | None
    restarts: int
    restart_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerSeen:
    """What the tower answered. ``free_connections`` is None where the node did not say."""

    readiness: str
    failing: tuple[str, ...] = ()
    verdicts: Mapping[str, str] = field(default_factory=dict)
    instances: Mapping[str, InstanceSeen] = field(default_factory=dict)
    overloaded: int = 0
    """Answers ``overloaded`` since its start."""
    free_connections: int | None = None
    release: str | None = None
    """State of the one release in the router's topology, None without a router or an invocation."""
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSeen:
    """The adapter's answers to what an orchestrator goes on asking."""

    live: bool
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known, each with the instant at which it was asked for, in monotonic seconds."""

    tower: TowerSeen | None = None
    """The last answer of the tower's API: one that is missing, or refused, says nothing new."""
    tower_at: float = 0.0
    alive: bool | None = None
    """What the tower's liveness answered to the last question, None where nobody did."""
    alive_at: float = 0.0
    adapter: AdapterSeen | None = None
    """The adapter's answers to the last questions, None where nobody gave them."""
    adapter_at: float = 0.0

    def since(self, instant: float) -> Seen:
        """Return the same without what was asked before ``instant``: it says nothing of what began then."""
        return Seen(
            tower=self.tower if self.tower_at >= instant else None,
            tower_at=self.tower_at,
            alive=self.alive if self.alive_at >= instant else None,
            alive_at=self.alive_at,
            adapter=self.adapter if self.adapter_at >= instant else None,
            adapter_at=self.adapter_at,
        )

    def unwell(self, *, routed: bool) -> tuple[str, ...]:
        """Return the names of all that is not as it should be, nothing once the demo can begin."""
        tower = self.tower
        if tower is None or not self.alive:
            return ("control tower",)
        names = [name for name, verdict in tower.verdicts.items() if verdict != "ok"]
        names += [name for name, row in tower.instances.items() if not row.running]
        if not tower.instances:
            names.append("modules")
        if routed and tower.release != "populated":
            names.append("router")
        if self.adapter is None or not self.adapter.ready:
            names.append("readiness adapter")
        return tuple(dict.fromkeys(names))


OVERLOADED: Final = "overloaded"


def tower_seen(documents: Mapping[str, Any]) -> TowerSeen:
    """Return what the documents say: ``status``, ``dependencies``, ``modules``, and ``node``, ``topology`` if there.

    Raises ``LookupError``, ``TypeError`` or ``ValueError`` for what has not their form.
    """
    operations = documents["status"]["operations"]
    readiness = operations["health"]["readiness"]
    instances = {row["name"]: _instance(row) for module in documents["modules"]["items"] for row in module["instances"]}
    node = documents.get("node")
    connections = None if node is None else node["capacity"]["connections"]
    releases = (documents.get("topology") or {}).get("observations", [])
    return TowerSeen(
        readiness=readiness["status"],
        failing=tuple(readiness["failing"]),
        verdicts={row["name"]: row["verdict"] for row in documents["dependencies"]["items"]},
        instances=instances,
        overloaded=sum(row["total"] for row in operations["refusals"] if row["code"] == OVERLOADED),
        free_connections=None if connections is None else max(0, connections["limit"] - connections["used"]),
        release=releases[0]["state"] if releases else None,
        revision=releases[0]["localRevision"] if releases else 0,
    )


def _instance(row: Mapping[str, Any]) -> InstanceSeen:
    progress = row["progress"]
    return InstanceSeen(
        running=row["state"] == "running",
        health=row["health"],
        progress=None if progress is None else progress["text"],
        restarts=row["restarts"],
        restart_in=row["restart_due_seconds"],
    )
