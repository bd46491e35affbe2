"""Producers never wait; what is committed is given away in order and once; what is lost is told."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sqlite3
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.events import inbox as inbox_module
from idkmesh.events.bells import bell_folder
from idkmesh.events.errors import StoreError, StoreFullError
from idkmesh.events.inbox import CAPACITY, CAPACITY_BYTES, Inbox
from idkmesh.events.opening import LOG_LIMIT_BYTES
from idkmesh.events.recorder import BATCH, LONG_LOG_BYTES, EventRecorder
from idkmesh.events.retention import Retention
from tests.events.support import (
    NOW,
    Harness,
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
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from idkmesh.events.envelope import Event, StoredEvent
    from idkmesh.events.sink import EventSink


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def harness(path: Path, clock: ManualClock) -> Iterator[Harness]:
    """Give a recorder without a thread."""
    with recording(path, clock) as harness:
        yield harness


def data_of(harness: Harness, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(harness.published[number].data)
    return found


@contextlib.contextmanager
def full(harness: Harness) -> Iterator[None]:
    """Leave the store without a page to take."""
    connection = harness.recorder._store.opened.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    with contextlib.suppress(sqlite3.ProgrammingError):  # closed meanwhile
        connection.execute("PRAGMA max_page_count = 1000000")


def big(count: int) -> list[Any]:
    return events(count, data={"text": "x" * 10_000})


# --- the queue -----------------------------------------------------------------------------------------------------


def test_in_order_and_together(harness: Harness) -> None:
    """EV-3.2: in the order in which they were emitted, at most 256 in one commit."""
    sink: EventSink = harness.recorder
    for each in events(600):
        sink.emit(each)
    assert harness.recorder.snapshot().queued == 600
    for _ in range(3):
        assert harness.recorder._pause() == 0.0
        harness.turn()
    assert harness.sizes == [BATCH, BATCH, 600 - 2 * BATCH]
    assert [json.loads(each.data)["number"] for each in harness.published] == list(range(600))
    assert numbers(harness.published) == list(range(1, 601))
    state = harness.recorder.snapshot()
    assert (state.floor, state.newest, state.queued) == (0, 600, 0)
    assert harness.recorder._pause() > 0


def test_a_full_queue(harness: Harness) -> None:
    """EV-3.1: what finds it full is dropped, counted, and told before what waited."""
    for each in events(CAPACITY + 76):
        harness.recorder.emit(each)
    state = harness.recorder.snapshot()
    assert (state.queued, state.dropped_total, state.refused_total) == (CAPACITY, 76, 0)
    while harness.recorder.snapshot().queued:
        harness.turn()
    assert harness.published[0].type == "idkmesh.events.refused"
    assert data_of(harness, 0) == {"refused": 0, "dropped": 76, "reason": "the queue of events was full"}
    assert len(harness.published) == CAPACITY + 1
    harness.recorder.emit(event())
    harness.turn()
    assert harness.published[-1].type == "test.numbered", "it is told once"


def test_emit_does_not_wait_for_a_write(path: Path) -> None:
    """EV-3.1: another writer holds the store; whoever emits does not notice, nor does one that asks how it stands."""
    with recording(path) as harness, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        harness.recorder.emit(event(0))
        time.sleep(0.1)  # it is in there now
        began = time.monotonic()
        for each in events(CAPACITY + 10):
            harness.recorder.emit(each)
            harness.recorder.snapshot()
        assert time.monotonic() - began < 4.0
        assert not harness.recorder.flush(0.05)
        other.execute("ROLLBACK")
        assert harness.recorder.flush(30)
        state = harness.recorder.snapshot()
        assert (state.queued, state.failing, state.refused_total) == (0, None, 0)
        assert state.dropped_total >= 10


def test_what_is_dropped_meanwhile(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.8, EV-3.1: what is dropped while the word on what was lost is written is told with the next one, once."""
    recorder = harness.recorder
    for each in events(CAPACITY + 3):
        recorder.emit(each)
    append = recorder._store.append

    def slow(found: Sequence[Event]) -> list[StoredEvent]:
        for each in events(5):
            recorder.emit(each)  # the queue is full yet
        return append(found)

    with monkeypatch.context() as patch:
        patch.setattr(recorder._store, "append", slow)
        harness.turn()
    while recorder.snapshot().queued:
        harness.turn()
    harness.turn()
    dropped = [json.loads(each.data)["dropped"] for each in harness.published if each.type != "test.numbered"]
    assert dropped == [3, 5]
    assert recorder.snapshot().dropped_total == 8


