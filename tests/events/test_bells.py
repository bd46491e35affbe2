"""Who waits for the commits of others is woken by them, and a dead process is in nobody's way."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.events import bells
from idkmesh.events.bells import (
    FifoBell,
    LocalBell,
    bell_folder,
    make_bell_folder,
    new_bell,
    one_at_a_time,
    ring_others,
)
from idkmesh.events.errors import StoreBusyError, StoreError
from tests.events.support import (
    ManualClock,
    descriptors,
    event,
    events,
    numbers,
    opened,
    python,
    recording,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_bell_folder(tmp_path / "events.sqlite3")


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()} - {"lock"}


def test_own_and_others(folder: Path) -> None:
    """EV-2.9: a bell says whether another process has rung; once waited for, it is silent."""
    bell, other = new_bell(folder), new_bell(folder)
    assert names(folder) == {bell.name, other.name}
    bell.ring()
    assert bell.wait(0) is False
    ring_others(folder, bell.name)
    bell.ring()
    assert bell.wait(0) is False, "it did not ring itself as another would"
    assert other.wait(5) is True
    assert other.wait(0) is False
    ring_others(folder, None)
    other.ring()
    assert bell.wait(5) is True
    assert other.wait(5) is True, "an own ring does not hide another's"
    bell.close()
    other.close()
    assert names(folder) == set()


def test_a_ring_ends_the_wait(folder: Path) -> None:
    """EV-2.9: whoever waits without an end is woken."""
    bell = new_bell(folder)
    found: list[bool] = []
    waiter = threading.Thread(target=lambda: found.append(bell.wait(None)))
    waiter.start()
    ring_others(folder, None)
    waiter.join(30)
    assert found == [True]
    bell.close()
    bell.ring()  # nobody waits, and nothing comes of it
    bell.close()


def test_a_bell_that_nobody_hears(folder: Path) -> None:
    """EV-2.9: a process that does not empty its FIFO holds up nobody, and takes a full one for a ring of others."""
    bell = new_bell(folder)
    for _ in range(70_000):
        bell.ring()
    began = time.monotonic()
    ring_others(folder, None)
    assert time.monotonic() - began < 4.0
    assert bell.wait(5) is True, "another's ring found it full"
    bell.ring()
    assert bell.wait(5) is False
    bell.close()


def test_dead_and_foreign_files(folder: Path) -> None:
    """EV-2.9: a FIFO without a reader is removed; what is no bell of ours is neither written to nor removed."""
    os.mkfifo(folder / "0123456789abcdef")
    os.mkfifo(folder / "somebody's")
    (folder / "fedcba9876543210").write_bytes(b"a file")
    (folder / "aaaaaaaaaaaaaaaa").symlink_to(folder / "fedcba9876543210")
    ring_others(folder, None)
    assert names(folder) == {"somebody's", "fedcba9876543210", "aaaaaaaaaaaaaaaa"}
    assert (folder / "fedcba9876543210").read_bytes() == b"a file"
    ring_others(folder / "missing", None)


def test_a_bell_that_is_not_yet_open(folder: Path) -> None:
    """EV-2.9: it is not taken for a dead one; what a process left in the making goes with the next bell."""
    os.mkfifo(folder / ".0123456789abcdef")
    ring_others(folder, None)
    assert names(folder) == {".0123456789abcdef"}
    bell = new_bell(folder)
    assert names(folder) == {bell.name}
    bell.close()


def test_hidden_files_of_others(folder: Path) -> None:
    """EV-2.9: only what has a bell's hidden name is taken for one that was never finished."""
    (folder / ".keep").write_bytes(b"somebody's")
    (folder / ".0123456789abcdef0").write_bytes(b"somebody's")
    bell = new_bell(folder)
    assert names(folder) == {".keep", ".0123456789abcdef0", bell.name}
    bell.close()


def test_a_bell_that_cannot_be_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.9: it leaves no descriptor, and the trouble is told as that of the place."""

    def refused(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(descriptors())
    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(OSError, match="No space"):
        new_bell(folder)
    assert len(descriptors()) == before


def test_whether_a_bell_stands(folder: Path) -> None:
    """EV-2.9: not when its name is gone, another's, or gone with the folder."""
    bell = new_bell(folder)
    assert bell.name is not None
    assert bell.stands()
    (folder / bell.name).unlink()
    assert not bell.stands()
    os.mkfifo(folder / bell.name)
    assert not bell.stands()
    shutil.rmtree(folder)
    assert not bell.stands()
    folder.write_text("")
    assert not bell.stands()
    folder.unlink()
    bell.close()


