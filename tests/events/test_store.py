"""What a store keeps, in which order, and what it refuses."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

from idkmesh.events import store as store_module
from idkmesh.events.errors import StoreBusyError, StoreDamagedError, StoreError, StoreFullError
from idkmesh.events.opening import LOG_LIMIT_BYTES
from idkmesh.events.reader import read_file
from idkmesh.events.schema import APPLICATION_ID, SCHEMA_VERSION, bring_up, marks
from idkmesh.events.store import MAX_BATCH, READER_CACHE_KIB, READERS, EventStore
from tests.events.support import NOW, PATIENCE, descriptors, event, events, numbers, opened, quick_check, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIGITS = set("0123456789abcdef")


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    with opened(path) as store:
        yield store


def raw(path: Path) -> contextlib.closing[sqlite3.Connection]:
    """Open the file as anybody can who has the right to write to it."""
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


# --- appending -----------------------------------------------------------------------------------------------------


def test_a_new_store(store: EventStore) -> None:
    """EV-1.2, EV-2.1, EV-2.6: an epoch of its own, nothing in it, marked, WAL with full sync."""
    assert len(store.epoch) == 16
    assert set(store.epoch) <= DIGITS
    assert store.bounds() == (0, 0)
    assert store.opened.notes == ()
    writer = store.opened.connection
    assert marks(writer) == (APPLICATION_ID, SCHEMA_VERSION)
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert writer.execute("PRAGMA synchronous").fetchone() == (2,), "2 is FULL"


def test_two_stores_have_two_epochs(tmp_path: Path) -> None:
    """EV-1.2: random for each store, and the same one when it is opened again."""
    with opened(tmp_path / "a") as one, opened(tmp_path / "b") as other:
        assert one.epoch != other.epoch
        epoch = one.epoch
    with opened(tmp_path / "a") as again:
        assert again.epoch == epoch


def test_append_and_read(store: EventStore) -> None:
    """EV-1.2, EV-2.1, EV-2.2: sequences from 1 on, by one; what is read is what was appended."""
    first = store.append([event(1), event(2, subject="s")])
    second = store.append([event(3)])
    assert numbers(first + second) == [1, 2, 3]
    assert store.append([]) == []
    batch = store.read(0, 10, {})
    assert batch.events == first + second
    assert (batch.position, batch.floor, batch.newest) == (3, 0, 3)
    assert first[1].subject == "s"
    assert first[0].epoch == store.epoch


def test_the_order_is_not_that_of_the_times(store: EventStore) -> None:
    """EV-1.4: the store looks at no clock: an event of the past is the newest if it was appended last."""
    store.append([event(1), event(2, time=NOW - dt.timedelta(days=1))])
    assert [each.time for each in store.read(0, 10, {}).events] == [
        "2026-01-02T03:04:05.678Z",
        "2026-01-01T03:04:05.678Z",
    ]


def test_together_or_not_at_all(store: EventStore, path: Path) -> None:
    """EV-2.2: a call that fails stores none of its events and takes no sequence."""
    store.append([event(1)])
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER t BEFORE INSERT ON event WHEN NEW.type = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        with pytest.raises(StoreError):
            store.append([event(2), event(3, type="bad")])
        connection.execute("DROP TRIGGER t")
    assert store.bounds() == (0, 1)
    assert numbers(store.append([event(4)])) == [2]


def test_a_full_file(store: EventStore) -> None:
    """EV-2.2, EV-2.8: no room is one line that says what to do; nothing of the call is there; later calls go on."""
    kept = store.append(events(3))
    store.tidy()
    connection = store.opened.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFullError, match="make room") as full:
        store.append(events(100))
    assert str(store.path) in str(full.value)
    assert store.read(0, 10, {}).events == kept
    connection.execute("PRAGMA max_page_count = 1000000")
    assert numbers(store.append([event()])) == [4]


def test_a_lock_that_does_not_come(store: EventStore, path: Path) -> None:
    """EV-2.1, EV-2.8: the wait for another writer has an end, and so has its line."""
    store.opened.connection.execute("PRAGMA busy_timeout = 50")
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match="locked by another process"):
            store.append([event()])
        other.execute("ROLLBACK")
    assert numbers(store.append([event()])) == [1]


def test_how_long_a_writer_waits(store: EventStore) -> None:
    """EV-2.1: 5 s, and again after the log was truncated, which does not wait."""
    store.append([event()])
    store.tidy()
    assert store.opened.connection.execute("PRAGMA busy_timeout").fetchone() == (5000,)


def test_a_closed_store(path: Path) -> None:
    """EV-2.8: one line; closing again does nothing."""
    with opened(path) as store:
        store.append([event()])
        store.close()
        for use in (
            lambda: store.append([event()]),
            lambda: store.read(0, 1, {}),
            store.bounds,
            lambda: store.prune(NOW),
        ):
            with pytest.raises(StoreError, match="closed"):
                use()
    assert quick_check(path) == "ok"


def test_closing_waits_for_no_reader(store: EventStore) -> None:
    """EV-2.12: while an append keeps `close` waiting nobody is lent a connection, so that none stays open after it."""
    store.append([event()])
    store.read(0, 1, {})
    before = len(descriptors())
    closing = threading.Thread(target=store.close)
    with store._writing, store._reading():
        closing.start()
        until(lambda: store._closed, "it has begun")
        with pytest.raises(StoreError, match="closed"):
            store.read(0, 1, {})
    closing.join()
    assert store._idle == []
    assert [each for each in descriptors() if str(store.path) in each] == []
    assert len(descriptors()) < before


class Crowd:
    """Threads that read a store at once, and stay within until the gate opens."""

    def __init__(self, store: EventStore, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.within = 0
        self.waiting = 0
        self.closed = 0
        self._store = store
        self._lock = threading.Lock()
        self._wait = store._pooling.wait
        self.gate = threading.Event()
        monkeypatch.setattr(store._pooling, "wait", self._counted)
        monkeypatch.setattr(store_module, "BUSY_SECONDS", PATIENCE)
        self.threads = [threading.Thread(target=self._read) for _ in range(count)]
        for thread in self.threads:
            thread.start()
        until(lambda: self.within + self.waiting >= count, "each reads or waits")

    def _counted(self, timeout: float | None = None) -> bool:
        self.waiting += 1  # under the lock of the condition
        return self._wait(timeout)

    def _read(self) -> None:
        try:
            with self._store._reading() as connection:
                connection.execute("SELECT count(*) FROM event").fetchall()
                with self._lock:
                    self.within += 1
                assert self.gate.wait(PATIENCE)
        except StoreError:
            with self._lock:
                self.closed += 1

    def end(self) -> None:
        self.gate.set()
        for thread in self.threads:
            thread.join(PATIENCE)


def test_a_crowd_of_readers_leaves_no_descriptor(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.14: four read at once and the others wait, each has its turn, and the descriptors are those of four."""
    store.append(events(3))
    crowd = Crowd(store, 20, monkeypatch)
    assert (crowd.within, crowd.waiting) == (READERS, 20 - READERS)
    crowd.end()
    assert (crowd.within, crowd.closed) == (20, 0)
    mine = [each for each in descriptors() if each.startswith(str(store.path))]
    assert len(mine) <= 2 * (READERS + 1) + 1  # file and log of each and of the writer, and the log's index