def test_the_totals_are_read_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.8: event and mark come of one look at the counters, between which a producer may drop more."""
    looks: list[int] = []

    def totals() -> tuple[int, int]:
        looks.append(1)
        return 0, 4 * len(looks)

    monkeypatch.setattr(harness.recorder, "_totals", totals)
    harness.turn()
    assert data_of(harness, 0)["dropped"] == 4
    assert harness.recorder._told == (0, 4)


def test_a_queue_of_large_events(harness: Harness) -> None:
    """EV-3.1: 8 MiB of data fill the queue too, in bytes of UTF-8; what is stored makes room again."""
    large = event(data={"text": "\u20ac" * 20_000})
    assert large.size > 60_000
    fitting = CAPACITY_BYTES // large.size
    for _ in range(fitting + 3):
        harness.recorder.emit(large)
    state = harness.recorder.snapshot()
    assert (state.queued, state.dropped_total) == (fitting, 3)
    while harness.recorder.snapshot().queued:
        harness.turn()
    harness.recorder.emit(large)
    assert harness.recorder.snapshot().dropped_total == 3
    assert harness.recorder._inbox._bytes == large.size


def test_who_waits_for_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-3.1: the wait is for what was emitted before, and has an end."""
    monkeypatch.setattr(inbox_module, "CAPACITY", 2)
    inbox = Inbox()
    assert inbox.wait_settled(0.0)
    assert inbox.put(event(1)), "the first wakes the writer"
    assert not inbox.put(event(2)), "it is awake"
    assert not inbox.put(event(3)), "dropped"
    assert (len(inbox), inbox.dropped) == (2, 1)
    assert not inbox.wait_settled(0.01)
    inbox.settle(inbox.first(10))
    assert inbox.wait_settled(0.0)
    assert inbox.put(event(4))
    inbox.close()
    assert not inbox.put(event(5))
    assert (len(inbox), inbox.dropped) == (1, 2)


