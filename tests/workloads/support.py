"""What the tests of supervision share: a clock that stands still, a simulated platform, a lease, and supervisors."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from idkmesh.workloads.ages import Stamp
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.lease.store import Grant, LeaseStoreError
from idkmesh.workloads.model import (
    Declaration,
    DesiredModule,
    Instance,
    InstanceState,
    ModuleKind,
    Readiness,
    Run,
    RunEnd,
    SupervisorSpec,
)
from idkmesh.workloads.record import Key
from idkmesh.workloads.supervisor import Supervisor
from idkmesh.workloads.tracker_store import TrackerStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.workloads.drivers.driver import Driver

BOOT = 4096.0
"""Instants of the tests are sums of powers of two, so that sums of them are exact."""
WALL = 1_700_000_000.0
INTERVAL, COOLDOWN = 5, 300
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""A folder whose files are in memory, None where there is none."""
PASSES, FAILS = Run(RunEnd.EXITED, "exited", 0), Run(RunEnd.EXITED, "exited", 1)
COULD_NOT = Run(RunEnd.COULD_NOT_RUN, "the daemon does not answer")
LEFT = Run(RunEnd.LEFT_BEHIND, "it left something running")


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.boot_id: str | None = "boot-1"
        self.boot = BOOT
        self.wall = WALL

    def stamp(self) -> Stamp:
        return Stamp(self.boot_id, self.boot, self.wall)

    def move(self, seconds: float) -> None:
        self.boot += seconds
        self.wall += seconds

    def reboot(self, seconds: float, boot_id: str = "boot-2") -> None:
        """Start the machine anew, ``seconds`` later by the wall clock."""
        self.boot_id, self.boot = boot_id, 64.0
        self.wall += seconds


def always() -> bool:
    """Say that the lease is ours."""
    return True


def module(name: str = "web", kind: ModuleKind = ModuleKind.STATELESS, **more: Any) -> DesiredModule:
    given: dict[str, Any] = {"driver": "sim", "instances": (f"{name}-1",), "readiness": Readiness(("/bin/check",), 3)}
    return DesiredModule(name=name, kind=kind, **(given | more))


def declaration(*modules: DesiredModule, interval: int = INTERVAL, cooldown: int = COOLDOWN) -> Declaration:
    return Declaration(modules=modules, supervisor=SupervisorSpec(interval_s=interval, cooldown_s=cooldown))


@dataclass
class Simulated:
    """One instance of the simulated platform: what its command does, and what was done to it."""

    run: Run = PASSES
    state: InstanceState = InstanceState.RUNNING
    owned: bool = True
    identity: str = "a"
    address: str | None = None
    port_health: bool | None = None
    mended_by_restart: bool = False
    more: dict[str, Any] = field(default_factory=dict)


class Platform:
    """A driver whose instances do what a test says. The real ones have suites of their own.

    ``restarts`` are the restarts with their instants; ``hook`` is called in the thread of each call, with its name.
    """

    def __init__(self, clock: ManualClock, names: Mapping[str, Sequence[str]]) -> None:
        self.clock = clock
        self.instances_of = {key: Simulated() for key in (Key(m, n) for m, each in names.items() for n in each)}
        self.restarts: list[tuple[Key, float]] = []
        self.uids: set[int] = set()
        self.silent: Exception | None = None
        self.restart_fault: Exception | None = None
        self.hook: Callable[[str, Key | None], None] = lambda _what, _key: None
        self.at_once = self.most_at_once = 0
        self.runs: list[Key] = []
        self._lock = threading.Lock()

    def __getitem__(self, text: str) -> Simulated:
        return self.instances_of[Key(*text.split("/"))]

    def all_run(self, run: Run) -> None:
        for each in self.instances_of.values():
            each.run = run

    def instances(self, modules: Sequence[DesiredModule]) -> list[Instance]:
        self.hook("instances", None)
        if self.silent is not None:
            raise self.silent
        wanted = {each.name for each in modules}
        return [
            Instance(
                module=key.module,
                name=key.name,
                state=each.state,
                identity=each.identity,
                owned=each.owned,
                address=each.address,
                port_health=each.port_health,
            )
            for key, each in self.instances_of.items()
            if key.module in wanted
        ]

    def run(self, instance: Instance, readiness: Readiness, uid: int) -> Run:
        key = Key(instance.module, instance.name)
        with self._lock:
            self.uids.add(uid)
            self.runs.append(key)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.hook("run", key)
            return self.instances_of[key].run
        finally:
            with self._lock:
                self.at_once -= 1

    def restart(self, instance: Instance, may_act: Callable[[], bool]) -> None:
        assert may_act()
        key = Key(instance.module, instance.name)
        self.restarts.append((key, self.clock.boot))
        self.hook("restart", key)
        if self.restart_fault is not None:
            raise self.restart_fault
        each = self.instances_of[key]
        each.identity += "'"
        if each.mended_by_restart:
            each.run = PASSES

    def close(self) -> None:
        pass


