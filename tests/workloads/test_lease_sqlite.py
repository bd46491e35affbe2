"""What holds for the lease in a file alone: its place, its clocks, and what is no file of ours."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.events import place
from idkmesh.events.place import beside
from idkmesh.workloads.lease import sqlite
from idkmesh.workloads.lease.lease_times import CALL_SECONDS
from idkmesh.workloads.lease.sqlite import KEPT_SECONDS, SqliteLeaseStore
from idkmesh.workloads.lease.store import Grant, LeaseStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

TTL, COOLDOWN = 15.0, 300.0


class Machine:
    """A boot clock, a boot and a wall clock that are set by hand."""

    def __init__(self, path: Path, boot: str | None = "first") -> None:
        self.path = path
        self.boot = boot
        self.seconds = 1000.0
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)

    def store(self) -> SqliteLeaseStore:
        return SqliteLeaseStore(self.path, clock=lambda: self.seconds, boot=self.boot, utc=lambda: self.wall)

    def rebooted(self, boot: str | None) -> SqliteLeaseStore:
        self.boot, self.seconds = boot, 0.0
        return self.store()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "lease.sqlite3")


def acquired(store: SqliteLeaseStore, holder: str = "one") -> Grant:
    grant = store.acquire(holder, TTL)
    assert grant is not None
    return grant


def test_the_end_is_of_the_boot_clock(machine: Machine) -> None:
    """AR-6.2: a lease is over after its ttl by the boot clock, to the instant."""
    store = machine.store()
    grant = acquired(store)
    machine.seconds += TTL - 0.001
    assert store.acquire("other", TTL) is None
    assert store.renew(grant, TTL)
    machine.seconds += TTL
    assert store.holder() is None
    assert not store.renew(grant, TTL)
    assert store.acquire("other", TTL) is not None


@pytest.mark.parametrize("jump", [timedelta(days=-4000), timedelta(days=4000)])
def test_the_wall_clock_decides_nothing(machine: Machine, jump: timedelta) -> None:
    """AR-5.3: a wall clock that jumps neither ends a cooldown nor makes it last."""
    store = machine.store()
    grant = acquired(store)
    assert store.claim(grant, "web-1", COOLDOWN)
    machine.wall += jump
    machine.seconds += 10
    assert store.renew(grant, TTL)
    assert not store.claim(grant, "web-1", COOLDOWN)
    for _ in range(100):
        machine.seconds += 10
        assert store.renew(grant, TTL)
        machine.wall -= jump / 10
        if store.claim(grant, "web-1", COOLDOWN):
            break
    assert machine.seconds == 1000 + COOLDOWN


def test_another_boot(machine: Machine) -> None:
    """AR-5.3, AR-6.2: a lease ends with its boot; a claim counts in the next one by the time that it has been up."""
    store = machine.store()
    assert store.claim(acquired(store), "web-1", COOLDOWN)
    store = machine.rebooted("second")
    grant = acquired(store, "other")
    assert not store.claim(grant, "web-1", COOLDOWN)
    machine.seconds = COOLDOWN - 1
    grant = acquired(store, "other")
    assert not store.claim(grant, "web-1", COOLDOWN)
    machine.seconds = COOLDOWN
    assert store.claim(grant, "web-1", COOLDOWN)


def test_another_boot_that_has_no_name(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-5.3: where the system does not tell boots apart a clock that has gone back does."""
    monkeypatch.setattr(sqlite, "boot_id", lambda: None)
    machine.boot = None
    store = machine.store()
    assert store.claim(acquired(store), "web-1", COOLDOWN)
    store = machine.rebooted(None)
    machine.seconds = 7
    grant = acquired(store, "other")
    assert not store.claim(grant, "web-1", COOLDOWN)
    machine.seconds = COOLDOWN
    assert store.claim(acquired(store), "web-1", COOLDOWN)


