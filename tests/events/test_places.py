"""Where a store may lie, and who may read it."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from idkmesh.events import bells, place, quarantine
from idkmesh.events.connecting import connect
from idkmesh.events.default_place import default_store
from idkmesh.events.errors import StoreError, StoreFullError, told, translated
from idkmesh.events.place import filesystem_kind, is_network
from idkmesh.events.reader import read_file
from idkmesh.events.retention import Retention
from idkmesh.events.schema import bring_up
from idkmesh.events.store import EventStore
from tests.events.support import NOW, event, events, numbers, opened

MOUNTS = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
30 22 0:40 / /srv rw,relatime shared:7 - nfs4 server:/srv rw,vers=4.2
31 30 0:41 / /srv/local rw master:1 propagate_from:2 - xfs /dev/vdb rw
32 22 0:42 / /a\040folder rw - 9p share rw
33 22 0:43 / /mnt/ssh rw - fuse.sshfs me@host: rw
34 22 0:44 / /mnt/two rw - cifs //host/a rw
35 22 0:45 / /mnt/two rw - tmpfs none rw
broken line
36 22 0:46 / - too short
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/x/events.sqlite3", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/events.sqlite3", "nfs4"),
        ("/srvx/events.sqlite3", "ext4"),
        ("/srv/local/deep/er", "xfs"),
        ("/a folder/events.sqlite3", "9p"),
        ("/mnt/ssh/x", "fuse.sshfs"),
        ("/mnt/two/x", "tmpfs"),
    ],
)
def test_kind_of_a_file_system(path: str, kind: str) -> None:
    """EV-2.11: the longest mount point says it, and of two at one place the later."""
    assert filesystem_kind(path, MOUNTS) == kind


def test_kind_that_nobody_tells() -> None:
    """EV-2.11: without a line that fits, nothing is known."""
    assert filesystem_kind("/srv/x", "") is None
    assert filesystem_kind("/srv/x", "30 22 0:40 / /other rw - nfs x rw") is None


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuse.sshfs", "fuseblk", "ceph"]
)
def test_network_kinds(kind: str) -> None:
    """EV-2.11: NFS, SMB, 9p, FUSE and their kin."""
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "apfs", "nfsd", "fused"])
def test_local_kinds(kind: str) -> None:
    """EV-2.11: what is local keeps its write-ahead log."""
    assert not is_network(kind)


@pytest.mark.parametrize("before", [False, True])
def test_a_network_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    """EV-2.11, STORE-05: a rollback journal with full sync, the file system named; a store with a log is turned."""
    path = tmp_path / "net" / "events.sqlite3"
    if before:
        with opened(path) as store:
            store.append(events(2))
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {tmp_path}/net rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(place, "MOUNTS", mounts)
    with opened(path) as store, opened(path) as other:
        for each in (store, other):
            connection = each.opened.connection
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (3,), "3 is EXTRA, FULL and the folder"
            (note,) = each.opened.notes
            assert "network file system (nfs4)" in note.line
        store.append([event()])
        other.append([event()])
        assert len(store.read(0, 10, {}).events) == (4 if before else 2)
        assert not path.with_name("events.sqlite3-wal").exists()


def test_a_system_without_mountinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.11: where nothing is told, the log is taken."""
    monkeypatch.setattr(place, "MOUNTS", tmp_path / "missing")
    with opened(tmp_path / "events.sqlite3") as store:
        assert store.opened.wal


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_modes(tmp_path: Path, mask: int) -> None:
    """EV-2.5: 0600 for files, 0700 for folders that are made, whatever the umask; a folder that is there keeps its."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)
    path = tmp_path / "there" / "made" / "too" / "events.sqlite3"
    before = os.umask(mask)
    try:
        with opened(path) as store:
            store.append([event()])
            store.read(0, 1, {})
            files = [each for each in path.parent.iterdir() if each.is_file()]
            assert {each.name for each in files} == {path.name, f"{path.name}-wal", f"{path.name}-shm"}
            assert {mode_of(each) for each in files} == {0o600}
            assert mode_of(path.with_name(f"{path.name}-bells")) == 0o700
    finally:
        os.umask(before)
    assert [mode_of(each) for each in (path.parent, path.parents[1], path.parents[2])] == [0o700, 0o700, 0o755]


def test_a_symbolic_link(tmp_path: Path) -> None:
    """EV-2.5: refused with one line, one that leads nowhere too; what it leads to is not touched."""
    (tmp_path / "real").write_bytes(b"somebody's")
    for target in ("real", "missing"):
        link = tmp_path / f"to-{target}"
        link.symlink_to(tmp_path / target)
        with pytest.raises(StoreError, match="symbolic link"), opened(link):
            pass
    assert (tmp_path / "real").read_bytes() == b"somebody's"
    assert not (tmp_path / "missing").exists()


def test_other_kinds_of_file(tmp_path: Path) -> None:
    """EV-2.7: a folder with the store's name is refused, and so is what a read of would never end."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("folder", "fifo"):
        with pytest.raises(StoreError, match="is refused; name another place"), opened(tmp_path / name):
            pass
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fifo", "folder"]