def test_a_killed_process(tmp_path: Path) -> None:
    """EV-2.9: the bell of a process that was killed is gone after the next commit."""
    path = tmp_path / "events.sqlite3"
    program = """
import os
from pathlib import Path
from tests.events.support import Harness, ManualClock
harness = Harness(Path(sys.argv[1]), ManualClock())
os.kill(os.getpid(), 9)
"""
    assert subprocess.run(python(program, path), check=False, timeout=60).returncode == -9
    assert len(names(bell_folder(path))) == 1
    with opened(path) as store:
        store.append([event()])
    assert names(bell_folder(path)) == set()


def test_a_system_without_fifos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.9: there an append of its own wakes a process, and shows it what others have appended."""
    monkeypatch.delattr(os, "mkfifo")
    path = tmp_path / "events.sqlite3"
    with recording(path) as harness, opened(path) as other:
        assert isinstance(harness.recorder._bell, LocalBell)
        other.append([event(1)])
        harness.recorder.emit(event(2))
        until(lambda: len(harness.published) == 2, "both are published")
        assert numbers(harness.published) == [1, 2]


def test_a_file_system_without_fifos(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.9: the same where only this file system refuses."""
    monkeypatch.setattr(os, "mkfifo", refusal(errno.EPERM))
    bell = new_bell(folder)
    assert bell.name is None
    assert bell.stands()
    bell.ring()
    assert bell.wait(5) is False
    assert bell.wait(0) is False
    bell.close()


def refusal(number: int) -> Callable[..., None]:
    def refused(*found: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_bell_for_one_process_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """EV-2.9: one line in the log; housekeeping publishes what others have appended."""
    monkeypatch.setattr(os, "mkfifo", refusal(number))
    path, clock = tmp_path / "events.sqlite3", ManualClock()
    with recording(path, clock) as harness, opened(path) as other:
        harness.turn()
        other.append(events(2))
        clock.now += 60
        harness.turn()
        assert numbers(harness.published) == [1, 2]
        (line,) = harness.lines
        assert "takes no FIFOs" in line[1]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EACCES])
def test_trouble_is_no_want_of_fifos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """EV-2.9, EV-2.13: any other failure is told as one, instead of a bell that nobody can ring."""
    monkeypatch.setattr(os, "mkfifo", refusal(number))
    with pytest.raises(StoreError), recording(tmp_path / "events.sqlite3", ManualClock()):
        pass


class Locked:
    """A lock that others hold: each pause takes a second, and some of them end with another holder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, changes_until: float) -> None:
        self.lock, self.now, self.changes_until = folder / "lock", 0.0, changes_until
        monkeypatch.setattr(bells, "_locked", lambda _descriptor: False)
        monkeypatch.setattr(time, "sleep", self.pause)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def pause(self, seconds: float) -> None:
        self.now += 1
        if self.now % 10 == 0 and self.now <= self.changes_until:
            self.lock.write_text(f"{self.now:016.0f}")


def test_many_that_open_a_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.6: who waits does so for as long as the lock changes hands, and 15 s for one holder."""
    held = Locked(folder, monkeypatch, changes_until=100)
    with pytest.raises(StoreBusyError, match="for 15 s"), one_at_a_time(folder):
        pass
    assert held.now == 100 + 16


def test_each_holder_shows(folder: Path) -> None:
    """EV-2.6: whoever gets the lock writes who it is, another word each time."""
    words = set()
    for _ in range(3):
        with one_at_a_time(folder):
            words.add((folder / "lock").read_text())
    assert len(words) == 3
    assert all(len(word) == 16 for word in words)


def test_one_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.6: a second process waits until the first has opened the store, and not for ever."""
    monkeypatch.setattr(bells, "OPENING_SECONDS", 0.05)
    with one_at_a_time(folder), pytest.raises(StoreBusyError, match="another process"), one_at_a_time(folder):
        pass
    with one_at_a_time(folder):
        pass


def test_a_file_system_without_locks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.6: there SQLite's own lock has to do."""

    def refused(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    with one_at_a_time(folder):
        assert (folder / "lock").exists()


def test_bells_of_one_process(folder: Path) -> None:
    """EV-2.12: a bell's descriptor goes to no program that is started."""
    bell = new_bell(folder)
    assert isinstance(bell, FifoBell)
    assert not os.get_inheritable(bell._descriptor)
    bell.close()
