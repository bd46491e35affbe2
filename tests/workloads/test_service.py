"""The supervision as a whole: made of a declaration, started, read again, and ended; with processes as instances."""

from __future__ import annotations

import builtins
import contextlib
import os
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.health.watchdog import Watchdog
from idkmesh.workloads import parts
from idkmesh.workloads.document import short_document
from idkmesh.workloads.lease.sqlite import SqliteLeaseStore
from idkmesh.workloads.lease.store import LeaseStoreError
from idkmesh.workloads.model import Declaration, LeaseSpec, LxdPlatform, Readiness, SupervisorSpec
from idkmesh.workloads.parts import (
    LEASE_FILE,
    SupervisionError,
    drivers_of,
    going_on,
    holder_of_this_process,
    lease_store_of,
)
from idkmesh.workloads.reading import nothing_supervised
from idkmesh.workloads.service import COMPONENT, Supervised, WorkloadService
from idkmesh.workloads.snapshot import Role
from tests.workloads.process_support import alive, module, pid_of, waited
from tests.workloads.support import module as module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.workloads.record import Record

READY = Readiness(("true",))
STOP = 20.0


def declared(*modules: Any, lease: LeaseSpec | None = None, lxd: LxdPlatform | None = None) -> Declaration:
    spec = SupervisorSpec(interval_s=1, lease=lease or LeaseSpec(ttl_s=5))
    return Declaration(modules=modules, supervisor=spec, lxd=lxd)


WORKER = declared(module(replicas=2, readiness=READY))


class Supervision:
    """A service that runs in a folder, and what it has told."""

    def __init__(self, folder: Path, declaration: Declaration, **options: Any) -> None:
        self.changes: list[Change] = []
        self.lines: list[str] = []
        self.recorded: list[Change] = []
        self.folder = folder
        self.watchdog = Watchdog(60.0)
        self.service = WorkloadService(
            Supervised(declaration, 65534, folder / "m.yaml"),
            folder,
            changed=self.changes.append,
            record=self._record,
            log=lambda line, _level: self.lines.append(line),
            watch=lambda: self.watchdog.register(COMPONENT),
            **options,
        )

    def _record(self, change: Change) -> bool:
        self.recorded.append(change)
        return True

    @property
    def role(self) -> Role:
        return self.service.reading().snapshot.role

    def records(self, name: str = "worker") -> list[Record]:
        return self.service.reading().snapshot.records_of(name)

    def pids(self, name: str = "worker") -> list[int]:
        return [
            pid_of(record.instance) for record in self.records(name) if record.instance and record.instance.identity
        ]

    def whats(self) -> list[str]:
        return [change.what for change in self.changes]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervision]]:
    with contextlib.ExitStack() as stack:

        def start(declaration: Declaration = WORKER, folder: Path = tmp_path) -> Supervision:
            made = Supervision(folder, declaration)
            stack.callback(made.service.stop, STOP)
            made.service.start()
            return made

        yield start


# --- its life ---------------------------------------------------------------------------------------------------------


def test_it_begins_and_ends(supervise: Callable[..., Supervision], tmp_path: Path) -> None:
    """AR-6.3, AR-7.3, AR-7.7, AR-7.9, AR-8.5: it takes the lease and starts processes; the end gives both back."""
    running = supervise()
    assert waited(lambda: running.role is Role.HOLDER and len(running.pids()) == 2), running.lines
    pids = running.pids()
    assert running.watchdog.silences(0.0).keys() == {COMPONENT}
    assert running.service.stop(STOP)
    assert not any(map(alive, pids))
    assert SqliteLeaseStore(tmp_path / LEASE_FILE).holder() is None
    assert [what for what in running.whats() if "lease" in what] == ["idkmesh.lease.acquired", "idkmesh.lease.lost"]
    assert sum("the lease is ours" in line for line in running.lines) == 1
    assert not running.watchdog.silences(0.0)
    assert running.service.stop(STOP), "a second call changes nothing"
    assert sorted(path.name for path in tmp_path.iterdir()) == [LEASE_FILE, "trackers-default.sqlite3"]