class LeaseTable:
    """A store of one lease and its claims, in memory: a stand-in for SQLite and etcd, which have a suite of theirs."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.grant: Grant | None = None
        self.until = 0.0
        self.claims: dict[str, float] = {}
        self.name, self.place = "default", "memory"
        self.claim_slack = 0.0
        self.silent = False
        self._count = 0

    def acquire(self, holder: str, ttl: float) -> Grant | None:
        self._ask()
        if self.grant is not None and self.clock.boot < self.until:
            return None
        self._count += 1
        self.grant, self.until = Grant(holder, f"token-{self._count}"), self.clock.boot + ttl
        return self.grant

    def renew(self, grant: Grant, ttl: float) -> bool:
        self._ask()
        if not self._is_ours(grant):
            return False
        self.until = self.clock.boot + ttl
        return True

    def release(self, grant: Grant) -> None:
        self._ask()
        if self._is_ours(grant):
            self.grant = None

    def holder(self) -> str | None:
        self._ask()
        return None if self.grant is None or self.clock.boot >= self.until else self.grant.holder

    def claim(self, grant: Grant, instance: str, cooldown: float) -> bool:
        self._ask()
        at = self.claims.get(instance)
        if not self._is_ours(grant) or (at is not None and self.clock.boot - at < cooldown + self.claim_slack):
            return False
        self.claims[instance] = self.clock.boot
        return True

    def close(self) -> None:
        pass

    def _is_ours(self, grant: Grant) -> bool:
        return self.grant == grant and self.clock.boot < self.until

    def _ask(self) -> None:
        if self.silent:
            raise LeaseStoreError("the lease's store does not answer")


class Keeper:
    """Keeps a lease when it is told to: :meth:`turn` is what a real one does each third of its time."""

    TTL = 15.0

    def __init__(self, table: LeaseTable, holder: str = "one") -> None:
        self.store: Any = table
        self._table = table
        self._name = holder
        self._grant: Grant | None = None
        self._until = 0.0
        self.hook: Callable[[str], None] = lambda _what: None

    def turn(self) -> None:
        sent = self._table.clock.boot
        if self._grant is None or not self._table.renew(self._grant, self.TTL):
            self._grant = self._table.acquire(self._name, self.TTL)
        self._until = sent + self.TTL * 0.8

    def held(self) -> Grant | None:
        self.hook("held")
        return self._grant if self._grant is not None and self._table.clock.boot < self._until else None

    def holder_name(self) -> str | None:
        return self._table.holder()


class AlwaysHeld(Keeper):
    """The same, renewed whenever somebody looks: for a test that is about something else."""

    def held(self) -> Grant | None:
        self.turn()
        return super().held()


class Game:
    """One supervisor, its clock, its platform, and what it has said."""

    def __init__(  # noqa: PLR0913  what a supervisor speaks to
        self,
        folder: Path,
        declared: Declaration,
        *,
        platform: Platform | None = None,
        clock: ManualClock | None = None,
        lease: Keeper | None = None,
        drivers: dict[str, Driver] | None = None,
        **more: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        names = {each.name: each.instances for each in declared.modules}
        self.platform = platform or Platform(self.clock, names)
        self.lease = lease or AlwaysHeld(LeaseTable(self.clock))
        self.told: list[Change] = []
        self.recorded: list[Change] = []
        self.lines: list[tuple[int, str]] = []
        self.can_record = True
        self.store = TrackerStore(folder / "trackers.sqlite3", lambda line: self.lines.append((40, line)))
        self.supervisor = Supervisor(
            declared,
            drivers or {"sim": self.platform},
            self.lease,
            self.store,
            **{
                "uid": 65534,
                "changed": self.told.append,
                "record": self.record,
                "log": lambda line, level: self.lines.append((level, line)),
                "stamp": self.clock.stamp,
                **more,
            },
        )

    def record(self, change: Change) -> bool:
        if self.can_record:
            self.recorded.append(change)
        return self.can_record

    def make_pass(self) -> None:
        self.supervisor.make_pass(self.clock.stamp())

    def play(self, seconds: float, run: Run | None = None, interval: float = INTERVAL) -> None:
        """Make the passes of so many seconds; the first of them is made now."""
        if run is not None:
            self.platform.all_run(run)
        end = self.clock.boot + seconds
        while self.clock.boot < end:
            self.make_pass()
            self.clock.move(interval)

    def health(self, text: str = "web/web-1") -> str:
        return self.supervisor.snapshot().records[Key(*text.split("/"))].tracker.health.value

    def whats(self) -> list[str]:
        return [change.what.removeprefix("idkmesh.") for change in self.told]


def silent_platform(reason: str = "the daemon does not answer") -> DriverError:
    return DriverError(reason)


def with_instances(each: DesiredModule, *names: str) -> DesiredModule:
    return replace(each, instances=names)