def test_an_instant_that_cannot_be(machine: Machine) -> None:
    """AR-5.3, AR-6.2: what lies ahead in the same boot blocks once more for its own length, and not for ever."""
    machine.seconds = 1e9
    store = machine.store()
    assert store.claim(acquired(store), "web-1", COOLDOWN)
    machine.seconds = 1000
    assert store.acquire("other", TTL) is None
    machine.seconds += TTL
    grant = acquired(store, "other")
    assert not store.claim(grant, "web-1", COOLDOWN)
    machine.seconds += COOLDOWN - 1
    assert not store.claim(acquired(store), "web-1", COOLDOWN)
    machine.seconds += 1
    assert store.claim(acquired_again(store, machine), "web-1", COOLDOWN)


def acquired_again(store: SqliteLeaseStore, machine: Machine) -> Grant:
    """Wait until the lease is over, and take it."""
    machine.seconds += TTL
    return acquired(store)


def test_names_are_apart(machine: Machine) -> None:
    """AR-6.1: supervisors that do not belong together share a file, and neither the lease nor claims."""
    one = machine.store()
    other = SqliteLeaseStore(machine.path, "other", clock=lambda: machine.seconds, boot="first")
    assert one.claim(acquired(one), "web-1", COOLDOWN)
    assert other.claim(acquired(other), "web-1", COOLDOWN)


def test_old_claims_go(machine: Machine) -> None:
    """AR-5.3: a claim is kept for the longest cooldown that there is, and the file does not grow for ever."""
    store = machine.store()
    grant = acquired(store)
    for number in range(20):
        assert store.claim(grant, f"web-{number}", COOLDOWN)
    machine.seconds += KEPT_SECONDS
    assert store.claim(acquired(store), "web-0", KEPT_SECONDS)
    machine.seconds += 1
    grant = acquired_again(store, machine)
    assert not store.claim(grant, "web-0", KEPT_SECONDS)
    assert store.claim(grant, "web-1", COOLDOWN)
    with sqlite3.connect(machine.path) as connection:
        rows = connection.execute("SELECT instance, time FROM claim ORDER BY instance").fetchall()
    connection.close()
    assert rows == [("web-0", "2026-01-01T00:00:00+00:00"), ("web-1", "2026-01-01T00:00:00+00:00")]


def test_its_place(tmp_path: Path) -> None:
    """AR-6.1: folders and file are made for this user alone, and what is missing is made again."""
    path = tmp_path / "state" / "deeper" / "lease.sqlite3"
    store = SqliteLeaseStore(path)
    grant = acquired(store)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.unlink()
    assert not store.renew(grant, TTL)
    assert store.acquire("other", TTL) is not None


def refused(path: Path) -> str:
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(LeaseStoreError) as caught:
        SqliteLeaseStore(path).acquire("one", TTL)
    assert (path.read_bytes() if path.is_file() else b"") == before
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    assert "event store" not in text
    return text


def test_what_is_no_file_of_ours(tmp_path: Path) -> None:
    """AR-6.1: a link, a folder, a text, another program's database and a newer one are refused and left as they are."""
    path = tmp_path / "lease.sqlite3"
    path.symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refused(path)
    path.unlink()
    path.mkdir()
    assert "folder" in refused(path)
    path.rmdir()
    path.write_text("a letter to somebody, and no database at all\n" * 100)
    assert "supervisor.lease.sqlite.path" in refused(path)
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (one)")
    connection.close()
    assert "another program's" in refused(path)
    path.unlink()
    acquired(SqliteLeaseStore(path))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    assert "schema version 2" in refused(path)


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_journal(tmp_path: Path, end: str, make: Callable[[Path], None]) -> None:
    """AR-6.1, AR-6.3: SQLite would open what is called like a journal, and wait for ever: it is refused."""
    path = tmp_path / "lease.sqlite3"
    acquired(SqliteLeaseStore(path))
    make(beside(path, end))
    assert f"lease.sqlite3{end}, where a journal of the lease store would be" in refused(path)


