"""Who waits for the commits of others is woken by them, and a dead process is in nobody's way."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
import time
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
from idkmesh.events.errors import StoreBusyError
from tests.events.support import event, numbers, opened, python, recording, until

if TYPE_CHECKING:
    from pathlib import Path


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
    waiter.join(10)
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
    assert time.monotonic() - began < 1.0
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

    def refused(path: object, mode: int = 0) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "mkfifo", refused)
    bell = new_bell(folder)
    assert bell.name is None
    bell.ring()
    assert bell.wait(5) is False
    assert bell.wait(0) is False
    bell.close()


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
