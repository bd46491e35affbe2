"""The provider `file`: what it makes of a document, when it looks, and the ways in which files change."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.changes import Change
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, snapshot_of
from idkmesh.topology.provider import ProviderFailureError
from idkmesh.topology.providers import file
from idkmesh.topology.providers.file import FileProvider
from idkmesh.topology.providers.file_reading import MAX_BYTES, content_of, identity_of
from idkmesh.topology.providers.file_state import (
    LOOK_SECONDS,
    READ_SECONDS,
    Fault,
    FileState,
    Identity,
    after_look,
    is_to_read,
)
from idkmesh.topology.providers.releases import read_releases, releases_of
from tests.contract.topology_worlds import put, rows, text
from tests.topology.support import ECHO, EMPTY, START, WAIT, Heard, at, eventually, other

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ONE, TWO, THREE = (text({ECHO: at(port).endpoints}) for port in (9001, 9002, 9003))
SEEN = Identity(1, 2, len(ONE), 3, 4)

MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "a brace": b"{",
    "null": b"null",
    "a list": b"[]",
    "no releases": b'{"schema_version": "0.1", "kind": "idkmesh-releases"}',
    "releases null": b'{"schema_version": "0.1", "kind": "idkmesh-releases", "releases": null}',
    "another kind": b'{"schema_version": "0.1", "kind": "idkmesh-modules", "releases": []}',
    "a newer version": b'{"schema_version": "0.2", "kind": "idkmesh-releases", "releases": []}',
    "a member more": b'{"schema_version": "0.1", "kind": "idkmesh-releases", "releases": [], "token": "s3cret"}',
    "a member twice": b'{"schema_version": "0.1", "kind": "idkmesh-releases", "releases": [], "releases": []}',
    "a number beyond JSON": b'{"schema_version": NaN, "kind": "idkmesh-releases", "releases": []}',
    "half": ONE.encode()[: len(ONE) // 2],
    "all but the end": ONE.encode()[:-1],
    "twice": ONE.encode() * 2,
    "another encoding": ONE.encode("utf-16"),
    "no UTF-8": ONE.encode().replace(b"echo", b"ech\xff"),
    "a page of errors": b"<html><body>502 Bad Gateway s3cret</body></html>",
    "deep": b"[" * 200_000,
    "long digits": b'{"schema_version": ' + b"9" * 5000 + b"}",
    "zeros": b"\0" * 4096,
}

ROWS: dict[str, Any] = {
    "no object": 3,
    "no list": {"agentId": "a"},
    "no endpoints": [{"agentId": "a", "agentCardVersion": "1", "releaseId": "r"}],
    "a member more": [{**rows({ECHO: ()})[0], "token": "s3cret"}],
    "a number for a name": [{**rows({ECHO: ()})[0], "agentId": 7}],
    "a name that is none": [{**rows({ECHO: ()})[0], "agentId": "s3cret/x"}],
    "an endpoint without a port": [{**rows({ECHO: ()})[0], "endpoints": ["http://s3cret"]}],
    "a port as text": [{**rows({ECHO: ()})[0], "endpoints": [{"host": "s3cret", "port": "80"}]}],
    "endpoints null": [{**rows({ECHO: ()})[0], "endpoints": None}],
    "too many endpoints": [{**rows({ECHO: ()})[0], "endpoints": ["http://a:1"] * 1001}],
    "a release twice": rows({ECHO: ()}) * 2,
}


# --- documents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MALFORMED)
def test_documents_that_are_none(name: str) -> None:
    """RT-6.1, RT-6.5, TOPO-04: refused as a whole, in one line that says where and repeats nothing of it."""
    with pytest.raises(ValueError, match=r"\A[^\n]{5,200}\Z") as told:
        read_releases(MALFORMED[name])
    assert "s3cret" not in str(told.value)


def test_a_number_of_many_digits() -> None:
    """RT-6.1, RT-6.5: the line says what the document lacks, and nothing of how Python could be had to read it."""
    with pytest.raises(ValueError, match="must be an object with exactly"):
        read_releases(MALFORMED["long digits"])


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_are_none(name: str) -> None:
    """RT-6.1, RT-5.8, RT-11.5, TOPO-04: the row is named, and what stands in it is not."""
    with pytest.raises(ValueError, match=r"\Areleases(\[\d\])?: ") as told:
        releases_of(ROWS[name])
    assert "s3cret" not in str(told.value)


def test_documents() -> None:
    """RT-6.1, TOPO-04: a release is there with its endpoints, or with none; a byte order mark is no fault."""
    releases = {ECHO: at(1, 2).endpoints, other(1): ()}
    found = read_releases(b"\xef\xbb\xbf" + text(releases).encode())
    assert found == {ECHO: at(1, 2), other(1): EMPTY}
    assert read_releases(text({}).encode()) == {}
    assert releases_of(json.loads(text(releases))["releases"]) == found


# --- looks, without a file -------------------------------------------------------------------------------------------


class Looks:
    """A file in memory, looked at every 0.2 s of a clock that a test moves."""

    def __init__(self, content: str | bytes | Fault) -> None:
        self.now = START
        self.identity: Identity | None = SEEN
        self.content = content
        self.state = FileState()
        self.reads = 0
        self.look()

    def look(self) -> None:
        content = None
        if is_to_read(self.state, self.identity, self.now):
            self.reads += 1
            content = self.content.encode() if isinstance(self.content, str) else self.content
        self.state = after_look(self.state, self.identity, content, self.now)

    def until(self, seconds: float) -> None:
        """Go on looking for so long."""
        end = self.now + seconds
        while self.now + LOOK_SECONDS <= end + 1e-6:
            self.now += LOOK_SECONDS
            self.look()

    def write(self, content: str | bytes | Fault, identity: Identity | None) -> None:
        self.content, self.identity = content, identity

    def known(self) -> object:
        return None if self.state.known is None else self.state.known.get(ECHO, NOT_DECLARED)


def test_a_change_is_read_at_the_next_look() -> None:
    """RT-6.3, RT-6.2: another identity, in whichever of its parts, is read at once; the same content is no change."""
    looks = Looks(ONE)
    assert looks.known() == at(9001)
    for content, part in ((TWO, "inode"), (THREE, "written_ns"), (ONE, "changed_ns"), (TWO, "device"), (ONE, "size")):
        looks.until(10)
        looks.write(content, SEEN._replace(**{part: 77}))
        looks.until(LOOK_SECONDS)
        assert looks.state.known == read_releases(content.encode())
    before = looks.state.known
    looks.until(10)
    looks.write(ONE, SEEN)
    looks.until(LOOK_SECONDS)
    assert looks.state.known is before


def test_an_instant_is_not_believed_at_once() -> None:
    """RT-6.3: within 2 s of a change, another content with the same identity is seen at the next look."""
    looks = Looks(ONE)
    looks.until(1.6)
    looks.write(TWO, SEEN)
    looks.until(LOOK_SECONDS)
    assert looks.known() == at(9002)


def test_no_instant_tells_of_it() -> None:
    """RT-6.3: also where nothing tells of a change it is read within 5 s; and it is not read all the time."""
    looks = Looks(ONE)
    looks.until(20)
    looks.write(TWO, SEEN)
    looks.until(READ_SECONDS + LOOK_SECONDS)
    assert looks.known() == at(9002)
    reads = looks.reads
    looks.until(60)
    assert looks.reads - reads <= 60 / READ_SECONDS + 1


@pytest.mark.parametrize("fault", [MALFORMED["half"], b"", Fault(Cause.UNREADABLE, "cannot be opened: gone")])
def test_a_fault_counts_after_a_second(fault: bytes | Fault) -> None:
    """RT-6.4: until then what was there stays; then nothing does, until it can be read again, which counts at once."""
    looks = Looks(ONE)
    looks.until(10)
    looks.write(fault, None if isinstance(fault, Fault) else SEEN._replace(size=len(fault)))
    looks.until(1.0)
    assert looks.known() == at(9001)
    looks.until(LOOK_SECONDS)
    assert looks.known() is None
    assert looks.state.fault is not None
    assert looks.state.fault.cause is (fault.cause if isinstance(fault, Fault) else Cause.MALFORMED)
    looks.until(30)
    assert looks.known() is None
    looks.write(TWO, SEEN)
    looks.until(LOOK_SECONDS)
    assert looks.known() == at(9002)


def test_what_is_written_in_halves_is_no_fault() -> None:
    """RT-6.4: half of a file for half a second, and then all of it, is one change; so is an empty one."""
    looks = Looks(ONE)
    looks.until(10)
    for content in (b"", TWO[:40], TWO[:90]):
        looks.write(content, SEEN._replace(size=len(content)))
        looks.until(LOOK_SECONDS)
        assert looks.known() == at(9001)
    looks.write(TWO, SEEN)
    looks.until(LOOK_SECONDS)
    assert (looks.known(), looks.state.fault, looks.state.suspect) == (at(9002), None, None)


def test_a_fault_that_goes_on_in_another_way() -> None:
    """RT-6.4: a protection that begins anew with each other fault would have no end: the second is counted once."""
    looks = Looks(ONE)
    looks.until(10)
    for number in range(6):
        looks.write(b"{" * (number + 1), SEEN._replace(size=number + 1))
        looks.until(LOOK_SECONDS)
    assert looks.known() is None


def test_a_fault_of_the_machine_is_tried_again_soon() -> None:
    """RT-6.4, RT-6.3: no descriptor was left for one reading of the same file: the next look reads again."""
    looks = Looks(ONE)
    looks.until(10)
    looks.write(Fault(Cause.UNREADABLE, "cannot be opened: Too many open files"), SEEN)
    reads = looks.reads
    while looks.reads == reads:
        looks.until(LOOK_SECONDS)
    looks.write(TWO, SEEN)
    looks.until(LOOK_SECONDS)
    assert looks.known() == at(9002)


def test_it_begins_with_a_fault() -> None:
    """RT-6.4: nothing is known, and that is told after the same second."""
    looks = Looks(b"{")
    assert (looks.known(), looks.state.fault) == (None, None)
    looks.until(1.2)
    assert looks.state.fault is not None
    assert replace(looks.state, fault=None).known is None


# --- a file ----------------------------------------------------------------------------------------------------------


class Place:
    """A provider of a real file, one watch of it, and the lines that it writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.told: list[Change] = []
        self.provider = FileProvider(path, line=lambda line, _: self.lines.append(line), changed=self.told.append)
        self.heard = self.watched()

    def tells(self, *changes: tuple[str, dict[str, str]]) -> bool:
        """Wait until these were told of the boundary, and nothing else."""
        wanted = [Change(f"idkmesh.topology.provider_{what}", "file", facts) for what, facts in changes]
        return eventually(lambda: self.told == wanted)

    def watched(self) -> Heard:
        heard = Heard()
        self.provider.observe(ECHO, heard)
        return heard

    def sees(self, port: int, heard: Heard | None = None) -> bool:
        return eventually(lambda: (heard or self.heard).last() == at(port))

    def fails(self, cause: Cause) -> bool:
        return eventually(lambda: self.heard.last() == Failed(cause))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    path = tmp_path / "releases.json"
    put(path, ONE)
    made = Place(path)
    assert made.sees(9001)
    yield made
    made.provider.close()


