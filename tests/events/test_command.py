"""``idkmesh events``: reads the file, tells what helps where it cannot, and leaves everything as it is."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh import console
from idkmesh.cli import build_parser
from idkmesh.cli.parser import flags_of
from idkmesh.commands import events as events_command
from idkmesh.commands.events import Query, _follow, print_events
from idkmesh.commands.inputs import chosen, store_of
from idkmesh.console import CommandError
from idkmesh.events import reader
from idkmesh.events.bells import bell_folder
from idkmesh.events.errors import StoreDamagedError, StoreError
from idkmesh.events.place import BESIDE, beside
from idkmesh.events.quarantine import put_aside
from idkmesh.events.reader import read_file
from idkmesh.events.retention import Retention
from idkmesh.events.store import EventStore
from tests.events.support import NOW, PATIENCE, ROOT, event, events, opened, until
from tests.test_cli import COMMAND, environment, idkmesh, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.events.state import Batch


def listed(path: Path, *arguments: str) -> list[int]:
    """Return the numbers that are listed, all of them as documents."""
    code, text, errors = idkmesh("events", "list", "--json", "--store", str(path), *arguments)
    assert (code, errors) == (0, "")
    return [json.loads(line)["data"]["number"] for line in text.splitlines()]


def refused(path: Path, *arguments: str, command: str = "list", code: int) -> str:
    """Return the one line of a command that fails with ``code``."""
    found, text, errors = idkmesh("events", command, "--store", str(path), *arguments)
    assert (found, text) == (code, "")
    assert one_line(errors), errors
    return errors


def listing(folder: Path) -> str:
    return subprocess.run(["ls", "-lnRA", str(folder)], check=True, capture_output=True, text=True).stdout


# --- list ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [True, False])
def test_list(path: Path, running: bool) -> None:
    """EV-4.5: the newest, oldest first, of a store that is in use and of one that is closed."""
    with opened(path) as store:
        store.append(events(600))
        if running:
            assert listed(path) == list(range(550, 600))
    assert listed(path) == list(range(550, 600))
    assert listed(path, "--limit", "3") == [597, 598, 599]
    assert listed(path, "--limit", "450") == list(range(150, 600))
    assert listed(path, "--limit", "10000") == list(range(600))
    after = f"{store.epoch}.000000000100"
    assert listed(path, "--after", after, "--limit", "3") == [100, 101, 102]
    assert listed(path, "--after", f"{store.epoch}.100", "--limit", "9999") == list(range(100, 600))
    assert listed(path, "--after", f"{store.epoch}.600") == []


def test_filters(path: Path) -> None:
    """EV-4.5: the filters are those of the query, and count before the limit does."""
    with opened(path) as store:
        store.append(
            [event(n, type=f"t{n % 3}", source=f"/{n % 2}", subject="x" if n % 10 else None) for n in range(300)]
        )
    assert listed(path, "--type", "t1", "--limit", "2") == [295, 298]
    assert listed(path, "--type", "t1", "--source", "/0", "--limit", "2") == [292, 298]
    assert listed(path, "--subject", "y") == []
    assert listed(path, "--subject", os.fsdecode(b"\xff")) == [], "what is no text is no event's"


def test_lines_for_people(path: Path) -> None:
    """EV-4.5: a line each: time, sequence, type, subject, the start of the data; nothing in it commands a terminal."""
    with opened(path) as store:
        store.append([event(7, subject="a b"), event(data={"text": "\x9b31m\u202e\u2028" + "x" * 5000})])
    code, text, errors = idkmesh("events", "list", "--store", str(path), PYTHONIOENCODING="utf-8")
    assert (code, errors) == (0, "")
    first, second = text.splitlines()
    assert first == '2026-01-02T03:04:05.678Z 000000000001 test.numbered a b {"number": 7}'
    assert second.startswith("2026-01-02T03:04:05.678Z 000000000002 test.numbered - ")
    assert second.isprintable()
    assert len(second) < 400


def test_documents(path: Path) -> None:
    """EV-4.5, EV-1.1: `--json` prints the documents as they are stored, a line each."""
    with opened(path) as store:
        (stored,) = store.append([event(data={"a": "ü", "b": [1]})])
    assert idkmesh("events", "list", "--json", "--store", str(path), PYTHONIOENCODING="utf-8")[1] == (
        stored.document_text() + "\n"
    )


def test_the_place(path: Path) -> None:
    """EV-2.13, EV-4.5: the flag wins over the variable, the variable over the user's own place."""
    with opened(path) as store:
        store.append([event(1)])
    own = path.parent / "state" / "idkmesh" / "events.sqlite3"
    with opened(own) as store:
        store.append([event(2)])
    home = str(path.parent / "state")
    assert '{"number": 2}' in idkmesh("events", "list", XDG_STATE_HOME=home)[1]
    assert '{"number": 1}' in idkmesh("events", "list", XDG_STATE_HOME=home, IDKMESH_STORE=str(path))[1]
    assert '{"number": 2}' in idkmesh("events", "list", "--store", str(own), IDKMESH_STORE=str(path))[1]
    code, _, errors = idkmesh("events", "list", "--store", "", IDKMESH_STORE=str(path))
    assert (code, one_line(errors)) == (2, True)


