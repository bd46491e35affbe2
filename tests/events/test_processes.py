"""Several threads and processes at one store, and processes that are killed."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.events.bells import make_bell_folder
from tests.events.support import PATIENCE, descriptors, event, events, numbers, opened, python, quick_check, recording

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 2.0


WRITER = """
import time
from pathlib import Path
from tests.events.support import event, opened
with opened(Path(sys.argv[1])) as store:
    count, end = 0, time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        _, newest = store.bounds()
        store.append([event(count, subject=sys.argv[3]), event(count + 1, subject=sys.argv[3])])
        store.read(max(0, newest - 5), 10, {})
        count += 2
print(count)
"""


def test_threads_and_processes(path: Path) -> None:
    """EV-2.1, EV-2.9, STORE-01: 8 threads and 2 processes append and read: no lock error, nothing lost, one order."""
    counts: dict[str, int] = {}
    faults: list[BaseException] = []

    def work(name: str) -> None:
        try:
            end = time.monotonic() + SECONDS
            count = 0
            while time.monotonic() < end:
                store.append([event(count, subject=name)])
                store.read(max(0, store.bounds().newest - 5), 10, {})
                count += 1
            counts[name] = count
        except BaseException as fault:  # noqa: BLE001  the test tells
            faults.append(fault)

    with opened(path) as store:
        programs = [
            subprocess.Popen(python(WRITER, path, str(SECONDS), f"p{number}"), stdout=subprocess.PIPE, text=True)
            for number in range(2)
        ]
        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, program in enumerate(programs):
            output, _ = program.communicate(timeout=PATIENCE)
            assert program.returncode == 0
            counts[f"p{number}"] = int(output)
        assert faults == []
        assert min(counts.values()) > 0, f"each got its turns: {counts}"
        found, position = dict.fromkeys(counts, 0), 0
        while batch := store.read(position, 200, {}).events:
            assert numbers(batch) == list(range(position + 1, position + len(batch) + 1))
            for each in batch:
                assert each.subject is not None
                assert json.loads(each.data) == {"number": found[each.subject]}
                found[each.subject] += 1
            position = batch[-1].sequence
        assert found == counts
    assert quick_check(path) == "ok"


def test_all_open_a_new_store_at_once(path: Path) -> None:
    """EV-2.6, STORE-07: one of them makes it; all get the same, and what each appends is in it."""
    program = """
from pathlib import Path
from tests.events.support import event, opened
sys.stdin.readline()
with opened(Path(sys.argv[1])) as store:
    print(store.epoch, store.append([event()])[0].sequence, len(store.opened.notes))
"""
    programs = [
        subprocess.Popen(python(program, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    for each in programs:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    lines = [each.communicate(timeout=PATIENCE)[0].split() for each in programs]
    assert all(each.returncode == 0 for each in programs)
    assert len({epoch for epoch, _, _ in lines}) == 1
    assert sorted(int(sequence) for _, sequence, _ in lines) == list(range(1, 9))
    assert {notes for _, _, notes in lines} == {"0"}


def test_two_processes_find_the_same_damage(path: Path) -> None:
    """EV-2.7: one of them puts it aside; the other takes the new store."""
    program = """
from pathlib import Path
from tests.events.support import opened
sys.stdin.readline()
with opened(Path(sys.argv[1])) as store:
    print(store.epoch, len(store.opened.notes))
"""
    make_bell_folder(path)
    path.write_bytes(b"no database" * 1000)
    programs = [
        subprocess.Popen(python(program, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    lines = [each.communicate("\n", timeout=PATIENCE)[0].split() for each in programs]
    assert len({epoch for epoch, _ in lines}) == 1
    assert sorted(notes for _, notes in lines) == ["0", "0", "0", "1"]
    assert len([each for each in path.parent.iterdir() if ".damaged-" in each.name]) == 1


# --- killed --------------------------------------------------------------------------------------------------------

KILLED = """
import json, os, random, signal, time
from pathlib import Path
from tests.events.support import NOW, event, opened
path, rounds, least = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(7)

def write(pipe, start):
    size = 20_000 if start % 2 else 20
    with opened(path, event_retention_count=2000) as store:
        assert store.opened.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        os.write(pipe, b"\\n")
        number = start
        while True:
            count = chance.randrange(1, 9)
            stored = store.append([event(data={"number": number + n, "text": "x" * size}) for n in range(count)])
            os.write(pipe, b"".join(b"%d %d\\n" % (e.sequence, number + n) for n, e in enumerate(stored)))
            number += count
            store.prune(NOW)