def renamed(path: Path) -> None:
    put(path, TWO)


def cut_and_written(path: Path) -> None:
    path.write_text(TWO, encoding="utf-8")


def written_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(TWO.encode())


def written_with_old_instants(path: Path) -> None:
    before = path.stat()
    written_in_place(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def made_anew(path: Path) -> None:
    path.unlink()
    time.sleep(0.4)
    path.write_text(TWO, encoding="utf-8")


def written_in_halves(path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(TWO[:60])
        file.flush()
        time.sleep(0.5)
        file.write(TWO[60:])


@pytest.mark.parametrize(
    "change",
    [renamed, cut_and_written, written_in_place, written_with_old_instants, made_anew, written_in_halves],
    ids=lambda change: change.__name__,
)
def test_each_way_of_change(place: Place, change: Callable[[Path], None]) -> None:
    """RT-6.2, RT-6.4, TOPO-05: each is one change to the new content, without a failure, an emptiness or a word."""
    began = time.monotonic()
    change(place.path)
    took = time.monotonic() - began
    assert place.sees(9002, place.heard if took < 0.9 else place.watched())
    if took < 0.9:  # else this machine has stood still for so long that it was a fault, rightly
        assert place.heard.events == [at(9001), at(9002)]
        assert place.lines == []


def test_symbolic_links_two_levels_up(tmp_path: Path) -> None:
    """RT-6.2, TOPO-05: as Kubernetes swaps a volume: the name leads through `..data`, which is renamed over."""
    for name, content in (("first", ONE), ("second", TWO)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "releases.json").write_text(content, encoding="utf-8")
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "releases.json").symlink_to("..data/releases.json")
    place = Place(tmp_path / "releases.json")
    try:
        assert place.sees(9001)
        (tmp_path / "..new").symlink_to("second")
        os.replace(tmp_path / "..new", tmp_path / "..data")  # noqa: PTH105  the call that is meant
        assert place.sees(9002)
        assert place.heard.events == [at(9001), at(9002)]
    finally:
        place.provider.close()


def test_a_touch_is_no_change(place: Place) -> None:
    """RT-6.2, TOPO-05: other instants, the same content renamed over, and other spaces: nothing is told."""
    os.utime(place.path)
    put(place.path, ONE)
    put(place.path, json.dumps(json.loads(ONE), indent=1))
    put(place.path, text({ECHO: at(9001).endpoints, other(1): ()}))
    beside = Heard()
    place.provider.observe(other(1), beside)
    assert eventually(lambda: beside.last() == EMPTY)
    assert place.heard.events == [at(9001)]


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)