def test_two_of_one_place(supervise: Callable[..., Supervision]) -> None:
    """AR-6.1, AR-6.4: the second stands by, starts nothing, names the first, and takes over when that has ended."""
    first = supervise()
    assert waited(lambda: first.role is Role.HOLDER and len(first.pids()) == 2)
    second = supervise()
    assert waited(lambda: second.role is Role.STANDBY and second.service.reading().snapshot.holder is not None)
    assert second.pids() == []
    assert sum(f"standby: {holder_of_this_process()} holds the lease default (" in line for line in second.lines) == 1
    assert first.service.stop(STOP)
    assert waited(lambda: second.role is Role.HOLDER and len(second.pids()) == 2), second.lines


def test_names_keep_supervisors_apart(supervise: Callable[..., Supervision], tmp_path: Path) -> None:
    """AR-2.8, AR-7.9: leases of two names in one folder are two, with a file of trackers each."""
    other = declared(module("other", readiness=READY), lease=LeaseSpec(ttl_s=5, name="other"))
    both = [supervise(), supervise(other)]
    assert waited(lambda: all(each.role is Role.HOLDER for each in both))
    assert waited((tmp_path / "trackers-other.sqlite3").exists)


def test_it_is_started_once(supervise: Callable[..., Supervision]) -> None:
    """Rule: two threads of passes would act twice."""
    with pytest.raises(RuntimeError, match="once"):
        supervise().service.start()


def test_one_that_never_began_ends(tmp_path: Path) -> None:
    """AR-7.7: there is nothing to wait for."""
    assert Supervision(tmp_path, WORKER).service.stop(0.0)


def test_a_lease_store_that_fails_is_told_once(supervise: Callable[..., Supervision], tmp_path: Path) -> None:
    """AR-6.3, AR-7.8: nothing is started without the lease; that its store does not answer is a line and a fault."""
    with contextlib.closing(sqlite3.connect(tmp_path / LEASE_FILE)) as foreign:
        foreign.execute("CREATE TABLE theirs (a)")
        foreign.commit()
    running = supervise()
    assert waited(lambda: any("another program's" in line for line in running.lines))
    assert waited(lambda: len(running.service.reading().snapshot.passes.starts) > 2)
    reading = running.service.reading()
    assert reading.lease_fault is not None
    assert "another program's database" in reading.lease_fault
    assert sum("another program's" in line for line in running.lines) == 1
    assert running.pids() == []
    assert "another program's" in short_document(reading.snapshot, reading.now, reading.lease_fault)["lease"]["fault"]