def test_many_producers(path: Path) -> None:
    """EV-3.1, EV-3.2: each producer's events are in its order, none twice and none missing."""
    with recording(path) as harness:

        def produce(name: str) -> None:
            for number in range(100):
                harness.recorder.emit(event(number, subject=name))

        threads = [threading.Thread(target=produce, args=(str(each),)) for each in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert harness.recorder.flush(30)
        until(lambda: len(harness.published) == 800, "all are published")
        assert numbers(harness.published) == list(range(1, 801))
        for name in map(str, range(8)):
            found = [json.loads(each.data)["number"] for each in harness.published if each.subject == name]
            assert found == list(range(100))


def test_what_must_be_committed(path: Path) -> None:
    """AR-5.5, EV-2.8, EV-3.1: a yes is an event on the disk; a lock, a full disk and an end are a no, and in time."""
    with recording(path) as harness:
        recorder = harness.recorder
        assert recorder.commit(event(1), 10)
        with opened(path) as store:
            assert store.bounds() == (0, 1)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert not recorder.commit(event(2), 0.1)
            other.execute("ROLLBACK")
        assert recorder.flush(30), "it was taken, and is written later"
        with full(harness):
            assert not recorder.commit(big(1)[0], 10), "it was refused"
            until(lambda: recorder.snapshot().failing is not None, "it fails")
            dropped, queued = recorder.snapshot().dropped_total, recorder.snapshot().queued
            assert not recorder.commit(event(4), 10), "while the store fails it is not even taken"
            assert (recorder.snapshot().dropped_total, recorder.snapshot().queued) == (dropped, queued)
        recorder.close(5)
        assert not recorder.commit(event(5), 10)


# --- the end -------------------------------------------------------------------------------------------------------


def test_the_queue_is_written_out(path: Path) -> None:
    """EV-3.3: what was emitted before the end is in the store; what is emitted after it is counted."""
    with recording(path) as harness:
        for each in events(1000):
            harness.recorder.emit(each)
        harness.recorder.close(5)
        harness.recorder.emit(event())
        assert harness.recorder.snapshot().dropped_total == 1
        harness.recorder.close(5)
    with opened(path) as store:
        assert store.bounds() == (0, 1000)
    assert harness.lines == []


def test_without_a_thread_too(path: Path, clock: ManualClock) -> None:
    """EV-3.3: a recorder that was never started writes out what it has."""
    with recording(path, clock) as harness:
        for each in events(600):
            harness.recorder.emit(each)
    assert numbers(harness.published) == list(range(1, 601))


def test_what_is_left_is_told(harness: Harness) -> None:
    """EV-3.3: a store that takes nothing at the end: one line says what is lost, in the queue and before, untold."""
    with full(harness):
        for each in big(300):
            harness.recorder.emit(each)
        harness.turn()
        harness.recorder.close(2)
    assert harness.lines[-1][0] == logging.ERROR
    line = harness.lines[-1][1]
    assert "44 events in the queue were not written" in line
    assert "does not tell of 256 that were refused and 0 that were dropped" in line


def test_the_end_has_an_end(path: Path) -> None:
    """EV-3.3: another process holds the store: `close` is back after its time, and tells what is left."""
    with recording(path) as harness, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for each in events(3):
            harness.recorder.emit(each)
        began = time.monotonic()
        harness.recorder.close(0.2)
        assert time.monotonic() - began < 4.0
        (line,) = [line for _, line in harness.lines if "the service has ended" in line]
        assert "3 events in the queue may not have been written" in line
        other.execute("ROLLBACK")
        assert harness.recorder._thread is not None
        harness.recorder._thread.join(30)
        assert harness.told == [], "after the deadline nobody is called"
        assert len([line for _, line in harness.lines if "the service has ended" in line]) == 1
    with opened(path) as store:
        # What the writer had in hand at the deadline: nothing, or as many as there were when it took them.
        assert store.bounds().newest <= 3


# --- a store that fails --------------------------------------------------------------------------------------------


def test_a_full_disk(harness: Harness, clock: ManualClock) -> None:
    """EV-2.8: refused, counted, told once, readable, tried every 5 s; the count comes before what waited."""
    harness.recorder.emit(event(1))
    harness.turn()
    with full(harness):
        for each in big(3):
            harness.recorder.emit(each)
        harness.turn()
        state = harness.recorder.snapshot()
        assert (state.refused_total, state.queued) == (3, 0)
        assert state.failing is not None
        assert "no room left" in state.failing
        assert 0 < harness.recorder._pause() <= 5
        for each in big(2):
            harness.recorder.emit(each)
        harness.turn()
        assert harness.recorder.snapshot().queued == 2, "no try before its time"
        clock.now += 5
        harness.turn()
        state = harness.recorder.snapshot()
        assert (state.refused_total, state.queued) == (3, 2), "what waits goes on waiting"
        assert len([line for level, line in harness.lines if level == logging.ERROR]) == 1
        assert numbers(harness.recorder.read(0, 10, {}).events) == [1]
    reason = harness.recorder.snapshot().failing
    clock.now += 5
    harness.turn()
    state = harness.recorder.snapshot()
    assert (state.failing, state.refused_total, state.queued, state.newest) == (None, 3, 0, 4)
    assert [each.type for each in harness.published[1:]] == ["idkmesh.events.refused", "test.numbered", "test.numbered"]
    assert data_of(harness, 1) == {"refused": 3, "dropped": 0, "reason": reason}
    assert numbers(harness.published) == [1, 2, 3, 4], "no gap"
    assert [level for level, _ in harness.lines] == [logging.ERROR, logging.INFO]


def test_a_lock_that_lasts(harness: Harness, clock: ManualClock) -> None:
    """EV-2.8: a foreign lock refuses nothing: events wait, readiness fails meanwhile, and all are stored at last."""
    recorder = harness.recorder
    recorder._store.opened.connection.execute("PRAGMA busy_timeout = 20")
    with contextlib.closing(sqlite3.connect(recorder.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for each in events(3):
            recorder.emit(each)
        for _ in range(2):
            harness.turn()
            state = recorder.snapshot()
            assert (state.refused_total, state.dropped_total, state.queued) == (0, 0, 3)
            assert state.failing is not None
            assert "locked by another process" in state.failing
            clock.now += 5
        (line,) = [line for level, line in harness.lines if level == logging.ERROR]
        assert "events wait, a new try follows" in line
        other.execute("ROLLBACK")
    harness.turn()
    assert recorder.snapshot().failing is None
    assert [each.type for each in harness.published] == ["test.numbered"] * 3


def test_a_fault_of_ours(harness: Harness, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.8: whatever goes wrong, events are counted and the thread lives on."""

    def broken(found: object) -> None:
        raise RuntimeError("a slip")

    with monkeypatch.context() as patch:
        patch.setattr(harness.recorder._store, "append", broken)
        harness.recorder.emit(event())
        harness.turn()
    state = harness.recorder.snapshot()
    assert state.refused_total == 1
    assert state.failing == "the event recorder has a fault: RuntimeError: a slip"
    clock.now += 5
    harness.turn()
    assert harness.recorder.snapshot().failing is None
    assert [each.type for each in harness.published] == ["idkmesh.events.refused"]


def test_a_fault_of_a_taker(path: Path, clock: ManualClock) -> None:
    """EV-2.8: whoever takes events cannot stop the store with a fault of its own."""
    lines: list[tuple[str, int]] = []

    def broken(*found: object) -> None:
        raise RuntimeError("a slip")

    recorder = EventRecorder(
        path,
        Retention(),
        clock=clock,
        published=broken,
        replaced=broken,
        log=lambda line, level: lines.append((line, level)),
    )
    recorder.emit(event())
    recorder._turn(others=True)
    path.unlink()
    recorder.emit(event())
    for _ in range(2):
        recorder._turn(others=False)
    state = recorder.snapshot()
    assert (state.newest, state.failing, state.queued) == (2, None, 0)
    told = ("a taker of events has a fault: RuntimeError: a slip", logging.ERROR)
    assert lines.count(told) == 4, "an event, the new store, the event about the old one, the last event"
    recorder.close(1)


def test_a_log_that_fails(path: Path) -> None:
    """EV-2.8: a log that raises ends no thread: the store is tried again, and what waits is written."""

    def broken(line: str, level: int) -> None:
        raise OSError("nobody reads the log")

    clock = ManualClock()
    ignored: Any = lambda *found: None  # noqa: E731  shorter than a function that does nothing
    recorder = EventRecorder(path, Retention(), clock=clock, published=ignored, replaced=ignored, log=broken)
    recorder._fail("a reason", clock.now)
    recorder.emit(event())
    clock.now += 5
    recorder._turn(others=False)
    state = recorder.snapshot()
    assert (state.failing, state.newest, state.queued) == (None, 1, 0)
    recorder.close(1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_has_died(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.8: nobody writes any more, and readiness says so."""
    with recording(path, ManualClock()) as harness:

        def broken() -> float:
            raise RuntimeError("a slip")

        monkeypatch.setattr(harness.recorder, "_pause", broken)
        assert harness.recorder.snapshot().failing is None
        harness.recorder.start()
        until(lambda: harness.recorder.snapshot().failing, "it is told")
        assert "has died; restart" in str(harness.recorder.snapshot().failing)
        harness.recorder.emit(event())
        harness.recorder.close(5)
        assert numbers(harness.published) == [1], "the end of the service writes what waits"
    assert [each for each in descriptors() if str(path) in each] == []


def test_housekeeping_that_fails(harness: Harness, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.8: a store that cannot be pruned is a store that cannot be written to; the same work is tried again."""

    def broken(now: object) -> bool:
        raise StoreFullError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(harness.recorder._store, "prune", broken)
        harness.turn()
        assert harness.recorder.snapshot().failing == "no room"
        clock.now += 5
        harness.turn()
        assert harness.recorder.snapshot().failing == "no room"
    clock.now += 5
    harness.turn()
    assert harness.recorder.snapshot().failing is None
    assert harness.published == [], "nothing was lost, so there is nothing to tell"


FULL_DISK = """
import json, os, resource, signal
from pathlib import Path
from tests.events.support import ManualClock, event, events, recording
path, way = Path(sys.argv[1]), sys.argv[2]
filler = path.with_name("filler")
clock = ManualClock()
with recording(path, clock) as harness:
    recorder = harness.recorder
    recorder.emit(event(1)); harness.turn()
    if way == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    else:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096): pass
            except OSError: pass
    for each in events(20, data={"text": "x" * 60_000}): recorder.emit(each)
    harness.turn()
    failing = recorder.snapshot()
    readable = len(recorder.read(0, 200, {}).events)
    if way == "limit": resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    else: filler.unlink()
    recorder.emit(event(2))
    clock.now += 5
    harness.turn()
    state = recorder.snapshot()
    print(json.dumps({"failing": failing.failing, "refused": failing.refused_total, "readable": readable,
        "after": state.failing, "found": [[e.type, e.sequence] for e in recorder.read(0, 200, {}).events],
        "lines": [line for _, line in harness.lines]}))
"""


@pytest.mark.parametrize(
    "way",
    [
        "limit",
        pytest.param(
            "tmpfs",
            marks=pytest.mark.skipif(
                os.name != "posix" or os.geteuid() != 0 or not shutil.which("unshare"), reason="mounting is root's"
            ),
        ),
    ],
)
def test_a_disk_that_is_really_full(path: Path, way: str) -> None:
    """EV-2.8: on a file system without room, and with a limit on the size of files."""
    command = python(FULL_DISK, path, way)
    if way == "tmpfs":
        mount = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, str(path.parent), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failing"]
    assert (found["refused"], found["readable"], found["after"]) == (20, 1, None)
    assert found["found"] == [["test.numbered", 1], ["idkmesh.events.refused", 2], ["test.numbered", 3]]
    assert len(found["lines"]) == 2
    assert str(path) in found["lines"][0]


# --- several processes ---------------------------------------------------------------------------------------------


def test_events_of_others(path: Path, harness: Harness) -> None:
    """EV-2.9: one order for all; each event is published once, those of others before an own one that follows them."""
    with opened(path) as other:
        other.append(events(3))
        harness.recorder.emit(event(7))
        harness.turn()
        assert numbers(harness.published) == [1, 2, 3, 4]
        other.append(events(450))
        harness.turn(others=True)
        assert numbers(harness.published) == list(range(1, 455))
        assert max(harness.sizes) <= 256
        assert harness.recorder.snapshot().newest == 454


def test_the_past_is_not_published(path: Path, clock: ManualClock) -> None:
    """EV-2.9: what was there when the recorder was made is known, and not published again."""
    with opened(path) as store:
        store.append(events(3))
    with recording(path, clock) as harness:
        assert harness.recorder.snapshot().newest == 3
        harness.turn(others=True)
        harness.recorder.emit(event())
        harness.turn()
        assert numbers(harness.published) == [4]
        assert harness.told.count(None) == 0


def test_retention_overtakes(path: Path, clock: ManualClock) -> None:
    """EV-2.4, EV-2.9: what was given up before it could be published is a gap, and told as one."""
    with recording(path, clock, event_retention_count=100) as harness, opened(path, event_retention_count=100) as other:
        other.append(events(300))
        other.prune(NOW)
        harness.turn(others=True)
        assert harness.told[0] is None
        assert numbers(harness.published) == list(range(201, 301))
        assert (harness.recorder.snapshot().floor, harness.recorder.snapshot().newest) == (200, 300)


def test_a_folder_of_bells_that_is_removed(path: Path, harness: Harness, clock: ManualClock) -> None:
    """EV-2.9: housekeeping publishes what no bell has told, and makes a new bell that the others find."""
    harness.turn()
    lost = harness.recorder._bell
    with opened(path) as other:
        shutil.rmtree(bell_folder(path))
        other.append(events(3))
        assert harness.recorder._bell.wait(0) is False
        clock.now += 60
        harness.turn()
        assert numbers(harness.published) == [1, 2, 3]
        assert harness.recorder._bell is not lost
        other.append(events(1))
        assert harness.recorder._bell.wait(5) is True
        harness.recorder.emit(event())
        harness.turn()
        assert not harness.recorder._bell.wait(0), "its own commit does not ring it"
        assert numbers(harness.published) == [1, 2, 3, 4, 5]


def test_a_store_that_is_removed_with_its_bells(path: Path, harness: Harness) -> None:
    """EV-2.9: the bell of the new store is one that the others find."""
    harness.turn()
    shutil.rmtree(bell_folder(path))
    path.unlink()
    harness.recorder.emit(event())
    for _ in range(2):
        harness.turn()
    with opened(path) as other:
        other.append(events(1))
        assert harness.recorder._bell.wait(5) is True


def test_another_process_rings(path: Path) -> None:
    """EV-2.9: a commit of another process is published long before anything is looked at by the clock."""
    program = """
from pathlib import Path
from tests.events.support import events, opened
with opened(Path(sys.argv[1])) as store:
    for each in events(20): store.append([each])
"""
    with recording(path) as harness:
        until(lambda: harness.recorder._tidy_at > time.monotonic() + 30, "the first housekeeping is over")
        subprocess.run(python(program, path), check=True, timeout=60)
        until(lambda: len(harness.published) == 20, "all are published")
        assert numbers(harness.published) == list(range(1, 21))


# --- housekeeping --------------------------------------------------------------------------------------------------


def test_retention_once_a_minute(path: Path, clock: ManualClock) -> None:
    """EV-2.4: applied at the start and then once a minute, a thousand events a turn, so that nothing waits for it."""
    with opened(path) as store:
        for _ in range(10):
            store.append(events(250))
    with recording(path, clock, event_retention_count=100) as harness:
        for floor in (1000, 2000, 2400):
            harness.turn()
            assert harness.recorder.snapshot().floor == floor
        assert harness.recorder._pause() == 60
        for each in events(150):
            harness.recorder.emit(each)
        harness.turn()
        assert harness.recorder.snapshot().floor == 2400
        clock.now += 60
        harness.turn()
        assert harness.recorder.snapshot().floor == 2550


def test_a_foreign_reader_is_told_of(path: Path, clock: ManualClock) -> None:
    """EV-2.10, STORE-02: a line with the size when the log passes 16 MiB, one when it has shrunk; and again."""
    with recording(path, clock) as harness:
        harness.turn()
        for lines in (2, 4):
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as shell:
                shell.execute("BEGIN")
                shell.execute("SELECT count(*) FROM event").fetchone()
                while harness.recorder.snapshot().wal_bytes <= LONG_LOG_BYTES + 3 * LOG_LIMIT_BYTES:
                    for each in events(50, data={"text": "x" * 60_000}):
                        harness.recorder.emit(each)
                    harness.turn()
                assert len(harness.lines) == lines - 1
                level, line = harness.lines[-1]
                assert level == logging.WARNING
                assert int(line.split(" has ")[1].split()[0]) > LONG_LOG_BYTES
                shell.execute("ROLLBACK")
            clock.now += 60
            harness.turn()
            assert harness.recorder.snapshot().wal_bytes <= LOG_LIMIT_BYTES
            assert len(harness.lines) == lines


# --- the start -----------------------------------------------------------------------------------------------------


def test_a_place_that_cannot_be_used(tmp_path: Path) -> None:
    """EV-2.13: the constructor says so, and leaves neither thread nor descriptor behind."""
    threads = threading.active_count()
    for _ in range(3):
        with pytest.raises(StoreError):
            Harness(tmp_path, ManualClock())
    assert threading.active_count() == threads


def test_documents_of_a_recorder(harness: Harness, path: Path) -> None:
    """EV-2.8: the state is whole from the start."""
    state = harness.recorder.snapshot()
    assert state.epoch == harness.recorder.epoch
    assert (state.floor, state.newest, state.queued, state.refused_total, state.dropped_total) == (0, 0, 0, 0, 0)
    assert (state.failing, state.warning) == (None, None)
    assert harness.recorder.path == path