def test_settings_of_a_service(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-2.4, EV-2.13: flags win over variables; a wrong value is one line that names where it stands."""
    words = ["router", "--event-retention-count", "200"]
    flags = flags_of("router", build_parser().parse_args(words))
    monkeypatch.setenv("IDKMESH_STORE", str(path))
    monkeypatch.setenv("IDKMESH_EVENT_RETENTION_COUNT", "300")
    monkeypatch.setenv("IDKMESH_EVENT_RETENTION_AGE", "61")
    given = chosen("router", flags)
    retention = Retention(event_retention_count=200, event_retention_age=61.0)
    assert (store_of(given), given.retention) == (path, retention)
    assert store_of(chosen("router", flags | {"store": "x"})) == Path("x")
    monkeypatch.setenv("IDKMESH_EVENT_RETENTION_AGE", "x")
    with pytest.raises(CommandError, match=r"^IDKMESH_EVENT_RETENTION_AGE: 'x' is refused") as refusal:
        chosen("router", flags)
    assert refusal.value.exit_code == 2


def test_no_variable_is_a_slip() -> None:
    """EV-2.13: the variables of events are settings to every command that warns of slips."""
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    known: dict[str, Any] = {
        "IDKMESH_STORE": "x",
        "IDKMESH_EVENT_RETENTION_COUNT": "200",
        "IDKMESH_EVENT_RETENTION_AGE": "60",
    }
    assert idkmesh("inspect-request", "-", stdin=request, **known)[2] == ""
    assert "IDKMESH_STORES is no setting" in idkmesh("inspect-request", "-", stdin=request, IDKMESH_STORES="x")[2]


# --- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["list", "follow"])
def test_wrong_positions(path: Path, command: str) -> None:
    """EV-4.5: malformed, of another store, beyond the newest, or given up: one line that says which, exit code 2."""
    with opened(path, event_retention_count=100) as store:
        store.append(events(150))
        store.prune(NOW)
        epoch = store.epoch
    assert "is no position" in refused(path, "--after", "7x", command=command, code=2)
    assert "is too old" in refused(path, "--after", "7", command=command, code=2)
    assert "beyond the newest event, 150" in refused(path, "--after", "151", command=command, code=2)
    assert "of another store" in refused(path, "--after", "0123456789abcdef.7", command=command, code=2)
    assert "beyond the newest event, 150" in refused(path, "--after", f"{epoch}.151", command=command, code=2)
    line = refused(path, "--after", f"{epoch}.49", command=command, code=2)
    assert f"begin after {epoch}.000000000050" in line


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "x", "", "10001", "10000000", "\u0661"])
def test_wrong_limits(path: Path, limit: str) -> None:
    """EV-4.5: wrong usage is exit code 2, before the store is looked for."""
    assert "--limit" in refused(path, f"--limit={limit}", code=2)


def test_no_store(path: Path) -> None:
    """EV-4.5: one line says where it was looked for and what would help, exit code 3; nothing is made."""
    for command in ("list", "follow"):
        line = refused(path.parent / "none" / "x.sqlite3", command=command, code=3)
        assert str(path.parent / "none" / "x.sqlite3") in line
        assert "idkmesh control-tower" in line
    assert list(path.parent.iterdir()) == []


def test_what_is_no_store(path: Path) -> None:
    """EV-4.5: a file that is none is exit code 2, what cannot be read is 3; neither is touched."""
    path.write_text("dear diary " * 50)
    assert "is no event store" in refused(path, code=2)
    path.write_bytes(b"")
    assert "is no event store" in refused(path, code=2)
    bell_folder(path).mkdir()  # which shows that it was one, to the service too
    assert "is damaged" in refused(path, code=2)
    bell_folder(path).rmdir()
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    assert "no event store" in refused(path, code=2)
    path.unlink()
    path.symlink_to(path.parent / "elsewhere")
    assert "symbolic link" in refused(path, code=3)
    path.unlink()
    path.mkdir()
    assert "folder" in refused(path, code=3)


def test_a_newer_store(path: Path) -> None:
    """EV-2.6, EV-4.5: one line, exit code 3."""
    with opened(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    assert "use the newer idkmesh" in refused(path, code=3)


def test_a_log_without_its_index(path: Path) -> None:
    """EV-4.5: reading it would make a file, so it is not read; the line says what tidies up."""
    with opened(path) as store:
        store.append([event()])
        copied = path.parent / "copy"
        copied.mkdir()
        for end in ("", "-wal"):
            shutil.copy(beside(path, end), copied)
    before = listing(copied)
    assert "start idkmesh control-tower once" in refused(copied / path.name, code=3)
    assert listing(copied) == before


def test_a_store_that_changes_hands(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-4.5: what shows at one try, damage too, is looked at again a moment later; nothing is made meanwhile."""
    with opened(path) as store:
        store.append(events(3))
    away = path.with_name("away")
    pauses: list[float] = []

    def absent() -> None:
        path.rename(away)

    def damaged() -> None:
        path.write_bytes(b"torn" * 1000)

    def empty() -> None:
        path.write_bytes(b"")

    def log_alone() -> None:
        shutil.copy(away, path)
        beside(path, "-wal").write_bytes(b"")

    steps = [absent, damaged, empty, log_alone]

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if steps:
            steps.pop(0)()
        else:
            beside(path, "-wal").unlink()

    monkeypatch.setattr(time, "sleep", pause)
    absent_now = steps.pop(0)
    absent_now()
    assert len(read_file(path, None, 10, {}).events) == 3
    assert pauses == [0.02] * 4
    assert {each.name for each in path.parent.iterdir()} == {path.name, "away", f"{path.name}-bells"}


def test_a_service_that_starts_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-4.5: what was read without a lock counts only if nobody has written to the file, or opened it, meanwhile."""
    with opened(path) as store:
        store.append(events(3))
    ways: list[bool] = []
    read = reader._read
    services: list[EventStore] = []

    def raced(place: Path, way: Any, query: Any, *, descending: bool) -> Batch:
        found = read(place, way, query, descending=descending)
        ways.append(way.locks)
        if len(ways) == 1:
            os.utime(place, ns=(1, 1))
        if len(ways) == 2:
            services.append(EventStore.open(place, retention=Retention(), now=NOW))
            services[0].append([event()])  # stands in the log; the file is what it was
        if len(ways) == 3:
            raise StoreDamagedError("torn")
        return found

    monkeypatch.setattr(reader, "_read", raced)
    assert len(read_file(path, None, 10, {}).events) == 4
    assert ways == [False, False, True, True]
    services[0].close()


def test_interrupted_while_it_changes_hands(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-4.5: Ctrl-C ends a read at once, whatever becomes of the file: it is no try that has failed."""
    with opened(path) as store:
        store.append(events(3))

    def interrupted(*arguments: Any, **more: Any) -> Batch:
        os.utime(path, ns=(1, 1))
        raise KeyboardInterrupt

    monkeypatch.setattr(reader, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_file(path, None, 10, {})


def test_a_store_that_is_never_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-4.5: tries have an end, with one line."""
    with opened(path) as store:
        store.append(events(3))
    read = reader._read
    tries: list[int] = []

    def raced(*arguments: Any, **more: Any) -> Batch:
        tries.append(1)
        os.utime(path, ns=(len(tries), len(tries)))
        return read(*arguments, **more)

    monkeypatch.setattr(reader, "_read", raced)
    with pytest.raises(StoreError, match="changed hands at each of 5 tries; try again"):
        read_file(path, None, 10, {})
    assert len(tries) == 5


def test_a_working_directory_that_was_removed(path: Path) -> None:
    """EV-4.5: one line, exit code 3."""
    gone = path.with_name("gone")
    gone.mkdir()
    # Imported before: some interpreters import nothing without a working directory.
    program = f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); from idkmesh import cli\n"
    program += "from idkmesh.commands import events\n"
    program += f"os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
    program += "sys.exit(cli.main(['events', 'list', '--store', 'x']))"
    done = subprocess.run([*COMMAND[:1], "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (3, "")
    assert one_line(done.stderr)
    assert "the working directory was removed" in done.stderr


def test_batches_are_printed_as_they_come(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-4.5: after a position each batch is printed before the next is read, so that memory has a bound."""
    with opened(path) as store:
        store.append(events(450))
    said: list[str] = []
    reads: list[int] = []

    def counted(*arguments: Any, **more: Any) -> Batch:
        reads.append(len(said))
        return read_file(*arguments, **more)

    monkeypatch.setattr(events_command, "read_file", counted)
    monkeypatch.setattr(console, "say", said.append)
    query = Query(store=path, wanted={}, after=f"{store.epoch}.0", as_json=True)
    assert print_events(query, 420) == 0
    assert reads == [0, 0, 200, 400]
    assert len(said) == 420


# --- nothing is changed --------------------------------------------------------------------------------------------


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a folder that every user of the machine can reach, unlike those of the suite."""
    folder = Path(tempfile.mkdtemp(prefix="idkmesh-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def readable(folder: Path) -> None:
    """Let every user read, and none write."""
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)


READ = """
import contextlib, io, os, sys
sys.path.insert(0, sys.argv[1])
from idkmesh.cli import main
command = ["events", "list", "--json", "--store", sys.argv[4]]
with contextlib.redirect_stdout(io.StringIO()):
    main(command)  # imports all that another user may have no right to read
if sys.argv[2]:
    os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[2]))