def test_a_lease_store_that_hangs_is_told(
    supervise: Callable[..., Supervision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AR-6.2, AR-6.3, AR-7.8: a disk that stalls: a line, a fault, and the lease is lost while nobody comes back."""
    running = supervise()
    assert waited(lambda: running.role is Role.HOLDER)
    opened = threading.Event()
    monkeypatch.setattr("idkmesh.workloads.lease.sqlite.make_folders", lambda _folder: opened.wait(60))
    try:
        assert waited(lambda: running.role is Role.STANDBY), running.lines
        assert waited(lambda: "idkmesh.lease.lost" in running.whats())
        assert "does not answer" in (running.service.reading().lease_fault or "")
        assert sum("does not answer" in line and "asked for again" in line for line in running.lines) == 1
    finally:
        opened.set()
    assert waited(lambda: running.role is Role.HOLDER)
    assert running.service.reading().lease_fault is None


# --- another declaration ----------------------------------------------------------------------------------------------


def test_what_stays_is_kept(supervise: Callable[..., Supervision]) -> None:
    """AR-7.6: the processes of a module that stays go on; those of one that goes end; one that comes is started."""
    running = supervise(declared(module(readiness=READY), module("old", readiness=READY)))
    assert waited(lambda: len(running.pids()) == 1 and len(running.pids("old")) == 1)
    (kept,), (ends,) = running.pids(), running.pids("old")
    running.service.reload(declared(module(readiness=READY), module("new", readiness=READY)))
    assert waited(lambda: len(running.pids("new")) == 1 and not alive(ends))
    assert running.pids() == [kept]
    assert alive(kept)
    (reloaded,) = (change for change in running.changes if change.what == "idkmesh.modules.reloaded")
    assert reloaded.facts == {"modules": 2, "kept": 1, "changed": 0, "added": 1, "removed": 1, "platforms": []}


def test_a_platform_that_is_no_longer_wanted_is_closed(supervise: Callable[..., Supervision]) -> None:
    """AR-7.6: without a module of it, its processes end at once, and not with the supervisor."""
    running = supervise()
    assert waited(lambda: len(running.pids()) == 2)
    pids = running.pids()
    running.service.reload(declared())
    assert waited(lambda: not any(map(alive, pids)))
    running.service.reload(WORKER)
    assert waited(lambda: len(running.pids()) == 2)


class Slow:
    """A declaration whose command runs until :meth:`end`: the pass that has begun it takes as long."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "place"
        self.place.mkdir()
        self.place.chmod(0o777)  # commands run as nobody
        command = Readiness(("sh", "-c", "touch began; until test -e go; do sleep 0.05; done; touch done"), 15)
        started = ("sh", "-c", "echo $$ >> pids; exec tail -f /dev/null")
        self.declaration = declared(module(argv=started, readiness=command, cwd=str(self.place)))

    def started(self) -> list[int]:
        """Return the processes of the module that were ever started."""
        return [int(line) for line in (self.place / "pids").read_text().split()]

    def has(self, name: str) -> bool:
        return (self.place / name).exists()

    def end(self) -> None:
        (self.place / "go").touch()


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path)


def test_a_platform_is_closed_once_no_pass_uses_it(supervise: Callable[..., Supervision], slow: Slow) -> None:
    """AR-7.6: what a pass has begun is finished first, however long it takes, and who reloads waits for none of it."""
    running = supervise(slow.declaration)
    assert waited(lambda: slow.has("began"))
    (pid,) = slow.started()
    running.service.reload(declared())
    assert not slow.has("done")
    assert alive(pid)
    slow.end()
    assert waited(lambda: not alive(pid))
    assert slow.has("done")


def test_a_reload_before_the_one_before_was_taken(supervise: Callable[..., Supervision], slow: Slow) -> None:
    """AR-7.6: processes that were taken out and put back during one pass go on: no second ones stand beside them."""
    running = supervise(slow.declaration)
    assert waited(lambda: slow.has("began"))
    running.service.reload(declared())
    running.service.reload(slow.declaration)
    slow.end()
    assert waited(lambda: running.whats().count("idkmesh.modules.reloaded") == 2 and len(running.pids()) == 1)
    assert slow.started() == running.pids()


def test_a_holder_that_is_none_any_more_says_so(
    supervise: Callable[..., Supervision], slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AR-6.4, AR-7.2: at once, and not when its pass is over: two would say that they hold it."""
    running = supervise(slow.declaration)
    assert waited(lambda: running.role is Role.HOLDER or slow.has("began"))
    slow.end()
    assert waited(lambda: running.role is Role.HOLDER and running.service.reading().snapshot.records != {})
    with monkeypatch.context() as patch:
        patch.setattr("idkmesh.workloads.lease.keeper.LeaseKeeper.held", lambda _keeper: None)
        snapshot = running.service.reading().snapshot
        assert (snapshot.role, snapshot.records, snapshot.platforms) == (Role.STANDBY, {}, {})


def test_one_that_has_ended_takes_nothing(tmp_path: Path) -> None:
    """AR-7.6, AR-7.7: what it would make for a reload nobody would close."""
    made = Supervision(tmp_path, WORKER)
    assert made.service.stop(STOP)
    with pytest.raises(SupervisionError, match="has ended"):
        made.service.reload(declared())


def test_what_was_never_taken_is_closed_at_the_end(tmp_path: Path) -> None:
    """AR-7.6, AR-7.7: drivers that a reload has made before the end are closed with it, once each."""
    made = Supervision(tmp_path, WORKER)
    closed: list[object] = []

    def close(driver: object) -> None:
        closed.append(driver)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idkmesh.workloads.drivers.process.ProcessDriver.close", close)
        made.service.reload(declared())
        made.service.reload(WORKER)
        assert made.service.stop(STOP)
    assert len(closed) == len(set(map(id, closed))) == 1


def test_a_driver_that_cannot_be_closed_is_told(tmp_path: Path) -> None:
    """AR-7.7: a fault of its own is a line, and the end goes on."""

    def close(_driver: object) -> None:
        raise OSError("no")

    made = Supervision(tmp_path, WORKER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idkmesh.workloads.drivers.process.ProcessDriver.close", close)
        assert made.service.stop(STOP)
    assert any("ProcessDriver is not closed: OSError" in line for line in made.lines)


def test_a_platform_that_has_changed_is_made_anew(tmp_path: Path) -> None:
    """AR-7.6: its driver is another one, and the others are the same."""
    sockets = [LxdPlatform(socket=str(tmp_path / name)) for name in ("a", "b")]
    both = (module_of(driver="lxd"), module(readiness=READY))
    before, after = (declared(*both, lxd=socket) for socket in sockets)
    drivers = drivers_of(before, print)
    assert going_on(drivers, before, before) == ["lxd", "process"]
    assert going_on(drivers, before, after) == ["process"]
    made = drivers_of(after, print, {"process": drivers["process"]})
    assert made["process"] is drivers["process"]
    assert made["lxd"] is not drivers["lxd"]


def test_another_lease_is_refused(supervise: Callable[..., Supervision]) -> None:
    """AR-7.6: trackers and claims belong to it, so it is read at the start alone; nothing else is taken either."""
    running = supervise()
    other = declared(module("other", readiness=READY), lease=LeaseSpec(ttl_s=30))
    with pytest.raises(SupervisionError, match="start it anew"):
        running.service.reload(other)
    assert waited(lambda: running.role is Role.HOLDER)
    assert [each.name for each in running.service.reading().snapshot.modules] == ["worker"]


HEAD = 'schema_version: "0.1"\nkind: idkmesh-modules\n'


def test_a_bad_file_keeps_the_running_one(supervise: Callable[..., Supervision], tmp_path: Path) -> None:
    """AR-7.3, AR-7.6: it is one line with the place, and an event; a good one after it is taken."""
    running = supervise()
    file = tmp_path / "m.yaml"
    file.write_text(
        f"{HEAD}modules:\n- {{name: web, kind: odd, driver: process, replicas: 1, process: {{argv: [a]}}, port: 1}}\n",
        encoding="utf-8",
    )
    assert not running.service.reload_from(file)
    assert not running.service.reload_from(tmp_path / "nothing.yaml")
    os.mkfifo(tmp_path / "fifo")  # to open it would wait for a writer
    assert not running.service.reload_from(tmp_path / "fifo")
    file.write_text(f"{HEAD}supervisor: {{lease: {{sqlite: {{}}, ttl_s: 60}}}}\nmodules: []\n", encoding="utf-8")
    assert not running.service.reload_from(file)
    file.write_text(
        f"{HEAD}supervisor: {{interval_s: 1, lease: {{sqlite: {{}}, ttl_s: 5}}}}\nmodules: []\n", encoding="utf-8"
    )
    assert running.service.reload_from(file)
    refused = [dict(change.facts) for change in running.changes if change.what == "idkmesh.modules.refused"]
    assert len(refused) == 4
    assert (refused[0]["module"], refused[0]["field"], refused[0]["line"]) == ("web", "kind", 4)
    assert "is a FIFO" in refused[2]["what"]
    assert "supervisor.lease has changed" in refused[3]["what"]
    lines = [line for line in running.lines if "the running one stays" in line]
    assert len(lines) == 4
    assert f"{file}:4:" in lines[0]


# --- parts that cannot be had -----------------------------------------------------------------------------------------


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the packages of the extras away."""
    real = builtins.__import__

    def importing(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] in {"etcd3gw", "websockets"}:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", importing)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("declaration", "extra"),
    [
        (declared(lease=LeaseSpec(kind="etcd", endpoints=("http://127.0.0.1:2379",))), "etcd"),
        (declared(module_of(driver="lxd"), lxd=LxdPlatform(socket="/run/lxd.socket")), "lxd"),
    ],
)
@pytest.mark.usefixtures("without_extras")
def test_an_extra_that_is_missing(tmp_path: Path, declaration: Declaration, extra: str) -> None:
    """AR-7.1, AR-8.2, CLI-07: one line says what to install, here and in a checkout, in quotes: a shell reads []."""
    with pytest.raises(SupervisionError) as error:
        Supervision(tmp_path, declaration)
    assert f"run pip install 'idkmesh[{extra}]', in a checkout pip install '.[{extra}]'" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "lease",
    [LeaseSpec(ttl_s=1), LeaseSpec(kind="etcd", endpoints=("ftp://nowhere",)), LeaseSpec(kind="etcd")],
)
def test_a_lease_that_cannot_be_kept(tmp_path: Path, lease: LeaseSpec) -> None:
    """AR-6.2: a declaration that was made in Python is judged where it is used."""
    with pytest.raises(SupervisionError):
        Supervision(tmp_path, declared(lease=lease))