def test_closing_ends_the_wait_of_readers(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.14, EV-2.8: who waits to read when the store is closed is told so, and nothing stays open."""
    store.append(events(3))
    crowd = Crowd(store, READERS + 3, monkeypatch)
    store.close()
    until(lambda: crowd.closed == 3, "those who wait are told")
    crowd.end()
    assert crowd.within == READERS
    assert [each for each in descriptors() if each.startswith(str(store.path))] == []


def test_readers_that_do_not_end_are_waited_for_with_a_bound(
    store: EventStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EV-2.14: a disk that stalls under four readers does not hold whoever else wants to read for as long."""
    store.append(events(3))
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.01)
    with contextlib.ExitStack() as readers:
        for _ in range(READERS):
            readers.enter_context(store._reading())
        with pytest.raises(StoreBusyError, match=f"^the event store {path} is being read by 4 others, none of which"):
            store.read(0, 5, {})
    assert numbers(store.read(0, 5, {}).events) == [1, 2, 3]


def test_a_reader_that_cannot_be_opened_takes_no_place(store: EventStore, path: Path) -> None:
    """EV-2.14: readers come back after as many failures as there are places."""
    store.append(events(3))
    aside = path.with_name("aside")
    path.rename(aside)
    for _ in range(READERS + 1):
        with pytest.raises(sqlite3.OperationalError):
            store._borrow()
    aside.rename(path)
    assert numbers(store.read(0, 5, {}).events) == [1, 2, 3]