sys.exit(main(command))
"""


def read_as(path: Path, *, nobody: bool) -> tuple[int, str, str]:
    """List as this user, or as one who owns nothing."""
    who = pwd.getpwnam("nobody")
    arguments = [str(who.pw_uid) if nobody else "", str(who.pw_gid), str(path)]
    command = [*COMMAND[:1], "-c", READ, str(ROOT), *arguments]
    # Another user cannot write what measures the suite's coverage, and would complain of that.
    env = {name: value for name, value in environment().items() if not name.startswith("COVERAGE")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env, check=False)
    return done.returncode, done.stdout, done.stderr


USERS = [False] if os.geteuid() else [False, True]


@pytest.mark.parametrize("nobody", USERS)
@pytest.mark.parametrize("state", ["running", "closed", "killed", "read-only"])
def test_nothing_is_made_or_changed(shared: Path, state: str, nobody: bool) -> None:
    """EV-4.5, STORE-08: as root and as another user, of a store in use, closed or left by a kill: `ls -ln` stays."""
    path = shared / "state" / "events.sqlite3"
    with opened(path) as store:
        store.append(events(30))
        readable(shared / "state")
        if state == "running":
            unchanged(shared, path, nobody=nobody)
            assert store.append([event(30)])[0].sequence == 31, "the service still writes"
        if state == "killed":
            other = shared / "other" / path.name
            other.parent.mkdir()
            for end in ("", *BESIDE[:2]):
                shutil.copy(beside(path, end), other.parent)
            readable(other.parent)
            unchanged(shared, other, nobody=nobody)
            with opened(other) as again:
                assert again.bounds() == (0, 30)
    if state == "closed":
        unchanged(shared, path, nobody=nobody)
    if state == "read-only":
        (shared / "state").chmod(0o555)
        unchanged(shared, path, nobody=nobody)


def unchanged(folder: Path, path: Path, *, nobody: bool) -> None:
    before = listing(folder)
    code, text, errors = read_as(path, nobody=nobody)
    assert (code, errors) == (0, "")
    assert [json.loads(line)["data"]["number"] for line in text.splitlines()] == list(range(30))
    assert listing(folder) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user is root's")
@pytest.mark.parametrize("running", [True, False])
def test_no_right_to_read(shared: Path, running: bool) -> None:
    """EV-4.5, STORE-08: exit code 3; the line names whose store it is and how else to ask."""
    path = shared / "state" / "events.sqlite3"
    with opened(path) as store:
        store.append(events(3))
        if not running:
            store.close()
        for mode in (0o700, 0o755):
            (shared / "state").chmod(mode)
            before = listing(shared)
            code, text, errors = read_as(path, nobody=True)
            assert (code, text) == (3, "")
            assert one_line(errors)
            assert "no right to read" in errors
            assert "GET /api/v1/events" in errors
            assert listing(shared) == before


# --- follow --------------------------------------------------------------------------------------------------------


class Following:
    """``idkmesh events follow`` as a process, and what it has printed."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.out, self.errors = path.parent / "out", path.parent / "errors"
        with self.out.open("w") as out, self.errors.open("w") as errors:
            command = [*COMMAND, "events", "follow", "--json", "--store", str(path), *arguments]
            self.process = subprocess.Popen(command, stdout=out, stderr=errors, env=environment())

    def numbers(self) -> list[int]:
        lines = self.out.read_text().splitlines(keepends=True)
        return [json.loads(line)["data"].get("number", -1) for line in lines if line.endswith("\n")]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def following(path: Path, *arguments: str) -> Iterator[Following]:
    found = Following(path, *arguments)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
        found.process.wait()