def test_damage_is_told(tmp_path: Path) -> None:
    """AR-5.3: a damaged file is never put aside by itself, for its claims would go too; the line says what to do."""
    path = tmp_path / "lease.sqlite3"
    store = SqliteLeaseStore(path)
    grant = acquired(store)
    for number in range(200):
        assert store.claim(grant, f"web-{number}", COOLDOWN)
    content = bytearray(path.read_bytes())
    content[4096 + 8 : -4096] = b"\xff" * (len(content) - 8192 - 8)
    path.write_bytes(content)
    assert "damaged" in (text := refused(path))
    assert "remove it" in text


@pytest.mark.parametrize("name", ["a\ud800", "\udcff"])
def test_a_name_that_no_file_can_hold(tmp_path: Path, name: str) -> None:
    """AR-6.3: half a surrogate pair, of a host's or an instance's name, is told as any other fault of the store."""
    store = SqliteLeaseStore(tmp_path / "lease.sqlite3")
    with pytest.raises(LeaseStoreError, match="a name that cannot be kept"):
        store.acquire(name, TTL)
    grant = acquired(store)
    with pytest.raises(LeaseStoreError, match="a name that cannot be kept"):
        store.claim(grant, name, COOLDOWN)


@pytest.mark.parametrize(
    "change",
    [
        *(f"UPDATE lease SET seconds = {value}" for value in ("9e999", "-9e999", "1e12", "'abc'", "x'00'")),
        *(f"UPDATE lease SET ttl = {value}" for value in ("9e999", "1e9", "'x'")),
        *(f"UPDATE lease SET holder = {value}" for value in ("x'ff00'", "''", "printf('%.*c', 1000000, 'x')")),
        "UPDATE lease SET token = x'ff'",
        "UPDATE lease SET boot = x'ff'",
        *(f"UPDATE claim SET seconds = {value}" for value in ("9e999", "-9e999", "'z'")),
        "UPDATE claim SET boot = x'07', instance = 'web-2'",
    ],
)
def test_a_row_that_nobody_wrote(tmp_path: Path, change: str) -> None:
    """AR-6.1: what this program would not write holds nothing for ever: it is damage, told, and left as it is."""
    path = tmp_path / "lease.sqlite3"
    store = SqliteLeaseStore(path)
    grant = acquired(store)
    assert store.claim(grant, "web-1", COOLDOWN)
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    before = path.read_bytes()
    calls: list[Callable[[], object]] = [lambda: store.claim(grant, "web-1", COOLDOWN)]
    if "lease" in change:
        calls += [lambda: store.renew(grant, TTL), store.holder, lambda: store.acquire("o", TTL)]
    for call in calls:
        with pytest.raises(LeaseStoreError, match=r"is damaged: it has .*remove it"):
            call()
    assert path.read_bytes() == before


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-6.1: a file is for one host: locks over a network cannot be relied upon."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(place, "MOUNTS", mounts)
    assert "network file system (nfs4)" in refused(tmp_path / "lease.sqlite3")


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    """AR-6.1: what the system says of a place is told, with what names it."""
    (tmp_path / "file").touch()
    assert "name another with supervisor.lease.sqlite.path" in refused(tmp_path / "file" / "lease.sqlite3")


LOCKING = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(600)
"""


def test_a_locked_file_ends_the_wait(tmp_path: Path) -> None:
    """AR-6.3: what holds the file longer than a call may take is an error, and its end heals it."""
    path = tmp_path / "lease.sqlite3"
    store = SqliteLeaseStore(path)
    grant = acquired(store)
    with subprocess.Popen([sys.executable, "-c", LOCKING, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(LeaseStoreError, match="locked by another process"):
            store.renew(grant, TTL)
        assert time.monotonic() - began >= CALL_SECONDS * 0.9
        process.kill()
    assert store.claim(grant, "web-1", COOLDOWN)