def test_a_place_that_cannot_be_made(tmp_path: Path) -> None:
    """EV-2.13: one line that names the place and says what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as refused, opened(tmp_path / "file" / "x" / "events.sqlite3"):
        pass
    assert "\n" not in str(refused.value)
    assert "--store" in str(refused.value)


@pytest.mark.parametrize(
    ("number", "said", "kind"),
    [
        (errno.EACCES, "make its folder and files writable", StoreError),
        (errno.EPERM, "make its folder and files writable", StoreError),
        (errno.EROFS, "make its folder and files writable", StoreError),
        (errno.ENOSPC, "has no room left; make room", StoreFullError),
        (errno.EDQUOT, "has no room left; make room", StoreFullError),
        (errno.EIO, "look at that place", StoreError),
        (errno.ENAMETOOLONG, "look at that place", StoreError),
    ],
)
def test_what_the_system_says(number: int, said: str, kind: type[StoreError]) -> None:
    """EV-2.8, EV-2.13: the advice fits the trouble, and the line names the file that it is about."""
    path = Path("/a/events.sqlite3")
    with pytest.raises(StoreError, match=said) as refused, told(path):
        raise OSError(number, os.strerror(number), "/a/events.sqlite3-bells/lock")
    assert type(refused.value) is kind
    assert ("writable" in str(refused.value)) is ("writable" in said)
    assert kind is StoreFullError or "(/a/events.sqlite3-bells/lock)" in str(refused.value)


@pytest.mark.parametrize(("code", "rights"), [(sqlite3.SQLITE_IOERR_WRITE, False), (sqlite3.SQLITE_CANTOPEN, True)])
def test_what_sqlite_says(code: int, rights: bool) -> None:
    """EV-2.8: who has the rights is not sent to look at them."""
    error = sqlite3.OperationalError("some trouble")
    error.sqlite_errorcode = code
    line = str(translated(error, Path("/a/events.sqlite3")))
    assert "/a/events.sqlite3" in line
    assert ("rights" in line) is rights


def test_folders_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.1: what a folder was made in is synced, so that a cut of power takes no name from the store."""
    synced: list[Path] = []
    monkeypatch.setattr(place, "sync_folder", synced.append)
    monkeypatch.setattr(bells, "sync_folder", synced.append)
    place.make_folders(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    bells.make_bell_folder(tmp_path / "a" / "b" / "events.sqlite3")
    assert synced[2:] == [tmp_path / "a" / "b"]
    place.make_folders(tmp_path / "a" / "b")
    bells.make_bell_folder(tmp_path / "a" / "b" / "events.sqlite3")
    assert len(synced) == 3, "what is there is on the disk"


def test_full_sync_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.1: on macOS fsync() ends at the disk's cache, so the stronger call is taken where there is one."""
    calls: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _descriptor, call: calls.append(call))
    place.sync_folder(tmp_path)
    assert calls == [51]


def test_full_sync_of_a_new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.1: the file of a new store is brought to the disk as every commit is."""
    found: list[object] = []

    def watched(connection: sqlite3.Connection, *, epoch: str) -> None:
        found.extend(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("fullfsync", "synchronous"))
        bring_up(connection, epoch=epoch)

    monkeypatch.setattr(quarantine, "bring_up", watched)
    with opened(tmp_path / "events.sqlite3") as store:
        assert found == [1, 3]
        assert store.opened.connection.execute("PRAGMA fullfsync").fetchone() == (1,)


@pytest.mark.parametrize("options", [(), ("immutable=1",)])
def test_connecting_makes_no_file(tmp_path: Path, options: tuple[str, ...]) -> None:
    """EV-4.5, EV-2.7: what is not there, or not any more, stays so: nothing is made by looking at it."""
    for mode in ("ro", "rw"):
        with pytest.raises(sqlite3.OperationalError):
            connect(tmp_path / "events.sqlite3", mode, *options).execute("SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_somebodys_file_beside_a_store(tmp_path: Path) -> None:
    """EV-2.7: a new store stands in the folder of the bells until it gets its name: no name beside it is taken."""
    path = tmp_path / "events.sqlite3"
    mine = [path.with_name(path.name + end) for end in ("-new", ".new", "-new-journal", ".tmp")]
    for each in mine:
        each.write_text("my rescued events")
    with opened(path) as store:
        store.append([event()])
    assert {each.read_text() for each in mine} == {"my rescued events"}


def test_a_working_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.13: one line that says what would help."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for use in (
        lambda: EventStore.open(Path("x"), retention=Retention(), now=NOW),
        lambda: read_file(Path("x"), 0, 1, {}),
    ):
        with pytest.raises(StoreError, match="the working directory was removed; name the whole path") as refused:
            use()
        assert "\n" not in str(refused.value)
    monkeypatch.chdir("/")


def test_something_where_the_bells_belong(tmp_path: Path) -> None:
    """EV-2.9: a file with the folder's name is somebody's; it is refused in one line."""
    (tmp_path / "events.sqlite3-bells").write_text("")
    with pytest.raises(StoreError, match="is no folder"), opened(tmp_path / "events.sqlite3"):
        pass


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """EV-2.13: `events.sqlite3` in the user's state directory for `idkmesh`; asking makes nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_store() == tmp_path / "idkmesh" / "events.sqlite3"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", "ü?#%41", "a'b\"c", "-x", "file:x?mode=memory", os.fsdecode(b"a\xff")])
def test_odd_names(tmp_path: Path, name: str) -> None:
    """EV-2.13: a name is a name, whatever a URI would make of it."""
    path = tmp_path / name / name
    with opened(path) as store:
        assert numbers(store.append([event()])) == [1]
        assert len(store.read(0, 1, {}).events) == 1
    assert path.stat().st_size > 0
    assert {each.name for each in path.parent.iterdir()} == {name, f"{name}-bells"}


def test_a_relative_path_after_a_change_of_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.13: a store stays where it was opened."""
    monkeypatch.chdir(tmp_path)
    with opened(Path("events.sqlite3")) as store:
        monkeypatch.chdir("/")
        store.append([event()])
        assert len(store.read(0, 1, {}).events) == 1
        assert store.path == tmp_path / "events.sqlite3"