def appended_until(found: Following, store: EventStore, first: int) -> int:
    """Append numbered events until the first of them is printed, and return the next number."""
    deadline = time.monotonic() + PATIENCE
    while not found.numbers():
        store.append([event(first)])
        first += 1
        time.sleep(0.1)
        assert time.monotonic() < deadline
    return first


def test_follow(path: Path) -> None:
    """EV-4.5: what is committed from now on, in order, each once, until interrupted, which is its end: exit code 0."""
    with opened(path) as store:
        store.append(events(10))
        with following(path) as found:
            first = appended_until(found, store, 10)
            store.append([event(first + n) for n in range(500)])
            until(lambda: found.numbers()[-1] == first + 499, "all are printed")
            printed = found.numbers()
            assert printed == list(range(printed[0], first + 500))
            assert printed[0] >= 10
            assert found.stop() == 0
            assert found.errors.read_text() == ""


def test_follow_from_a_position(path: Path) -> None:
    """EV-4.5: what is there after the position first, across the end and the new start of a service."""
    with opened(path) as store:
        store.append(events(300))
        epoch = store.epoch
    with following(path, "--after", f"{epoch}.50", "--type", "test.numbered") as found:
        until(lambda: found.numbers() == list(range(50, 300)), "the past is printed")
        for number in (300, 301):
            with opened(path) as store:
                store.append([event(number), event(-7, type="another")])
        until(lambda: found.numbers() == list(range(50, 302)), "and what follows")
        assert found.stop() == 0