def check(position, acknowledged):
    with opened(path) as store:
        assert not store.opened.notes, store.opened.notes
        assert store.bounds().newest >= max(acknowledged, default=0), (store.bounds(), max(acknowledged))
        while batch := store.read(max(position, store.bounds().floor), 200, {}).events:
            for each in batch:
                assert each.sequence == position + 1 or position < store.bounds().floor, "no gap"
                position = each.sequence
                number = json.loads(each.data)["number"]
                assert acknowledged.pop(position, number) == number
        assert all(sequence <= store.bounds().floor for sequence in acknowledged), acknowledged
        return store.epoch, position

position, number, epochs = 0, 0, set()
turn = 0
while turn < rounds or number <= least:  # on a busy machine a writer gets to less before it is killed
    read, wrote = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        chance.seed(turn)
        try: write(wrote, turn)
        finally: os._exit(1)
    os.close(wrote)
    if turn % 5:
        os.read(read, 1)  # it has the store open; every fifth is killed while it opens it
    time.sleep(chance.uniform(0, 0.04 if turn % 5 else 0.006))
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    with open(read, "rb") as pipe:
        lines = [line.split() for line in pipe.read().splitlines() if line]
    acknowledged = {int(line[0]): int(line[1]) for line in lines if len(line) == 2}
    number += len(acknowledged)
    epoch, position = check(position, acknowledged)
    epochs.add(epoch)
    turn += 1
print(json.dumps({"acknowledged": number, "newest": position, "epochs": len(epochs)}))
"""


@pytest.mark.slow
def test_killed_two_hundred_times(path: Path) -> None:
    """EV-2.2, EV-2.6, STORE-10: whenever a writer is killed, what it was told is stored is there, once, without a gap.

    That a cut of power takes nothing either is another matter: the system has what a killed process has written.
    Each opening checks the file, so 200 of them found it whole; each read has compared the digests.
    """
    done = subprocess.run(python(KILLED, path, "200", "2000"), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["epochs"] == 1
    assert found["newest"] >= found["acknowledged"] > 2000
    assert quick_check(path) == "ok"


SYNCED = """
import os
from pathlib import Path
from tests.events.support import event, opened
with opened(Path(sys.argv[1])) as store:
    store.append([event(1)])
    os.write(2, b"MARK begin\\n")
    store.append([event(2)])
    os.write(2, b"MARK end\\n")
"""


def can_trace() -> bool:
    """Say whether strace is here and may trace."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", os.devnull, "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="the order of calls is what strace tells")
