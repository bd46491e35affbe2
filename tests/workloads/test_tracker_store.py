from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.workloads import tracker_store
from idkmesh.workloads.ages import Stamp, aged, shift_between, system_stamp
from idkmesh.workloads.model import Word
from idkmesh.workloads.record import Kept, Key, Record, Restart, RestartEnd, basis_of
from idkmesh.workloads.tracker import NEVER, Health, Tracker
from idkmesh.workloads.tracker_rows import kept_of_row, row_of_record
from idkmesh.workloads.tracker_store import APPLICATION_ID, SCHEMA_VERSION, TrackerStore, TrackerStoreError
from tests.workloads.process_support import waited
from tests.workloads.support import module

if TYPE_CHECKING:
    from collections.abc import Callable

WEB = module()
THEN = Stamp("boot-1", 1000.0, 50_000.0)
UNHEALTHY = Tracker(
    since=920.0,
    identity="a",
    health=Health.UNHEALTHY,
    word=Word.FAILS,
    first=900.0,
    newest=995.0,
    detail="readiness command failing",
    opened=True,
)


def record(name: str = "web-1", tracker: Tracker = UNHEALTHY, **more: object) -> Record:
    given = Record(key=Key("web", name), module=WEB, basis=basis_of(WEB), tracker=tracker)
    return replace(given, **more)  # type: ignore[arg-type]