@pytest.mark.parametrize(
    "change", [gone, a_folder, a_fifo, a_link_to_itself, too_large], ids=lambda change: change.__name__
)
def test_what_cannot_be_read(place: Place, change: Callable[[Path], None]) -> None:
    """RT-6.4, RT-6.5, TOPO-04, TOPO-05: each watch fails, `unreadable`, once; a line says why; it may come back."""
    change(place.path)
    assert place.fails(Cause.UNREADABLE)
    assert place.heard.events == [at(9001), Failed(Cause.UNREADABLE)]
    again = place.watched()
    assert eventually(lambda: again.last() == Failed(Cause.UNREADABLE))
    if place.path.is_dir():
        place.path.rmdir()
    else:
        place.path.unlink(missing_ok=True)
    put(place.path, TWO)
    assert eventually(lambda: place.provider.usable().usable)
    assert place.sees(9002, place.watched())
    assert [line for line in place.lines if "unavailable" in line] == place.lines[:1]
    assert str(place.path) in place.lines[0]
    assert place.lines[1:] == [f"provider file: {place.path}: it can be read again"]


@pytest.mark.parametrize("name", ["nothing", "null", "half", "a page of errors", "no UTF-8"])
def test_what_is_malformed(place: Place, name: str) -> None:
    """RT-6.4, RT-6.5, TOPO-04: told once for as long as it stands there, and over with the next good content."""
    put(place.path, MALFORMED[name])
    assert place.fails(Cause.MALFORMED)
    time.sleep(3 * LOOK_SECONDS)
    assert len(place.lines) == 1
    assert "s3cret" not in place.lines[0]
    with pytest.raises(ProviderFailureError, match=r"^malformed$"):
        place.provider.snapshot(ECHO, 0.1)
    put(place.path, THREE)
    assert place.sees(9003, place.watched())
    assert len(place.lines) == 2