def test_what_is_appended_is_on_the_disk(path: Path) -> None:
    """EV-2.1, STORE-10: before `append` returns the log is synced, after the last byte that was written to it."""
    trace = path.with_name("trace")
    calls = "trace=openat,write,pwrite64,fsync,fdatasync"
    command = ["strace", "-f", "-y", "-e", calls, "-o", str(trace), *python(SYNCED, path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    lines = trace.read_text().splitlines()
    begin, end = (next(n for n, line in enumerate(lines) if f"MARK {mark}" in line) for mark in ("begin", "end"))
    log = [line.split("(")[0].split()[-1] for line in lines[begin:end] if f"{path}-wal>" in line]
    assert "pwrite64" in log
    assert log[-1] in {"fdatasync", "fsync"}
    assert log.index("pwrite64") < len(log) - 1


@pytest.mark.skipif(not can_trace(), reason="the order of calls is what strace tells")
def test_a_new_store_is_on_the_disk(path: Path) -> None:
    """EV-2.1, EV-2.7: its file is synced before it gets its name, and the folder with the name after it."""
    trace = path.with_name("trace")
    command = ["strace", "-f", "-y", "-e", "trace=rename,renameat,renameat2,fsync,fdatasync", "-o", str(trace)]
    subprocess.run([*command, *python(SYNCED, path)], check=True, capture_output=True, timeout=60)
    lines = trace.read_text().splitlines()
    named = next(n for n, line in enumerate(lines) if "rename" in line and f'"{path}"' in line)
    assert any("sync(" in line and "new.sqlite3>" in line for line in lines[:named])
    assert not any("sync(" in line and f"{path}>" in line for line in lines[:named])
    assert any("fsync(" in line and f"<{path.parent}>" in line for line in lines[named:])


def test_killed_while_it_brings_a_store_up(path: Path) -> None:
    """EV-2.6, STORE-07: steps to a newer version are one transaction: killed among them, the store is what it was."""
    program = """
import contextlib, os
from pathlib import Path
from idkmesh.events.connecting import connect
from idkmesh.events.schema import MIGRATIONS, bring_up
connection = connect(Path(sys.argv[1]), "rw")
connection.create_function("die", 0, lambda: os.kill(os.getpid(), 9))
connection.execute("BEGIN IMMEDIATE")
steps = ["CREATE TABLE more (x)", "INSERT INTO more SELECT data FROM event", "DROP TABLE meta", "SELECT die()"]
bring_up(connection, migrations=[*MIGRATIONS, steps])
"""
    with opened(path) as store:
        store.append(events(3))
        epoch = store.epoch
    assert subprocess.run(python(program, path), check=False, timeout=60).returncode == -9
    with opened(path) as store:
        assert (store.epoch, store.bounds(), store.opened.notes) == (epoch, (0, 3), ())


# --- threads and forks ---------------------------------------------------------------------------------------------


def test_many_threads(path: Path) -> None:
    """EV-2.12, STORE-11: 32 threads read and append at once, and garbage is collected; each has its own answer."""
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(15):
                (mine,) = store.append([event(number)])
                assert store.read(mine.sequence - 1, 1, {}).events == [mine]
                gc.collect(0)
        except BaseException as fault:  # noqa: BLE001  the test tells
            faults.append(fault)

    with opened(path) as store:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        assert store.bounds() == (0, 32 * 15)
        assert len(store._idle) <= 4, "few stay open"
    assert quick_check(path) == "ok"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")  # noqa: PTH112  name
def test_programs_that_are_started(path: Path) -> None:
    """EV-2.12, STORE-11: they have no descriptor of the database, of what lies beside it, or of a bell."""
    with recording(path) as harness:
        harness.recorder.emit(event())
        assert harness.recorder.flush(30)
        harness.recorder.read(0, 10, {})
        ours = [each for each in descriptors() if str(path) in each]
        assert len(ours) >= 4, "the database, its log, its index, the bell"
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, close_fds=False) as child:
            theirs = [each for each in descriptors(child.pid) if str(path) in each]
            child.communicate()
        assert theirs == []
    assert [each for each in descriptors() if str(path) in each] == []


FORKED = """
import gc, os
from pathlib import Path
from idkmesh.events.errors import StoreForkedError
from idkmesh.events.reader import read_file
from tests.events.support import event, events, opened, recording
path = Path(sys.argv[1])
with recording(path) as harness:
    harness.recorder.emit(event(1))
    assert harness.recorder.flush(30)
    store = harness.recorder._store
    harness.recorder.read(0, 10, {})
    inode = os.stat(path).st_ino
    def locks():
        return [line for line in open("/proc/locks") if f":{inode} " in line]
    before = len(locks())
    assert before
    for way in ("_exit", "exit"):
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: store.append([event()]), lambda: store.read(0, 1, {}), store.bounds,
                        lambda: harness.recorder.read(0, 1, {})):
                try: use()
                except StoreForkedError as error: refused += "forked" in str(error)
            harness.recorder.emit(event(2))
            assert not harness.recorder.flush(0.1)
            harness.recorder.close(1)
            store.close()
            del store
            harness.recorder._store = None
            gc.collect()
            for place in (path, path.with_name("other")):
                try:
                    with opened(place) as own:
                        refused += not own.append([event(3)])
                except StoreForkedError as error: refused += "start a program of its own" in str(error)
            if os.fork() == 0:
                try: read_file(path, None, 1, {})
                except StoreForkedError: os._exit(7)
                os._exit(1)
            refused += os.waitstatus_to_exitcode(os.wait()[1]) == 7
            if way == "exit":
                sys.exit(refused)
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6, way
        assert len(locks()) >= before, "the parent's locks hold"
    harness.recorder.emit(event(4))
    assert harness.recorder.flush(30)
    assert [e.sequence for e in harness.recorder.read(0, 10, {}).events] == [1, 2]
with opened(path) as again:
    assert again.bounds().newest == 2
if os.fork() == 0:
    with opened(path) as own: os._exit(own.append([event(5)])[0].sequence)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 3, "what is closed is nobody's"
"""


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="locks are looked up in /proc")  # noqa: PTH110  name
def test_forked_children(path: Path) -> None:
    """EV-2.12, STORE-11: a forked child is refused its parent's store, also opened anew, and closes none of it.

    A store that nobody had open when it was forked, or another, it may open. So it is with a child of the child.
    """
    command = python(FORKED, path)
    command.insert(1, "-Wignore")  # newer interpreters warn of any fork beside threads
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert quick_check(path) == "ok"


def test_nothing_is_left_open(path: Path) -> None:
    """EV-2.12: stores and recorders that are closed leave no descriptor."""
    before = len(descriptors())
    for _ in range(3):
        with opened(path) as store:
            store.append(events(3))
            store.read(0, 10, {})
        with recording(path) as harness:
            harness.recorder.emit(event())
    with contextlib.suppress(OSError):
        assert len(descriptors()) == before
