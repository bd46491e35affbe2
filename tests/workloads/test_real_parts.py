"""A supervisor with nothing simulated but the instants of its passes: processes, lease and stores are real."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.ages import system_stamp
from idkmesh.workloads.boot_clock import boot_id, boot_seconds
from idkmesh.workloads.drivers.process import ProcessDriver
from idkmesh.workloads.lease.keeper import LeaseKeeper
from idkmesh.workloads.lease.sqlite import SqliteLeaseStore
from idkmesh.workloads.model import DEFAULT_PROBE_UID, Declaration, DesiredModule, Readiness, SupervisorSpec
from idkmesh.workloads.record import Key, RestartEnd
from idkmesh.workloads.snapshot import Role
from idkmesh.workloads.supervisor import Supervisor
from idkmesh.workloads.tracker_store import TrackerStore
from tests.health.probe_support import descriptors
from tests.workloads.process_support import module, waited
from tests.workloads.support import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.workloads.ages import Stamp

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")

TTL, COOLDOWN = 5.0, 300
# It is ready in its second life and later ones.
WORKER = """
import os, pathlib, time
name = os.environ["IDKMESH_INSTANCE"]
with open(f"lives-{name}", "a") as lives:
    lives.write("life ")
if pathlib.Path(f"lives-{name}").read_text().count("life") > 1:
    pathlib.Path(f"ready-{name}").touch()
time.sleep(3600)
"""
READY = Readiness(("sh", "-c", "test -f ready-$IDKMESH_INSTANCE"), 5)
ONE, OTHER = Key("worker", "worker-1"), Key("worker", "worker-2")


def worker(folder: Path, readiness: Readiness = READY) -> DesiredModule:
    return module(argv=(sys.executable, "-c", WORKER), cwd=str(folder), replicas=2, readiness=readiness)


def declared(worker: DesiredModule, interval: int = 5) -> Declaration:
    return Declaration(modules=(worker,), supervisor=SupervisorSpec(interval_s=interval, cooldown_s=COOLDOWN))


class Side:
    """One supervisor and its keeper, on the files of ``folder``."""

    def __init__(
        self,
        name: str,
        folder: Path,
        declaration: Declaration,
        driver: ProcessDriver,
        stamp: Callable[[], Stamp] = system_stamp,
    ) -> None:
        self.changes: list[Change] = []
        self.lines: list[str] = []
        self.keeper = LeaseKeeper(
            SqliteLeaseStore(folder / "lease.sqlite3"), name, TTL, changed=self.changes.append, log=self._log
        )
        self.supervisor = Supervisor(
            declaration,
            {"process": driver},
            self.keeper,
            TrackerStore(folder / "trackers.sqlite3"),
            uid=DEFAULT_PROBE_UID,
            changed=self.changes.append,
            record=self._record,
            log=self._log,
            stamp=stamp,
        )

    def _record(self, change: Change) -> bool:
        self.changes.append(change)
        return True

    def _log(self, line: str, _level: int) -> None:
        self.lines.append(line)

    def hold(self) -> None:
        self.keeper.start()
        assert waited(lambda: self.keeper.held() is not None)

    def restarts(self) -> list[str]:
        found = [change for change in self.changes if "restart" in change.what]
        return [f"{change.what.removeprefix('idkmesh.instance.')} {change.facts['instance']}" for change in found]

    def health(self) -> list[str]:
        return [record.tracker.health.value for record in self.supervisor.snapshot().records.values()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def driver() -> Iterator[ProcessDriver]:
    with contextlib.closing(ProcessDriver(log=lambda line, level: None)) as made:
        yield made


class Passes:
    """Makes passes five seconds apart, none of which is waited for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.boot_id, self.clock.boot, self.clock.wall = boot_id(), float(int(boot_seconds())), time.time()

    def make(self, side: Side, count: int) -> None:
        for _ in range(count):
            side.supervisor.make_pass(self.clock.stamp())
            self.clock.move(5)