def test_a_reader_keeps_few_pages(store: EventStore) -> None:
    """EV-2.14: what a reader keeps in memory is bounded by the store, whatever SQLite was built with."""
    with store._reading() as connection:
        assert connection.execute("PRAGMA cache_size").fetchone() == (-READER_CACHE_KIB,)


def test_an_event_that_does_not_fit_the_tables(store: EventStore, path: Path) -> None:
    """EV-2.7: where the next place is a wrong one, the file does not hold what was written to it."""
    store.append(events(3))
    with raw(path) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = 20")
    with pytest.raises(StoreDamagedError, match="follows the newest one"):
        store.append([event()])


# --- what the tables refuse ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET data = '{}'",
        "UPDATE event SET sequence = 9 WHERE sequence = 3",
        "UPDATE OR IGNORE event SET type = 'x' WHERE sequence = 1",
        "DELETE FROM event",
        "DELETE FROM event WHERE sequence = 3",
        "INSERT OR REPLACE INTO event SELECT * FROM event WHERE sequence = 2",
        "REPLACE INTO event SELECT sequence, epoch, 'x', source, subject, time, data, datadigest FROM event",
        "INSERT INTO event SELECT 9, epoch, type, source, subject, time, data, datadigest FROM event LIMIT 1",
        "INSERT INTO event SELECT 0, epoch, type, source, subject, time, data, datadigest FROM event LIMIT 1",
        "INSERT INTO event SELECT 4, 'another', type, source, subject, time, data, datadigest FROM event LIMIT 1",
        "UPDATE meta SET epoch = '0123456789abcdef'",
        "UPDATE meta SET floor = 4",
        "UPDATE meta SET floor = -1",
        "UPDATE meta SET one = 2",
        "DELETE FROM meta",
        "INSERT INTO meta (one, epoch, floor) VALUES (2, '0123456789abcdef', 0)",
        "REPLACE INTO meta (one, epoch, floor) VALUES (1, '0123456789abcdef', 0)",
    ],
)
def test_what_the_tables_refuse(store: EventStore, path: Path, statement: str) -> None:
    """EV-2.3: whoever writes to the file: no event changes, goes early, or comes out of order; floor and epoch hold."""
    kept = store.append(events(3))
    with raw(path) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    batch = store.read(0, 10, {})
    assert batch.events == kept
    assert (batch.floor, batch.newest) == (0, 3)


def test_the_floor_only_rises(store: EventStore, path: Path) -> None:
    """EV-2.3: an event goes once the floor has risen to it; the floor does not come back."""
    store.append(events(3))
    with raw(path) as connection:
        connection.execute("UPDATE meta SET floor = 2")
        connection.execute("DELETE FROM event WHERE sequence <= 2")
        for statement in ("UPDATE meta SET floor = 1", "DELETE FROM event WHERE sequence = 3"):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)
    assert store.bounds() == (2, 3)


# --- retention -----------------------------------------------------------------------------------------------------


def pruned(store: EventStore, now: dt.datetime = NOW) -> int:
    """Prune until nothing more is due, and return how many calls it took."""
    calls = 1
    while store.prune(now):
        calls += 1
    return calls


def test_too_many(path: Path) -> None:
    """EV-2.4: the newest stay, at most 1,000 go in one transaction, and sequences are never used again."""
    with opened(path, event_retention_count=100) as store:
        for _ in range(9):
            store.append(events(256))
        assert pruned(store) == 3
        assert store.bounds() == (2204, 2304)
        assert numbers(store.read(0, 200, {}).events) == list(range(2205, 2305))
        assert pruned(store) == 1
        assert store.bounds() == (2204, 2304)
    assert quick_check(path) == "ok"


def test_too_old(path: Path) -> None:
    """EV-2.4: what is too old goes by its own time; the order goes on where it was."""
    with opened(path, event_retention_age=60.0) as store:
        store.append([event(time=NOW - dt.timedelta(seconds=61)) for _ in range(1500)])
        store.append([event(time=NOW - dt.timedelta(seconds=60)), event()])
        assert pruned(store) == 2
        assert store.bounds() == (1500, 1502)
        assert numbers(store.append([event(time=NOW + dt.timedelta(days=1))])) == [1503]
        pruned(store, NOW + dt.timedelta(days=1))
        assert store.bounds() == (1502, 1503)
    with opened(path) as again:
        assert again.bounds() == (1502, 1503)