def test_where_the_lease_is_kept(tmp_path: Path) -> None:
    """AR-2.8, AR-7.9: in the file that is named, else beside the event store."""
    named = tmp_path / "elsewhere" / "l.sqlite3"
    named.parent.mkdir()
    store = lease_store_of(LeaseSpec(path=str(named)), tmp_path)
    assert store.acquire("me", 5.0) is not None
    assert named.exists()
    assert not (tmp_path / LEASE_FILE).exists()


def test_a_folder_that_a_person_wrote_is_not_made(tmp_path: Path) -> None:
    """AR-2.8, AR-7.9: a lease in a folder that is not there is one that nobody else holds; the usual one is made."""
    folder = tmp_path / "lsae"
    spec = LeaseSpec(path=str(folder / "l.sqlite3"))
    with pytest.raises(SupervisionError, match=f"{folder} is missing; make it, or name another place with supervisor"):
        lease_store_of(spec, tmp_path)
    folder.mkdir()
    store = lease_store_of(spec, tmp_path)
    folder.rmdir()
    with pytest.raises(LeaseStoreError, match="is missing"):
        store.acquire("me", 5.0)
    assert not folder.exists()
    assert lease_store_of(LeaseSpec(), tmp_path / "state").acquire("me", 5.0) is not None


def test_a_single_look_starts_no_process() -> None:
    """AR-7.1, AR-8.5: processes belong to the supervisor that starts them."""
    drivers = drivers_of(WORKER, print, look_only=True)
    assert isinstance(drivers["process"], parts.OthersProcesses)


def test_nothing_is_supervised() -> None:
    """AR-7.2, CT-5.8: without a declaration there is no module, and the role says so."""
    known = nothing_supervised()
    document = short_document(known.snapshot, known.now, known.lease_fault)
    assert document["lease"] == {"role": "none", "held": False, "holder": None, "fault": None}
    assert (document["modules"], document["restarts_total"], document["last_pass_seconds"]) == (0, 0, None)
