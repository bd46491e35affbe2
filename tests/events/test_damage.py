"""A damaged store is put aside whole, a new one begins, and everybody is told."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import random
import re
import shutil
import sqlite3
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.events import opening, quarantine
from idkmesh.events.bells import make_bell_folder
from idkmesh.events.errors import (
    StoreDamagedError,
    StoreError,
    StoreForeignError,
    StoreFullError,
    StoreMovedError,
    StoreNewerError,
)
from idkmesh.events.place import BESIDE, beside
from idkmesh.events.quarantine import new_place, put_aside
from idkmesh.events.retention import Retention
from idkmesh.events.schema import MIGRATIONS
from idkmesh.events.store import EventStore
from tests.events.support import (
    NOW,
    Harness,
    ManualClock,
    event,
    events,
    numbers,
    opened,
    python,
    quick_check,
    recording,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = 4096
GOES, RISES = (
    next(each for each in MIGRATIONS[0] if name in each) for name in ("event_goes_by_retention", "floor_only_rises")
)
STAMP = "damaged-20260102T030405Z"


def files_of(path: Path) -> dict[str, bytes]:
    """Return the bytes of the database and of what lies beside it, by the ends of the names."""
    return {end: beside(path, end).read_bytes() for end in ("", *BESIDE) if beside(path, end).exists()}


def left_behind(path: Path, *, count: int = 300) -> None:
    """Lay a store as a process leaves it that is killed: with its log and the log's index."""
    source = path.with_name("source") / path.name
    with opened(source) as store:
        store.append(events(count, data={"text": "x" * 200}))
        store.tidy()
        with contextlib.closing(sqlite3.connect(source, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.append(events(20))
        for end, content in files_of(source).items():
            beside(path, end).write_bytes(content)
    shutil.rmtree(source.parent)
    make_bell_folder(path)


def write_at(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def junk(size: int) -> bytes:
    return random.Random(7).randbytes(size)


def zero_bytes(path: Path) -> None:
    path.write_bytes(b"")


def zero_bytes_alone(path: Path) -> None:
    for end in BESIDE:
        beside(path, end).unlink(missing_ok=True)
    path.write_bytes(b"")


def random_bytes(path: Path) -> None:
    path.write_bytes(junk(100_000))


def a_text(path: Path) -> None:
    path.write_text("dear diary")


def header_junk(path: Path) -> None:
    write_at(path, 0, junk(100))


def middle_pages(path: Path) -> None:
    write_at(path, 3 * PAGE, junk(3 * PAGE))


def every_page_but_the_first(path: Path) -> None:
    write_at(path, PAGE, junk(path.stat().st_size - PAGE))


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def half_of_a_page(path: Path) -> None:
    os.truncate(path, PAGE // 2)


def log_is_missing(path: Path) -> None:
    beside(path, "-wal").unlink()


def log_is_junk(path: Path) -> None:
    beside(path, "-wal").write_bytes(junk(50_000))


def log_of_another_database(path: Path) -> None:
    other = path.with_name("other")
    with contextlib.closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        shutil.copy(beside(other, "-wal"), beside(path, "-wal"))
        beside(path, "-shm").unlink()
    for end in ("", *BESIDE):
        beside(other, end).unlink(missing_ok=True)


def log_of_another_store(path: Path) -> None:
    other = path.with_name("other")
    with opened(other) as store:
        for _ in range(20):
            store.append(events(30, data={"text": "y" * 200}))
        shutil.copy(beside(other, "-wal"), beside(path, "-wal"))
        beside(path, "-shm").unlink()
    other.unlink()
    shutil.rmtree(beside(other, "-bells"))


def database_is_gone(path: Path) -> None:
    path.unlink()


def table_is_gone(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER event_never_changes")


def epoch_is_gone(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER meta_stays")
        connection.execute("DELETE FROM meta")
        connection.executescript(
            "CREATE TRIGGER meta_stays BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'the epoch never changes'); END"
        )


DAMAGES = (
    zero_bytes, zero_bytes_alone, random_bytes, a_text, header_junk, middle_pages, every_page_but_the_first, half,
    half_of_a_page, log_is_missing, log_is_junk, log_of_another_database, log_of_another_store, database_is_gone,
    table_is_gone, epoch_is_gone,
)  # fmt: skip


def test_left_behind_is_no_damage(path: Path) -> None:
    """EV-2.1, EV-2.7: what a killed process leaves is opened with all that its log holds."""
    left_behind(path)
    assert set(files_of(path)) == {"", "-wal", "-shm"}
    with opened(path) as store:
        assert store.bounds() == (0, 320)
        assert store.opened.notes == ()
        assert store.opened.quarantined is None


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_at_start(path: Path, damage: Callable[[Path], None]) -> None:
    """EV-2.7, STORE-04: put aside whole, byte for byte, nothing deleted; a new store, line, event and warning."""
    left_behind(path)
    with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        (epoch_before,) = connection.execute("SELECT epoch FROM meta").fetchone()
    damage(path)
    before = files_of(path)
    with recording(path, ManualClock()) as harness:
        errors = [line for level, line in harness.lines if level >= logging.WARNING]
        assert len(errors) == 1
        assert "\n" not in errors[0]
        state = harness.recorder.snapshot()
        assert state.warning == errors[0]
        assert state.failing is None
        assert state.epoch != epoch_before
        harness.recorder.emit(event(7))
        harness.turn()
        first, second = harness.recorder.read(0, 10, {}).events
        assert [each.sequence for each in harness.published] == [2], "the first was there when the recorder was made"
        assert (first.type, first.source, first.sequence) == ("idkmesh.events.quarantined", "/control-tower", 1)
        assert second.data == '{"number":7}'
        told = json.loads(first.data)
        assert told["reason"] in errors[0]
        aside = files_of(path.with_name(f"{path.name}.{STAMP}"))
        assert told["files"] == [str(path.with_name(f"{path.name}.{STAMP}{end}")) for end in aside]
        assert all(aside[end] == before[end] for end in before if end != "-shm"), "the index is SQLite's scratch"
        assert set(before) <= set(aside)
        assert f"{path.name}.{STAMP}" in errors[0]
    assert quick_check(path) == "ok"
    with recording(path, ManualClock()) as again:
        assert again.lines == []
        assert again.recorder.snapshot().warning is None
        assert again.recorder.snapshot().epoch == state.epoch


def test_damaged_twice_in_one_second(path: Path) -> None:
    """EV-2.7: the second does not take the name of the first."""
    make_bell_folder(path)
    for _ in range(3):
        path.write_bytes(junk(5000))
        with opened(path) as store:
            assert store.opened.quarantined is not None
    aside = sorted(each.name for each in path.parent.iterdir() if ".damaged" in each.name)
    assert aside == [f"{path.name}.{STAMP}", f"{path.name}.{STAMP}-2", f"{path.name}.{STAMP}-3"]


def test_a_new_store_is_whole_or_absent(path: Path) -> None:
    """EV-2.7: what a process leaves that dies while it makes a store is no store, and in nobody's way."""
    make_bell_folder(path)
    new_place(path).write_bytes(junk(5000))
    beside(new_place(path), "-journal").write_bytes(junk(500))
    with opened(path) as store:
        assert store.opened.notes == ()
        assert numbers(store.append([event()])) == [1]
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.name}-bells"}


def test_a_check_that_takes_too_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.7: the check has an end; that it was not finished is told, and the store is used."""
    left_behind(path)
    monkeypatch.setattr(opening, "CHECK_SECONDS", -1.0)
    monkeypatch.setattr(opening, "_CHECK_STEP", 1)
    with opened(path) as store:
        (note,) = store.opened.notes
        assert "was not checked to its end" in note.line
        assert store.bounds() == (0, 320)


def test_a_log_that_comes_between_two_looks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.7: a shell that opens a healthy store makes its log, then its index: to see but one is no damage."""
    left_behind(path)
    log, away = beside(path, "-wal"), path.with_name("away")
    log.rename(away)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            away.rename(log)

    monkeypatch.setattr(time, "sleep", pause)
    with opened(path) as store:
        assert store.opened.notes == ()
        assert store.bounds() == (0, 320)
    assert len(pauses) == 2


def changed(path: Path, *statements: str) -> None:
    """Change a store as somebody with a shell can."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["UPDATE sqlite_sequence SET seq = 20"], "the event after 3 would be 21"),
        (["DELETE FROM sqlite_sequence"], "the event after 3 would be 1"),
        (["DROP TRIGGER event_goes_by_retention", "DELETE FROM event WHERE sequence = 2", GOES], "it has 2 events"),
        (["DROP TRIGGER floor_only_rises", "UPDATE meta SET floor = 9", RISES], "it has 3 events"),
        (["UPDATE meta SET floor = 1"], "it has 3 events and not those from 2 to 3"),
    ],
)
def test_counts_that_do_not_agree(path: Path, statements: list[str], reason: str) -> None:
    """EV-2.7: floor, count, newest event and the next sequence are looked at when a store is opened."""
    with opened(path) as store:
        store.append(events(3))
    changed(path, *statements)
    with opened(path) as store:
        assert reason in str(store.opened.quarantined)
        assert numbers(store.append([event()])) == [2]


def test_counts_of_a_store_that_was_pruned(path: Path) -> None:
    """EV-2.7: a healthy store agrees with itself, also one that has given up events."""
    with opened(path, event_retention_count=100) as store:
        store.append(events(150))
        store.prune(NOW)
    with opened(path) as store:
        assert store.opened.notes == ()
        assert store.bounds() == (50, 150)


def test_a_file_that_was_never_a_store(path: Path) -> None:
    """EV-2.7: without the folder of bells beside it, a file that is no database is somebody's: refused, left alone."""
    for content in (b"my thesis", b"my thesis " * 1000, b""):
        path.write_bytes(content)
        with pytest.raises(StoreForeignError, match="is no event store and is left alone") as refused, opened(path):
            pass
        assert "\n" not in str(refused.value)
        assert path.read_bytes() == content
        assert list(path.parent.iterdir()) == [path]


def test_another_programs_database_gets_no_folder(path: Path) -> None:
    """EV-2.6: nothing is laid beside it either."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreForeignError), opened(path):
        pass
    assert list(path.parent.iterdir()) == [path]


# --- what comes between --------------------------------------------------------------------------------------------


def test_no_room_for_the_new_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.7: a full disk moves nothing and changes nothing, again and again; with room the telling is whole."""
    left_behind(path)
    middle_pages(path)
    before = files_of(path)

    def full(*found: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "insert", full)
        for _ in range(2):
            with (
                pytest.raises(StoreFullError, match=r"damaged: .*not be put aside: .*make room"),
                opened(path),
            ):
                pass
            after = files_of(path)
            assert all(after[end] == before[end] for end in before if end != "-shm"), "the index is SQLite's scratch"
            assert not new_place(path).exists()
    with opened(path) as store:
        (first,) = store.read(0, 10, {}).events
        assert json.loads(first.data)["reason"] in str(store.opened.quarantined)
    aside = files_of(path.with_name(f"{path.name}.{STAMP}"))
    assert all(aside[end] == before[end] for end in before if end != "-shm")


INTERRUPTED = """
import os
from pathlib import Path
from idkmesh.events import quarantine
from tests.events.support import opened
path, stop, steps = Path(sys.argv[1]), int(sys.argv[2]), 0
def counted(step):
    def call(*arguments, **more):
        global steps
        steps += 1
        if steps == stop: os._exit(7)
        return step(*arguments, **more)
    return call
for name in ("insert", "sync_folder", "discard_new"): setattr(quarantine, name, counted(getattr(quarantine, name)))
Path.rename = counted(Path.rename)
with opened(path): pass
"""


def test_killed_while_it_is_put_aside(path: Path) -> None:
    """EV-2.7: killed at any moment, the next to open it tells the same: nothing is lost, not the telling either."""
    for stop in range(1, 40):
        place = path.with_name(str(stop)) / path.name
        place.parent.mkdir()
        left_behind(place)
        middle_pages(place)
        before = files_of(place)
        done = subprocess.run(python(INTERRUPTED, place, str(stop)), check=False, timeout=60)
        if done.returncode == 0:
            break
        assert done.returncode == 7
        with opened(place) as store:
            first = store.read(0, 10, {}).events[0]
            assert first.type == "idkmesh.events.quarantined"
            told = json.loads(first.data)
            if store.opened.quarantined is not None:
                assert told["reason"] in store.opened.quarantined
            aside = place.with_name(f"{place.name}.{STAMP}")
            assert set(told["files"]) >= {str(beside(aside, end)) for end in before}
            kept = files_of(aside)
            assert all(kept[end] == before[end] for end in before if end != "-shm")
            assert not new_place(place).exists()
    assert stop > 8, "each step was interrupted"


def test_a_new_store_that_is_not_needed(path: Path) -> None:
    """EV-2.7: made for a store that has still its name, it is removed, and tells nobody anything later."""
    with opened(path) as store:
        store.append(events(3))
    quarantine._build(path, [event(type="idkmesh.events.quarantined", data={"reason": "x", "files": []})])
    assert new_place(path).exists()
    with opened(path) as store:
        assert store.bounds() == (0, 3)
        assert store.opened.notes == ()
    assert not new_place(path).exists()


@pytest.mark.parametrize("way", ["torn", "journal", "version", "silent"])
def test_a_new_store_that_is_not_whole(path: Path, way: str) -> None:
    """EV-2.7: what cannot be relied upon, or tells of no other, is made anew."""
    make_bell_folder(path)
    kind = "test.numbered" if way == "silent" else "idkmesh.events.quarantined"
    quarantine._build(path, [event(type=kind, data={"reason": "x", "files": []})])
    if way == "torn":
        os.truncate(new_place(path), 3 * PAGE)
    if way == "journal":
        beside(new_place(path), "-journal").write_bytes(junk(500))
    if way == "version":
        set_mark(new_place(path), "user_version = 9")
    with opened(path) as store:
        assert store.bounds() == (0, 0)
        assert store.opened.notes == ()


def test_finishing_writes_over_nothing(path: Path) -> None:
    """EV-2.7: where something has taken the chosen name meanwhile, what is left gets another."""
    make_bell_folder(path)
    aside = path.with_name(f"{path.name}.{STAMP}")
    data = {"reason": "x", "files": [str(aside), f"{aside}-wal"]}
    quarantine._build(path, [event(type="idkmesh.events.quarantined", data=data)])
    beside(path, "-wal").write_bytes(b"left")
    beside(aside, "-wal").write_bytes(b"somebody's")
    with opened(path) as store:
        assert "it was put aside as" in str(store.opened.quarantined)
    assert beside(aside, "-wal").read_bytes() == b"somebody's"
    assert beside(path.with_name(f"{path.name}.{STAMP}-2"), "-wal").read_bytes() == b"left"


# --- while it is in use --------------------------------------------------------------------------------------------


def test_damage_that_a_reader_meets(path: Path) -> None:
    """EV-2.7, STORE-04: the reader is told, the writer puts it aside; `replaced` precedes the new store's events."""
    with recording(path, ManualClock()) as harness:
        write(harness, 300)
        epoch = harness.recorder.epoch
        harness.recorder._store.tidy()
        checkpoint(path)
        every_page_but_the_first(path)
        with pytest.raises(StoreDamagedError):
            harness.recorder.read(0, 200, {})
        assert harness.recorder._pause() == 0.0
        harness.told.clear()
        harness.recorder.emit(event(9))
        harness.turn()
        assert harness.told[0] is None
        assert [each.type for each in harness.published] == ["idkmesh.events.quarantined", "test.numbered"]
        assert numbers(harness.published) == [1, 2]
        assert harness.recorder.epoch != epoch
        assert harness.recorder.snapshot().epoch == harness.recorder.epoch
        errors = [line for level, line in harness.lines if level >= logging.WARNING]
        assert len(errors) == 1
        assert harness.recorder.snapshot().warning == errors[0]
        assert numbers(harness.recorder.read(0, 200, {}).events) == [1, 2]
    assert (path.with_name(f"{path.name}.{STAMP}")).stat().st_size > 0
    assert quick_check(path) == "ok"


def test_damage_that_the_writer_meets(path: Path) -> None:
    """EV-2.7, STORE-04: the events of the call that met it are stored in the new store; none is lost."""
    with recording(path, ManualClock()) as harness:
        write(harness, 300)
        checkpoint(path)
        os.truncate(path, PAGE)
        harness.recorder.emit(event(9))
        harness.told.clear()
        for _ in range(3):
            harness.turn()
        assert [each.data for each in harness.published][-1] == '{"number":9}'
        assert numbers(harness.published) == [1, 2]
        state = harness.recorder.snapshot()
        assert (state.refused_total, state.dropped_total, state.queued, state.failing) == (0, 0, 0, None)
        assert state.warning is not None


def test_a_store_that_was_removed(path: Path) -> None:
    """EV-2.7: under the name is nothing any more: what lay beside it is put aside, and a new store begins."""
    with recording(path, ManualClock()) as harness:
        write(harness, 3)
        path.unlink()
        harness.recorder.emit(event(9))
        harness.turn()
        harness.turn()
        assert numbers(harness.published)[-1] == 2
        assert harness.told.count(None) == 1
        assert harness.recorder.snapshot().queued == 0
    assert beside(path.with_name(f"{path.name}.{STAMP}"), "-wal").exists()


def test_another_process_puts_it_aside(path: Path) -> None:
    """EV-2.7, EV-2.9: who still has the old file notices before it writes, and after; its event is in the new one."""
    with recording(path, ManualClock()) as harness:
        write(harness, 3)
        old = harness.recorder._store
        put_aside(path, NOW, "/other", "a test")
        with pytest.raises(StoreMovedError):
            old.append([event()])
        harness.recorder.emit(event(9))
        harness.turn()
        harness.turn()
        assert [each.source for each in harness.published[-2:]] == ["/other", "/test"]
        (line,) = [line for level, line in harness.lines if level >= logging.WARNING]
        assert "is no longer the file that was opened; it was opened again" in line
        assert harness.recorder.snapshot().warning is None, "it is the other's"
    assert set(files_of(path.with_name(f"{path.name}.{STAMP}"))) == {"", "-wal", "-shm"}, "closing has left it alone"


def test_put_aside_between_the_look_and_the_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.1, EV-2.7: an append that was overtaken fails, though SQLite has committed it into the file put aside."""
    with opened(path) as store:
        looks: list[int] = []
        look = store._refuse_moved

        def overtaken() -> None:
            looks.append(1)
            if len(looks) == 2:
                put_aside(path, NOW, "/other", "a test")
            look()

        monkeypatch.setattr(store, "_refuse_moved", overtaken)
        with pytest.raises(StoreMovedError):
            store.append([event()])
        assert len(looks) == 2


def test_damage_again_and_again(path: Path) -> None:
    """EV-2.7, EV-2.8: a store is put aside once in 5 s at most; until then events wait, and readiness fails."""
    clock = ManualClock()
    with recording(path, clock) as harness:
        write(harness, 3)
        for _ in range(2):
            checkpoint(path)
            every_page_but_the_first(path)
            with pytest.raises(StoreDamagedError):
                harness.recorder.read(0, 200, {})
            harness.recorder.emit(event(9))
            harness.turn()
        state = harness.recorder.snapshot()
        assert state.failing is not None
        assert state.queued == 1
        assert 0 < harness.recorder._pause() <= 5
        clock.now += 5
        harness.turn()
        state = harness.recorder.snapshot()
        assert (state.failing, state.queued, state.refused_total) == (None, 0, 0)
        assert harness.told.count(None) == 2


def test_a_new_store_that_is_damaged_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.7: also then a store is put aside once in 5 s at most."""
    clock = ManualClock()
    with recording(path, clock) as harness:
        write(harness, 3)

        def damaged(*found: object) -> None:
            raise StoreDamagedError("always")

        with monkeypatch.context() as patch:
            patch.setattr(opening, "_check_content", damaged)
            harness.recorder._trouble = harness.recorder._store, StoreDamagedError("seen")
            for turns in (1, 2):
                for _ in range(10):
                    harness.turn()
                assert 0 < harness.recorder._pause() <= 5
                (line,) = [line for level, line in harness.lines if level == logging.ERROR]
                assert "seen; it was put aside as" in line
                assert "that cannot be opened: always" in line
                aside = [each for each in path.parent.iterdir() if re.search(r"Z(-[0-9]+)?$", each.name)]
                assert len(aside) == turns
                clock.now += 5
        harness.turn()
        assert harness.recorder.snapshot().failing is None


def test_trouble_of_an_old_store(path: Path) -> None:
    """EV-2.7: what a slow reader has seen of the store before leaves the new one, which is whole, where it is."""
    clock = ManualClock()
    with recording(path, clock) as harness:
        write(harness, 3)
        old = harness.recorder._store
        harness.recorder._trouble = old, StoreDamagedError("seen")
        harness.turn()
        epoch = harness.recorder.epoch
        assert epoch != old.epoch
        clock.now += 60
        new = harness.recorder._store
        harness.recorder._trouble = old, StoreDamagedError("seen late")
        harness.turn()
        harness.turn()
        assert harness.recorder._store is new
        assert harness.recorder.epoch == epoch
        assert harness.told.count(None) == 1, "no stream ends for it"
        assert harness.recorder.snapshot().failing is None
        assert harness.recorder._pause() > 0, "nothing is left to do"


def test_a_reader_names_the_store_that_it_has_read(path: Path) -> None:
    """EV-2.7: trouble is kept with the store that showed it."""
    with recording(path, ManualClock()) as harness:
        write(harness, 3)
        path.rename(path.with_name("away"))
        with pytest.raises(StoreMovedError):
            harness.recorder.read(0, 10, {})
        assert harness.recorder._trouble is not None
        assert harness.recorder._trouble[0] is harness.recorder._store


def test_an_idle_process_is_rung(path: Path) -> None:
    """EV-2.7, EV-2.9: who has not written since is rung after a quarantine, and publishes the new store's events."""
    with recording(path, ManualClock()) as harness:
        write(harness, 3)
        harness.turn(others=True)
        assert numbers(harness.recorder.read(0, 10, {}).events) == [1, 2, 3], "and an idle reader stays"
        harness.recorder._bell.wait(0)
        damage = opening.Damage(harness.recorder._store.opened.identity, "found by another")
        other = EventStore.open(path, retention=Retention(), now=NOW, damage=damage)
        assert harness.recorder._bell.wait(0) is True
        harness.turn(others=True)
        harness.turn()
        assert harness.recorder.epoch == other.epoch
        assert [each.type for each in harness.published[-1:]] == ["idkmesh.events.quarantined"]
        other.close()


def test_an_idle_reader_of_a_file_put_aside(path: Path) -> None:
    """EV-2.9: a connection that was lent before is not lent again for a file that has lost its name."""
    with opened(path) as store:
        store.append(events(3))
        store.read(0, 10, {})
        assert store._idle
        put_aside(path, NOW, "/other", "a test")
        for use in (lambda: store.read(0, 10, {}), store.bounds):
            with pytest.raises(StoreMovedError):
                use()


def write(harness: Harness, count: int) -> None:
    for each in events(count, data={"text": "x" * 200}):
        harness.recorder.emit(each)
    while harness.recorder.snapshot().queued:
        harness.turn()


def checkpoint(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


# --- what is left alone --------------------------------------------------------------------------------------------


def set_mark(path: Path, pragma: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA {pragma}")


def another_program(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (x)")


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda path: set_mark(path, "user_version = 2"), StoreNewerError, "schema version 2, this program knows 1"),
        (lambda path: set_mark(path, "user_version = 0"), StoreForeignError, "another program's database"),
        (lambda path: set_mark(path, "application_id = 7"), StoreForeignError, "another program's database"),
        (another_program, StoreForeignError, "another program's database"),
    ],
)
def test_what_is_left_alone(path: Path, change: Callable[[Path], None], error: type[StoreError], said: str) -> None:
    """EV-2.6, STORE-07: a newer version, or another program's database, is one line; nothing is written."""
    with opened(path) as store:
        store.append(events(3))
    change(path)
    before, names = files_of(path), sorted(os.listdir(path.parent))  # noqa: PTH208  names
    with pytest.raises(error, match=said) as refused, opened(path):
        pass
    assert "\n" not in str(refused.value)
    assert files_of(path) == before
    assert sorted(os.listdir(path.parent)) == names  # noqa: PTH208  names