def test_a_clock_that_has_stepped_forward(path: Path) -> None:
    """EV-2.4: age counts back from the newest event where the clock is later, so that a step empties no store."""
    with opened(path, event_retention_age=60.0) as store:
        store.append([event(time=NOW - dt.timedelta(seconds=61)), event(time=NOW - dt.timedelta(seconds=30)), event()])
        pruned(store, NOW + dt.timedelta(days=365 * 12))
        assert store.bounds() == (1, 3)
        store.append([event(time=NOW + dt.timedelta(days=365 * 12))])
        pruned(store, NOW)
        assert store.bounds() == (1, 4), "an event of the future makes no other older"


def test_one_wrong_clock_empties_no_store(path: Path) -> None:
    """EV-2.4: an event of the first years takes none before it along, and goes when they go."""
    with opened(path, event_retention_age=60.0) as store:
        store.append([event(), event(time=dt.datetime(1, 1, 2, tzinfo=dt.UTC)), event()])
        pruned(store)
        assert store.bounds() == (0, 3)
        store.append([event(time=NOW + dt.timedelta(seconds=61))])
        pruned(store, NOW + dt.timedelta(seconds=61))
        assert store.bounds() == (3, 4)


# --- reading -------------------------------------------------------------------------------------------------------


def test_pages_upwards_and_downwards(store: EventStore) -> None:
    """EV-4.3: every event once, whichever way; the position says where the next page begins."""
    store.append(events(25))
    upwards, position = [], 0
    while batch := store.read(position, 10, {}).events:
        upwards += numbers(batch)
        position = batch[-1].sequence
    assert upwards == list(range(1, 26))
    downwards, position = [], 26
    while (found := store.read(position, 10, {}, descending=True)).events:
        downwards += numbers(found.events)
        position = found.position
    assert downwards == upwards[::-1]
    assert found.position == found.floor == 0


def test_filters(store: EventStore) -> None:
    """EV-4.2: exact matches, all of them together, and progress where little matches."""
    store.append([event(n, type=f"t{n % 2}", source=f"s{n % 3}", subject=None if n % 5 else "x") for n in range(30)])
    assert len(store.read(0, 200, {"type": "t1"}).events) == 15
    assert numbers(store.read(0, 200, {"type": "t1", "source": "s1", "subject": "x"}).events) == [26]
    assert numbers(store.read(10, 1, {"subject": "x"}).events) == [11]
    nothing = store.read(3, 200, {"type": "T1"})
    assert (nothing.events, nothing.position) == ([], 30)
    some = store.read(0, 2, {"type": "t1"})
    assert some.position == some.events[-1].sequence == 4
    assert store.read(26, 200, {"subject": "x"}).position == 30
    assert store.read(2, 200, {"subject": "y"}, descending=True).position == 0


@pytest.mark.parametrize("name", ["type", "source", "subject"])
def test_filters_use_an_index(store: EventStore, name: str) -> None:
    """EV-4.2: a filter that matches little does not read the whole store."""
    store.bounds()  # makes the reader that the next call gets
    for descending in (False, True):
        statements: list[str] = []
        store._idle[0].set_trace_callback(statements.append)
        store.read(5, 10, {name: "x"}, descending=descending)
        store._idle[0].set_trace_callback(None)
        (query,) = [each for each in statements if f"{name} = 'x'" in each]
        plan = " ".join(str(row[3]) for row in store.opened.connection.execute(f"EXPLAIN QUERY PLAN {query}"))
        assert f"USING INDEX event_{name}" in plan
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(("limit", "wanted"), [(0, {}), (MAX_BATCH + 1, {}), (1, {"data": "x"}), (1, {"1=1; --": "x"})])
def test_what_cannot_be_asked(store: EventStore, limit: int, wanted: dict[str, str]) -> None:
    """EV-2.10: at most 200 events at once, by the three filters."""
    with pytest.raises(ValueError, match="a read takes"):
        store.read(0, limit, wanted)


