"""What somebody with rights to the store's folder can do to it, and what becomes of the events."""

from __future__ import annotations

import os
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.events.bells import bell_folder
from idkmesh.events.errors import StoreError, StoreFullError, translated
from idkmesh.events.place import LONGEST_NAME, beside
from tests.events.support import NOW, ManualClock, event, events, numbers, opened, quick_check, recording

if TYPE_CHECKING:
    from pathlib import Path


def test_a_log_that_is_removed_under_the_service(path: Path) -> None:
    """EV-2.1, EV-2.7: what it holds is brought into the file, and the store is opened again: no event is lost."""
    clock = ManualClock()
    with recording(path, clock) as harness:
        for each in events(5):
            harness.recorder.emit(each)
        harness.turn()
        for end in ("-wal", "-shm"):
            beside(path, end).unlink()
        harness.recorder.emit(event(5))
        harness.turn()  # notices
        harness.turn()  # opens it again, and writes
        assert numbers(harness.published)[-1] == 6
        assert any("was removed while it was in use" in line for _, line in harness.lines)
        assert numbers(harness.recorder.read(0, 200, {}).events) == [1, 2, 3, 4, 5, 6]
    with opened(path) as again:
        assert numbers(again.read(0, 200, {}).events) == [1, 2, 3, 4, 5, 6]
    assert quick_check(path) == "ok"


def test_an_idle_reader_notices_a_removed_log(path: Path) -> None:
    """EV-2.1: a read says so too, in place of going on with a log that has no name."""
    with opened(path) as store:
        store.append(events(3))
        store.read(0, 10, {})
        beside(path, "-wal").unlink()
        with pytest.raises(StoreError, match=r"write-ahead log .* was removed"):
            store.read(0, 10, {})
        store.rescue()
        beside(path, "-shm").unlink()
        with opened(path) as again:
            assert numbers(again.read(0, 10, {}).events) == [1, 2, 3]


def test_an_older_copy_that_is_put_back(path: Path, tmp_path: Path) -> None:
    """EV-2.7: a store that ends before what was published from it is put aside: its ids would mean other events."""
    clock = ManualClock()
    copy = tmp_path / "copy"
    with recording(path, clock) as harness:
        for each in events(3):
            harness.recorder.emit(each)
        harness.turn()
        harness.recorder._store._truncate(harness.recorder._store._connection(), 0)
        shutil.copyfile(path, copy)
        for each in events(5):
            harness.recorder.emit(each)
        harness.turn()
        harness.recorder._store._truncate(harness.recorder._store._connection(), 0)
        before = harness.recorder.epoch
        copy.replace(path)
        for _ in range(4):
            harness.recorder.emit(event(9))
            harness.turn(others=True)
            clock.now += 6
        assert harness.recorder.epoch != before
        assert any("has gone back: it ends with event 3, and event 8" in line for _, line in harness.lines)
        assert harness.recorder.snapshot().warning is not None
        assert [each.epoch for each in harness.published[-4:]] == [harness.recorder.epoch] * 4


def test_a_hard_link_is_refused(path: Path) -> None:
    """EV-2.5: two names are two logs in one file."""
    with opened(path) as store:
        store.append(events(1))
    other = path.with_name("other.sqlite3")
    os.link(path, other)
    for each in (path, other):
        with pytest.raises(StoreError, match="2 names"), opened(each):
            pass
    other.unlink()
    with opened(path) as store:
        assert store.bounds().newest == 1


def test_a_name_must_leave_room(tmp_path: Path) -> None:
    """EV-2.7: the longest name can be put aside whole; a longer one is refused before anything is made."""
    longest = tmp_path / ("n" * LONGEST_NAME)
    with opened(longest) as store:
        store.append(events(1))
    longest.write_bytes(b"damaged" * 1000)
    with opened(longest) as store:
        assert store.opened.quarantined is not None
    with pytest.raises(StoreError, match="at most 200"), opened(tmp_path / "sub" / ("n" * (LONGEST_NAME + 1))):
        pass
    assert not (tmp_path / "sub").exists()


def test_giving_up_large_events_keeps_the_log_short(path: Path) -> None:
    """EV-2.4, EV-2.10: a transaction gives up 2 MiB of data, not a thousand events of 64 KiB."""
    large: dict[str, Any] = {"data": {"text": "x" * 60_000}}
    with opened(path, event_retention_count=100) as store:
        for _ in range(4):
            store.append([event(number, **large) for number in range(100)])
        steps = 1
        highest = 0
        while store.prune(NOW):
            steps += 1
            highest = max(highest, store.wal_bytes)
        assert store.bounds().floor == 300
        assert steps >= 300 * 60_000 // (2 * 1024 * 1024)
        assert highest < 12 * 1024 * 1024


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="giving a folder away is root's")
def test_a_folder_of_bells_that_is_somebody_elses(path: Path) -> None:
    """EV-2.5, EV-2.9: planted in a shared folder it would be theirs to ring and to lock."""
    bell_folder(path).mkdir()
    os.chown(bell_folder(path), 65_534, 65_534)
    with pytest.raises(StoreError, match="belongs to user id 65534"), opened(path):
        pass


def test_an_io_error_on_a_full_disk_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.8: SQLite calls a full disk an I/O error where its index does not fit."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert not isinstance(translated(error, path), StoreFullError)

    class Full:
        f_bavail = 0

    monkeypatch.setattr(os, "statvfs", lambda _folder: Full())
    assert isinstance(translated(error, path), StoreFullError)