def test_a_right_that_is_taken_away(place: Place) -> None:
    """RT-6.4, TOPO-05: without a right to read it a file is unreadable; root has every right, and reads on."""
    place.path.chmod(0)
    if os.geteuid() == 0:
        assert isinstance(content_of(place.path), bytes)
    else:
        assert place.fails(Cause.UNREADABLE)
    place.path.chmod(0o600)
    assert eventually(lambda: place.provider.usable().usable)


def test_what_somebody_writes_to_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-6.4: a file that has changed while it was read is being written, and read again at the next look."""
    path = tmp_path / "releases.json"
    put(path, ONE)
    real = os.read

    def read(descriptor: int, length: int) -> bytes:
        got = real(descriptor, length)
        if got:
            path.write_text(TWO, encoding="utf-8")
            os.utime(path, ns=(1, 1))
        return got

    monkeypatch.setattr(os, "read", read)
    assert content_of(path) == Fault(Cause.UNREADABLE, "is being written")
    monkeypatch.undo()
    assert content_of(path) == TWO.encode()


def test_a_size_at_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-6.1: exactly 8 MiB are read; of more, nothing is, but that it is more; and what grows meanwhile is counted."""
    assert MAX_BYTES == 8 * 1024 * 1024
    path = tmp_path / "releases.json"
    path.write_bytes(b"x" * MAX_BYTES)
    assert content_of(path) == b"x" * MAX_BYTES
    fault = Fault(Cause.UNREADABLE, "is larger than 8388608 bytes")
    real, read = os.read, []

    def reads(descriptor: int, length: int) -> bytes:
        read.append(length)
        with path.open("ab") as file:
            file.write(b"x")
        return real(descriptor, length)

    monkeypatch.setattr(os, "read", reads)
    assert content_of(path) == fault
    assert read
    read.clear()
    assert content_of(path) == fault
    assert read == []