@pytest.mark.parametrize(
    "change",
    [
        "subject = x'ff00'",
        "subject = ''",
        "type = ''",
        "type = replace(hex(zeroblob(200)), '0', 'x')",
        "source = x'00'",
        "time = 'soon'",
        "time = '2026-01-02T03:04:05Z'",
        "time = '2026-02-30T03:04:05.678Z'",
        "time = x'00'",
        "data = x'7b7d'",
        "epoch = '0123456789abcdef'",
    ],
)
def test_attributes_that_no_event_has(store: EventStore, path: Path, change: str) -> None:
    """EV-1.3, EV-1.5, EV-2.7: the digest does not cover them; what no store has ever written is damage too."""
    store.append(events(3, subject="s"))
    with raw(path) as connection:
        connection.execute("DROP TRIGGER event_never_changes")
        connection.execute(f"UPDATE event SET {change} WHERE sequence = 2")
    with pytest.raises(StoreDamagedError, match="event 2 is not what was written"):
        store.read(0, 10, {})


def test_a_store_that_has_lost_its_epoch(store: EventStore, path: Path) -> None:
    """EV-2.7: also while it is in use it is damage, to a reader, to retention and to a program that reads the file."""
    store.append(events(3))
    with raw(path) as connection:
        connection.execute("DROP TRIGGER meta_stays")
        connection.execute("DELETE FROM meta")
    for use in (
        lambda: store.read(0, 10, {}),
        store.bounds,
        lambda: store.prune(NOW),
        lambda: read_file(path, 0, 10, {}),
    ):
        with pytest.raises(StoreDamagedError, match="it has no epoch"):
            use()


def test_retention_by_a_time_that_is_none(store: EventStore, path: Path) -> None:
    """EV-2.4, EV-2.7: no event goes by what is no time."""
    store.append(events(3))
    with raw(path) as connection:
        connection.execute("DROP TRIGGER event_never_changes")
        connection.execute("UPDATE event SET time = 'soon' WHERE sequence = 3")
    with pytest.raises(StoreDamagedError, match="time of its newest event"):
        store.prune(NOW)


def test_a_changed_event_is_damage(store: EventStore, path: Path) -> None:
    """EV-1.3, EV-2.7: the digest is compared at each read."""
    store.append(events(3))
    with raw(path) as connection:
        connection.execute("DROP TRIGGER event_never_changes")
        connection.execute("UPDATE event SET data = '{\"number\":7}' WHERE sequence = 2")
    assert numbers(store.read(2, 10, {}).events) == [3]
    with pytest.raises(StoreDamagedError, match="event 2 is not what was written"):
        store.read(0, 10, {})


# --- the log -------------------------------------------------------------------------------------------------------


def test_readers_hold_nothing(store: EventStore) -> None:
    """EV-2.10, STORE-02: no transaction is open between two reads, so the log is truncated though a reader stalls."""
    for number in range(300):
        store.append([event(number, data={"text": "x" * 60_000})])
        if number % 50 == 0:
            store.read(0, 50, {})
        assert store.wal_bytes < 2 * LOG_LIMIT_BYTES
    assert all(not reader.in_transaction for reader in store._idle)


def test_a_foreign_reader_keeps_the_log(store: EventStore, path: Path) -> None:
    """EV-2.10, STORE-02: appending waits for nothing, the size is known, and the log shrinks when the reader ends."""
    store.append([event()])
    with raw(path) as shell:
        shell.execute("BEGIN")
        shell.execute("SELECT count(*) FROM event").fetchone()
        while store.wal_bytes < 4 * LOG_LIMIT_BYTES:
            store.append([event(data={"text": "x" * 60_000}) for _ in range(10)])
        shell.execute("ROLLBACK")
    store.tidy()
    assert store.wal_bytes == 0


# --- versions ------------------------------------------------------------------------------------------------------


def test_an_older_file_is_brought_up_in_one_transaction(path: Path) -> None:
    """EV-2.6, STORE-07: each version's steps in their order, once; a step that fails leaves the file as it was."""
    steps = [["CREATE TABLE a (x)"], ["ALTER TABLE a ADD COLUMN y", "INSERT INTO a VALUES (1, 2)"]]
    with raw(path) as connection:
        for migrations in (steps[:1], steps, steps):
            connection.execute("BEGIN IMMEDIATE")
            bring_up(connection, migrations=migrations)
            connection.execute("COMMIT")
        assert connection.execute("SELECT * FROM a").fetchall() == [(1, 2)]
        assert marks(connection) == (APPLICATION_ID, 2)
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError):
            bring_up(connection, migrations=[*steps, ["DELETE FROM a", "nonsense"]])
        connection.execute("ROLLBACK")
        assert marks(connection) == (APPLICATION_ID, 2)
        assert connection.execute("SELECT * FROM a").fetchall() == [(1, 2)]