def test_follow_a_store_that_is_replaced(path: Path) -> None:
    """EV-4.5: a line tells of it, and the new store's events follow from its first."""
    with opened(path) as store, following(path) as found:
        appended_until(found, store, 0)
        put_aside(path, NOW, "/other", "a test")
        with opened(path) as new:
            new.append([event(7)])
            until(lambda: found.numbers()[-2:] == [-1, 7], "the new store's events are printed")
        assert re.search(r"was replaced, its epoch is [0-9a-f]{16} now\n$", found.errors.read_text())
        assert found.stop() == 0


def test_follow_a_store_that_is_overtaken(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """EV-4.5: what retention has given up before it was printed is told as a gap."""

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with opened(path, event_retention_count=100) as store:
        store.append(events(150))
        store.prune(NOW)
        query = Query(store=path, wanted={}, after=None, as_json=True)
        with pytest.raises(KeyboardInterrupt):
            _follow(query, store.epoch, 20)
    out, errors = capsys.readouterr()
    assert [json.loads(line)["data"]["number"] for line in out.splitlines()] == list(range(50, 150))
    assert errors == "idkmesh: events 21 to 50 are gone: retention has given them up\n"


def test_nobody_reads(path: Path) -> None:
    """EV-4.5, CLI-08: a reader that goes away ends the command quietly."""
    with opened(path) as store:
        store.append(events(5000))
    command = shlex.join([*COMMAND, "events", "list", "--limit", "5000", "--store", str(path)]) + " | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment(), check=True)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def test_after_a_number(path: Path) -> None:
    """EV-4.5: the number that a line shows is a position of the store that is read."""
    with opened(path) as store:
        store.append(events(6))
        epoch = store.epoch
    lines = [
        idkmesh("events", "list", "--store", str(path), "--after", after)[1] for after in ("000000000004", f"{epoch}.4")
    ]
    assert lines[0] == lines[1]
    assert len(lines[0].splitlines()) == 2