def test_a_name_that_is_none(tmp_path: Path) -> None:
    """RT-6.4: also a name that no file can have is a fault, and no exception."""
    for name in ("a\0b", "a" * 300):
        assert identity_of(tmp_path / name) is None
        fault = content_of(tmp_path / name)
        assert isinstance(fault, Fault)
        assert fault.cause is Cause.UNREADABLE


def test_it_is_usable_while_it_looks(place: Place) -> None:
    """RT-5.6, RT-6.5: one thread, that goes on with nobody; asking opens no file."""
    assert eventually(lambda: not place.provider._watches._new)  # else each look would ask after each watch
    assert place.provider.usable().usable
    assert sum(thread.name == "topology-file" for thread in threading.enumerate()) == 1
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0  # noqa: PTH112, PTH208  as cheap
    for _ in range(100):
        place.provider.usable()
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 1  # noqa: PTH208  the same


@pytest.mark.alone
def test_a_change_comes_within_its_bound(place: Place) -> None:
    """RT-6.3: 0.3 s and a reading: of ten changes the quickest half were in time, whatever else this machine does."""
    took = []
    for number in range(10):
        port = 9100 + number
        put(place.path, text({ECHO: at(port).endpoints}))
        began = time.monotonic()
        while place.heard.last() != at(port):
            assert time.monotonic() - began < WAIT
            time.sleep(0.005)
        took.append(time.monotonic() - began)
    assert sorted(took)[4] <= 0.35


def test_a_sink_with_a_fault(place: Place) -> None:
    """RT-6.5: a sink must not raise; one that does ends no thread, and its error's words stay in."""

    def broken(_: object) -> None:
        raise RuntimeError("s3cret")

    place.provider.observe(ECHO, broken)
    later = place.watched()
    assert eventually(lambda: bool(place.lines))
    assert "s3cret" not in place.lines[0]
    assert place.sees(9001, later)
    put(place.path, TWO)
    assert place.sees(9002)
    assert place.sees(9002, later)