RESTARTED = record("web-2", restart=Restart(990.0, RestartEnd.FAILED, "no daemon"), restarts=3, not_before=1050.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "trackers.sqlite3"


def kept(path: Path, now: Stamp = THEN, owner: str = "two") -> dict[str, Kept]:
    return {each.key.name: each for each in TrackerStore(path).adopt(owner, now)}


def stored(path: Path, *records: Record, now: Stamp = THEN) -> TrackerStore:
    store = TrackerStore(path)
    assert store.adopt("one", now) == []
    assert store.save("one", records, now)
    return store


def test_what_is_saved_is_read_again(path: Path) -> None:
    """AR-4.5: trackers, restarts and their counts outlive the supervisor, to the last bit."""
    stored(path, record(), RESTARTED, record("web-3", Tracker(since=7.5)))
    found = kept(path)
    assert list(found) == ["web-1", "web-2", "web-3"]
    assert found["web-1"].tracker == UNHEALTHY
    assert found["web-3"].tracker == Tracker(since=7.5)
    two = found["web-2"]
    assert (two.restart, two.restarts, two.not_before) == (RESTARTED.restart, 3, 1050.0)


def test_a_save_takes_the_place_of_the_one_before(path: Path) -> None:
    """AR-4.5: one transaction a pass: what is no longer there is gone."""
    store = stored(path, record(), record("web-2"))
    assert store.save("one", [record("web-2")], THEN)
    assert list(kept(path)) == ["web-2"]


def test_modes(path: Path) -> None:
    """AR-4.5: the file is this user's alone, and so are the folders that are made for it."""
    stored(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_who_was_replaced_saves_nothing(path: Path) -> None:
    """AR-6.3: a supervisor that was paused while another took over writes over nothing."""
    store = stored(path, record())
    kept(path, owner="two")
    assert not store.save("one", [], THEN)
    assert list(kept(path)) == ["web-1"]


def test_ages_in_the_same_boot(path: Path) -> None:
    """AR-4.5: in the same boot instants stand as they are, whatever the wall clock does."""
    stored(path, record())
    assert kept(path, Stamp("boot-1", 1030.0, 10.0))["web-1"].tracker == UNHEALTHY


def test_ages_after_a_boot(path: Path) -> None:
    """AR-4.5: after a start of the machine the wall clock tells how long it was."""
    stored(path, record(), RESTARTED)
    found = kept(path, Stamp("boot-2", 12.0, 50_100.0))
    tracker = found["web-1"].tracker
    assert (12.0 - tracker.newest, 12.0 - tracker.since) == (105.0, 180.0)
    assert found["web-2"].restart is not None
    assert 12.0 - found["web-2"].restart.at == 110.0
    assert 12.0 - found["web-2"].not_before == 50.0


@pytest.mark.parametrize(
    "now", [Stamp("boot-2", 12.0, 49_999.0), Stamp(None, 12.0, 49_999.0), Stamp("boot-1", 999.0, 49_999.0)]
)
def test_a_wall_clock_that_went_back_begins_anew(path: Path, now: Stamp) -> None:
    """AR-4.5: where no clock can tell, a tracker begins anew, and a restart counts as one of now."""
    stored(path, record(), RESTARTED)
    found = kept(path, now)
    tracker = found["web-1"].tracker
    assert (tracker.health, tracker.word, tracker.newest, tracker.identity) == (Health.UNKNOWN, None, NEVER, "a")
    assert found["web-2"].restart == Restart(now.boot, RestartEnd.FAILED, "no daemon")


INSTANTS = st.floats(0, 1e9)


@given(INSTANTS, INSTANTS, INSTANTS, INSTANTS, st.sampled_from(["a", "b", None]))
def test_an_age_is_never_less_than_it_was(
    boot: float, wall: float, boot2: float, wall2: float, other: str | None
) -> None:
    """AR-4.5: whatever the clocks do, nothing stored is younger afterwards than it was, or it has begun anew."""
    written, now = Stamp("a", boot, wall), Stamp(other, boot2, wall2)
    shift = shift_between(written, now)
    if shift is not None:
        age_then, age_now = boot - (boot - 10), boot2 - (boot - 10 + shift)
        assert age_now >= age_then - 1e-3


def test_no_boot_id_is_no_same_boot() -> None:
    """AR-4.5: a system that does not say which boot it is has the wall clock alone."""
    assert shift_between(Stamp(None, 10.0, 100.0), Stamp(None, 20.0, 100.0)) == 10.0


def test_the_systems_stamp() -> None:
    """AR-4.5: the three clocks are those of the system, and instants have a label."""
    stamp = system_stamp()
    assert stamp.label_of(stamp.boot - 60) < stamp.utc
    assert aged(Kept(key=Key("w", "w"), basis="", tracker=UNHEALTHY), stamp, stamp).tracker == UNHEALTHY


TRACKERS = st.builds(
    Tracker,
    since=INSTANTS,
    identity=st.text(max_size=5),
    health=st.sampled_from(Health),
    word=st.sampled_from([Word.PASSES, Word.FAILS]),
    first=INSTANTS,
    newest=INSTANTS,
    detail=st.text(max_size=5),
    opened=st.booleans(),
)


@given(TRACKERS | st.builds(Tracker, since=INSTANTS), st.sampled_from(RestartEnd), INSTANTS)
def test_rows(tracker: Tracker, end: RestartEnd, instant: float) -> None:
    """AR-4.5: each record is the same after it was a row."""
    given_record = record(tracker=tracker, restart=Restart(instant, end, "x"), restarts=2, not_before=instant)
    found = kept_of_row(row_of_record(given_record), 1e9)
    assert (found.tracker, found.restart, found.not_before) == (tracker, given_record.restart, instant)


def test_a_newer_version_is_left_alone(path: Path) -> None:
    """AR-4.5: a file of a newer version is left as it is, and said."""
    store = stored(path, record())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(TrackerStoreError, match=r"schema version 2.*use the newer idkmesh"):
        store.save("one", [], THEN)
    assert path.read_bytes() == before


def test_a_foreign_database_is_left_alone(path: Path) -> None:
    """AR-4.5: another program's database is left as it is."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(TrackerStoreError, match="another program's database"):
        TrackerStore(path).adopt("one", THEN)
    assert path.read_bytes() == before


def test_somebodys_file_is_left_alone(path: Path) -> None:
    """AR-4.5: a file that never was a store is left as it is."""
    path.parent.mkdir()
    path.write_text("notes\n" * 1000)
    with pytest.raises(TrackerStoreError, match="no tracker store"):
        TrackerStore(path).adopt("one", THEN)
    assert path.read_text() == "notes\n" * 1000


WRONG = [
    "health = 'well'",
    "newest = NULL",
    "word = 'nothing'",
    *(f"{name} = {value}" for name in ("since", "first", "newest") for value in ("9e999", "-9e999", "'now'", "x'00'")),
    *(f"restart_at = {value}, restart_end = 'done', restart_detail = ''" for value in ("9e999", "1001.0", "-1e12")),
    "restart_at = 900.0, restart_end = 'done', restart_detail = x'ff'",
    "restart_at = 900.0, restart_end = NULL, restart_detail = ''",
    *(f"not_before = {value}" for value in ("9e999", "1e9", "'soon'")),
    *(f"restarts = {value}" for value in ("9223372036854775807", "1.5", "'many'", "x'01'")),
    *(f"opened = {value}" for value in ("2", "'yes'", "x'01'")),
    *(
        f"{name} = {value}"
        for name in ("identity", "detail", "basis")
        for value in ("x'ff'", "printf('%.*c', 2000, 'x')")
    ),
    *(f"name = {value}" for value in ("x'ff'", "''", "char(8238)", "char(10)")),
]
"""What this program would not write."""


@pytest.mark.parametrize("row", WRONG)
def test_a_row_that_nobody_wrote_is_dropped(path: Path, row: str) -> None:
    """AR-4.5: what this program would not write is not believed: the row is dropped, and that is told with a count."""
    stored(path, record(), record("web-2"))
    change(path, f"UPDATE instance SET {row} WHERE name = 'web-2'")
    lines: list[str] = []
    store = TrackerStore(path, lines.append)
    assert [each.key.name for each in store.adopt("two", THEN)] == ["web-1"]
    (line,) = lines
    assert "had 1 rows that this program would not write" in line
    assert store.save("two", [record()], THEN)
    assert list(kept(path)) == ["web-1"]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET boot = 9e999",
        "UPDATE meta SET wall = 'noon'",
        "UPDATE meta SET boot_id = x'ff'",
        "ALTER TABLE instance ADD COLUMN more",
        "ALTER TABLE instance RENAME COLUMN basis TO base",
    ],
)
def test_a_store_of_no_age_is_damage(path: Path, statement: str) -> None:
    """AR-4.5: where all rows are in doubt the file is put aside, and told."""
    stored(path, record())
    change(path, statement)
    check_put_aside(path)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def check_put_aside(path: Path) -> None:
    lines: list[str] = []
    assert TrackerStore(path, lines.append).adopt("two", THEN) == []
    (line,) = lines
    assert "is damaged" in line
    (aside,) = (each for each in path.parent.iterdir() if each != path)
    assert aside.name.startswith(f"{path.name}.damaged-19700101T135320Z")
    assert str(aside) in line


def test_a_damaged_file_is_put_aside(path: Path) -> None:
    """AR-4.5: a file whose pages are broken is put aside and never deleted; the next one begins anew."""
    stored(path, *(record(f"web-{number}") for number in range(200)))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(8192))
    check_put_aside(path)


def test_damage_in_use_loses_nothing(path: Path) -> None:
    """AR-4.5: damage that shows when trackers are saved is put aside, and what is known stands in the new file."""
    lines: list[str] = []
    store = stored(path, *(record(f"web-{number}") for number in range(200)))
    with path.open("r+b") as file:
        file.seek(100)
        file.write(os.urandom(4096))
    assert TrackerStore(path, lines.append).save("one", [record()], THEN)
    assert len(lines) == 1
    assert list(kept(path)) == ["web-1"]
    assert store.path == path


def test_a_removed_file_comes_again(path: Path) -> None:
    """AR-4.5: a store that somebody has removed is made anew by the next pass."""
    store = stored(path, record())
    path.unlink()
    assert store.save("one", [record()], THEN)
    assert list(kept(path)) == ["web-1"]


@pytest.mark.parametrize("kind", ["link", "folder", "two names"])
def test_other_kinds_are_refused(path: Path, kind: str) -> None:
    """AR-4.5: a link, a folder and a file with two names are no place of a store."""
    path.parent.mkdir()
    other = path.with_name("other")
    if kind == "folder":
        path.mkdir()
    else:
        other.touch()
        (path.symlink_to if kind == "link" else path.hardlink_to)(other)
    with pytest.raises(TrackerStoreError, match="is refused"):
        TrackerStore(path).adopt("one", THEN)


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_journal(path: Path, end: str, make: Callable[[Path], None]) -> None:
    """AR-4.5: SQLite would open what has the name of a journal, and wait for it without an end: it is refused."""
    stored(path, record())
    make(path.with_name(path.name + end))
    with pytest.raises(TrackerStoreError, match=rf"sqlite3{end}, where a journal of the tracker store .*is refused"):
        TrackerStore(path).adopt("one", THEN)


def test_a_disk_that_stalls(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-4.5, AR-7.8: a call that hangs is an error in time, and so is each one until it has come back."""
    opened = threading.Event()
    stored(path, record())
    store = TrackerStore(path, call_seconds=0.05)
    monkeypatch.setattr(tracker_store, "make_folders", lambda _folder: opened.wait(20))
    with pytest.raises(TrackerStoreError, match=r"does not answer: .*within 0\.05 s; look at its disk"):
        store.save("one", [], THEN)
    monkeypatch.undo()
    with pytest.raises(TrackerStoreError, match=r"does not answer: an earlier call"):
        store.save("one", [], THEN)
    opened.set()
    assert waited(lambda: not any(thread.name == "tracker-store" for thread in threading.enumerate()))
    assert store.save("one", [], THEN)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """AR-4.5: an error is one line that names the place and what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(TrackerStoreError, match=r"cannot be used: .*; make its folder and files writable") as caught:
        TrackerStore(tmp_path / "file" / "trackers.sqlite3").adopt("one", THEN)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [record("web\ud800"), record(restarts=2**63)])
def test_what_no_file_can_hold(path: Path, wrong: Record) -> None:
    """AR-4.5: half a surrogate pair is told as any other fault of the store, and what stands in it stays."""
    store = stored(path, record())
    with pytest.raises(TrackerStoreError, match="cannot keep a name, a text or a number"):
        store.save("one", [wrong], THEN)
    assert list(kept(path)) == ["web-1"]


KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE instance SET detail = 'half'")
os.kill(os.getpid(), 9)
"""


def test_a_kill_in_the_middle_leaves_the_last_pass(path: Path) -> None:
    """AR-4.5: a journal that a killed process has left is written back: the pass before stands whole."""
    stored(path, *(record(f"web-{number}") for number in range(500)))
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert path.with_name(path.name + "-journal").stat().st_size > 512
    assert {each.tracker for each in kept(path).values()} == {UNHEALTHY}


def test_the_mark(path: Path) -> None:
    """AR-4.5: the header says whose file it is."""
    stored(path)
    assert path.read_bytes()[68:72] == APPLICATION_ID.to_bytes(4) == b"idmT"