def test_wedged_replicas_are_restarted_one_after_the_other(folder: Path, driver: ProcessDriver) -> None:
    """AR-5.1 to AR-5.5, AR-4.5, AR-6.4: the first 80 s after its failure, the next when that is well; then a heir."""
    passes = Passes()
    stamp = passes.clock.stamp
    one, heir = (Side(name, folder, declared(worker(folder)), driver, stamp) for name in ("one", "heir"))
    try:
        one.hold()
        passes.make(one, 16)
        assert (one.health(), one.restarts()) == (["unhealthy"] * 2, [])
        before = {instance.name: instance.identity for instance in driver.instances([worker(folder)])}
        passes.make(one, 1)
        assert one.restarts() == ["restart_requested worker-1", "restarted worker-1"]
        after = {instance.name: instance.identity for instance in driver.instances([worker(folder)])}
        assert [after[name] == before[name] for name in ("worker-1", "worker-2")] == [False, True]
        assert waited((folder / "ready-worker-1").exists)
        passes.make(one, 4)
        assert len(one.restarts()) == 2
        passes.make(one, 2)
        assert one.restarts()[2:] == ["restart_requested worker-2", "restarted worker-2"]
        assert waited((folder / "ready-worker-2").exists)
        passes.make(one, 6)
        assert one.health() == ["healthy"] * 2

        heir.keeper.start()
        assert waited(lambda: heir.keeper.holder_name() == "one")
        passes.make(heir, 1)
        assert heir.supervisor.snapshot().role is Role.STANDBY
        since = one.supervisor.snapshot().records[ONE].tracker.since
        assert one.keeper.stop(30)
        assert waited(lambda: heir.keeper.held() is not None)
        passes.make(heir, 1)
        record = heir.supervisor.snapshot().records[ONE]
        assert (record.tracker.since, record.restarts) == (since, 1)

        # Its trackers would allow another restart; the claims, whose clock nobody has moved, do not.
        (folder / "ready-worker-1").unlink()
        passes.clock.move(COOLDOWN)
        passes.make(heir, 20)
        assert heir.restarts()[:2] == ["restart_requested worker-1", "restart_failed worker-1"]
        restart = heir.supervisor.snapshot().records[ONE].restart
        assert restart is not None
        assert (restart.end, "claimed within its cooldown" in restart.detail) == (RestartEnd.FAILED, True)
        assert driver.instances([worker(folder)])[0].identity == after["worker-1"]
    finally:
        for side in (one, heir):
            side.keeper.stop(30)


def test_ended_in_the_middle_of_a_pass(folder: Path, children: Callable[..., list[int]]) -> None:
    """AR-6.3, AR-3.4: what runs is finished, nothing is begun after it, the lease is given back, nothing is left."""
    threads, open_before = threading.active_count(), descriptors()
    with contextlib.closing(ProcessDriver(log=lambda line, level: None)) as driver:
        slow = Readiness(("sh", "-c", "exec sleep 30"), 1)
        side = Side("one", folder, declared(worker(folder, slow), interval=1), driver)
        side.hold()
        side.supervisor.start()
        assert waited(lambda: len(children()) > 3)  # two workers, a guard, and a command
        began = time.monotonic()
        assert side.supervisor.stop(30)
        assert time.monotonic() - began < 20
        assert side.keeper.stop(30)
        assert side.keeper.held() is None
        assert SqliteLeaseStore(folder / "lease.sqlite3").holder() is None
    assert [change.what for change in side.changes if "restart" in change.what] == []
    assert waited(lambda: threading.active_count() == threads)
    assert children("Z") == []
    assert children() == []
    assert waited(lambda: descriptors() == open_before)


def test_another_program_holds_the_files(folder: Path, driver: ProcessDriver) -> None:
    """AR-6.1, AR-6.3: a lease's file of another program ends nothing: a standby that says why, once."""
    (folder / "lease.sqlite3").write_bytes(b"this is no database, and it is long enough to be looked at" * 20)
    side = Side("one", folder, declared(replace(worker(folder), replicas=1)), driver)
    for _ in range(3):
        side.keeper.turn()
    Passes().make(side, 1)
    assert side.supervisor.snapshot().role is Role.STANDBY
    assert len([line for line in side.lines if "lease.sqlite3" in line]) == 1