def test_a_fault_of_the_judge(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-6.4, RT-5.4: content that cannot be judged for a reason of this program's is a fault."""

    def judge(_: bytes) -> None:
        raise MemoryError("s3cret")

    monkeypatch.setattr("idkmesh.topology.providers.file_state.read_releases", judge)
    put(place.path, TWO)
    assert place.fails(Cause.FAULT)
    assert "s3cret" not in place.lines[0]
    monkeypatch.undo()
    assert place.sees(9002, place.watched())


@pytest.mark.parametrize("part", ["identity_of", "content_of", "is_to_read"])
def test_a_fault_of_a_look(place: Place, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """RT-5.4, RT-5.6, RT-2.5: out of memory while it looks, the thread goes on, and nothing stays known from before."""

    def broken(*_: object) -> None:
        raise MemoryError("s3cret")

    monkeypatch.setattr(file, part, broken)
    assert place.fails(Cause.FAULT)
    assert place.provider.usable().cause is Cause.FAULT
    assert len(place.lines) == 1
    assert "s3cret" not in place.lines[0]
    monkeypatch.undo()
    assert eventually(lambda: place.provider.usable().usable)
    assert place.sees(9001, place.watched())


def test_a_fault_of_the_thread(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-5.4: whatever else goes wrong there, every watch fails, one line says so, and it is looked on."""

    def broken(*_: object) -> None:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(FileProvider, "_say", broken)
    assert place.fails(Cause.FAULT)
    monkeypatch.undo()
    assert place.sees(9001, place.watched())
    assert "s3cret" not in str(place.lines)
    assert "RuntimeError" in place.lines[0]


def test_a_file_system_that_does_not_answer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-5.6, RT-10.2: after 5 s without a look the boundary is not usable, while what was known stays (section 14)."""
    assert file.STUCK_SECONDS == 5.0
    monkeypatch.setattr(file, "STUCK_SECONDS", 2 * LOOK_SECONDS)
    answers = threading.Event()
    monkeypatch.setattr(file, "identity_of", lambda path: (answers.wait(WAIT), identity_of(path))[1])
    try:
        assert eventually(lambda: place.provider.usable().cause is Cause.SILENT)
        assert place.heard.events == [at(9001)]
    finally:
        answers.set()
    assert eventually(lambda: place.provider.usable().usable)
    assert eventually(lambda: len(place.told) >= 2)  # RT-10.2: both are told once it answers
    first, second = place.told[:2]
    assert (first.what, first.facts) == ("idkmesh.topology.provider_lost", {"cause": "silent"})
    assert second.what == "idkmesh.topology.provider_back"


def test_the_crossings_of_a_file(place: Place) -> None:
    """RT-10.2: lost where it cannot be read or understood, once whatever else is wrong meanwhile, and back."""
    place.path.unlink()
    assert place.tells(("lost", {"cause": "unreadable"}))
    place.path.write_text("{")
    assert eventually(lambda: place.provider.usable().cause is Cause.MALFORMED)
    put(place.path, TWO)
    assert place.tells(("lost", {"cause": "unreadable"}), ("back", {}))
    place.provider.close()
    assert len(place.told) == 2, "its own end is no loss"


def test_a_file_that_is_not_there_at_first(tmp_path: Path) -> None:
    """RT-10.2: what never was is lost, whether it is watched or not."""
    told: list[Change] = []
    provider = FileProvider(tmp_path / "none.json", line=lambda *_: None, changed=told.append, observe=False)
    try:
        assert eventually(lambda: bool(told))
    finally:
        provider.close()
    assert told == [Change("idkmesh.topology.provider_lost", "file", {"cause": "unreadable"})]


def test_a_log_that_takes_no_line(tmp_path: Path) -> None:
    """RT-6.5: the thread goes on, and the file is told of to its watches all the same."""

    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    provider, heard = FileProvider(tmp_path / "releases.json", line=broken), Heard()
    try:
        provider.observe(ECHO, heard)
        assert eventually(lambda: heard.last() == Failed(Cause.UNREADABLE))
        put(tmp_path / "releases.json", ONE)
        assert eventually(lambda: provider.usable().usable)
    finally:
        provider.close()


def test_snapshot_of_unused_target(place: Place) -> None:
    """RT-6.1: a release that does not stand in the file is not declared, also for who asks once."""
    assert place.provider.snapshot(other(7), 1.0) == NOT_DECLARED
    assert place.provider.snapshot(ECHO, 1.0) == snapshot_of(at(9001).endpoints)
