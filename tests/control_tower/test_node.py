"""How a node says it is: its id, its listeners, its room, its clock, and the path that answers."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from idkmesh.adapter.observation import IDENTIFIER, Observation, parse_observation
from idkmesh.control_tower import assets, listeners
from idkmesh.control_tower.listeners import Expected, inventory, listens, row_address, unknown
from idkmesh.control_tower.node import OLD_SECONDS, NodeWatch, Parts
from idkmesh.control_tower.node_record import NodeRecord, new_id, node_record
from idkmesh.events.errors import StoreDamagedError, StoreError
from idkmesh.health.model import File, Refresh
from idkmesh.httpd.core import Load
from idkmesh.service_runtime import ACCESS_LOG_VARIABLE, Admission, ServiceLimits
from tests.control_tower.conftest import TOKEN, Tower, running, until
from tests.control_tower.test_health import matrix, row
from tests.events.support import event, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, dt.UTC)
EPOCH = "0123456789abcdef"
LIMITS = ServiceLimits()
SCHEMA = assets.schema("node-observation.json")

linux = pytest.mark.skipif(not listeners.TABLES[socket.AF_INET].exists(), reason="the kernel has no such table")


def seen_by(tower: Tower) -> Observation:
    answer = tower.api("GET /api/v1/node")
    assert answer.status == 200
    jsonschema.validate(answer.json(), SCHEMA)
    seen = parse_observation(answer.body)
    assert isinstance(seen, Observation)
    return seen


# --- the id ----------------------------------------------------------------------------------------------------------


def test_the_id_is_made_once(tmp_path: Path) -> None:
    """RA-5.2: beside the store, for this user alone, and the same from then on, whatever the store's epoch is."""
    store = tmp_path / "events.sqlite3"
    made = node_record(store, EPOCH)
    assert made.path == tmp_path / "events.sqlite3-node"
    assert made.path.stat().st_mode & 0o7777 == 0o600
    assert len(made.node_id) == 32
    assert made.epoch == EPOCH
    assert node_record(store, "f" * 16) == made
    assert [path.name for path in tmp_path.iterdir()] == ["events.sqlite3-node"]


def test_the_id_of_two_that_start_at_once(tmp_path: Path) -> None:
    """RA-5.2: they are one node."""
    found: list[NodeRecord] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        found.append(node_record(tmp_path / "store", EPOCH))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"nonsense", b"[]", b"\xff", b"[" * 4000, b"{" + b" " * 5000 + b"}"),
        json.dumps({"kind": "idkmesh-client", "schema_version": "0.1", "node_id": "a", "epoch": EPOCH}).encode(),
        json.dumps({"kind": "idkmesh-node-record", "schema_version": "0.2", "node_id": "a", "epoch": EPOCH}).encode(),
        json.dumps({"kind": "idkmesh-node-record", "schema_version": "0.1", "node_id": "a b", "epoch": EPOCH}).encode(),
        json.dumps({"kind": "idkmesh-node-record", "schema_version": "0.1", "node_id": "a", "epoch": "0"}).encode(),
        json.dumps({"kind": "idkmesh-node-record", "schema_version": "0.1", "node_id": "a", "epoch": 5}).encode(),
    ],
    ids=range(11),
)
def test_no_other_id_is_made(tmp_path: Path, content: bytes) -> None:
    """RA-5.2: a file that is damaged or of another kind is refused in one line, and stays as it is."""
    path = tmp_path / "store-node"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"store-node is damaged or of another kind.* or remove it to begin as a new"):
        node_record(tmp_path / "store", EPOCH)
    assert path.read_bytes() == content


def test_what_is_no_file_of_a_node(tmp_path: Path) -> None:
    """RA-5.2: a symbolic link, a folder and a FIFO under its name are refused."""
    node_record(tmp_path / "real", EPOCH)
    (tmp_path / "a-node").symlink_to(tmp_path / "real-node")
    (tmp_path / "b-node").mkdir()
    os.mkfifo(tmp_path / "c-node")
    for name in "abc":
        with pytest.raises(StoreError, match=f"the node's file {tmp_path}/{name}-node "):
            node_record(tmp_path / name, EPOCH)
    with pytest.raises(StoreError, match="No such file or directory"):
        node_record(tmp_path / "no folder" / "store", EPOCH)


def test_ids_are_ids() -> None:
    """RA-5.2, RA-5.3: random, and of the form that a reader takes."""
    made = {new_id() for _ in range(100)}
    assert len(made) == 100
    for each in made:
        assert jsonschema.Draft202012Validator({"pattern": f"^{IDENTIFIER}$"}).is_valid(each)


# --- the listeners ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "host", "port", "byteorder", "text"),
    [
        (socket.AF_INET, "127.0.0.1", 8765, "little", "0100007F:223D"),
        (socket.AF_INET, "127.0.0.1", 8765, "big", "7F000001:223D"),
        (socket.AF_INET6, "::1", 80, "little", "00000000000000000000000001000000:0050"),
        (socket.AF_INET6, "fe80::1%lo", 80, "big", "FE800000000000000000000000000001:0050"),
    ],
)
def test_an_address_as_the_kernel_writes_it(family: int, host: str, port: int, byteorder: str, text: str) -> None:
    """RA-5.4: proc_pid_net(5) has words of the machine's own byte order."""
    assert row_address(family, host, port, byteorder) == text


def test_a_row_of_the_kernels_table() -> None:
    """RA-5.4: state, address and inode decide together."""
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = (
        "   0: 0100007F:223D 00000000:0000 {} 00000000:00000000 00:00000000 00000000  1000   0 4711 1 00 100 0 0 10 0\n"
    )
    assert listens([head, row.format("0A")], "0100007F:223D", 4711)
    assert not listens([head, row.format("01")], "0100007F:223D", 4711)
    assert not listens([head, row.format("0A")], "0100007F:223E", 4711)
    assert not listens([head, row.format("0A")], "0100007F:223D", 471)
    assert not listens([head], "0100007F:223D", 4711)


@linux
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_listener_of_our_own(host: str) -> None:
    """RA-5.4: a real one is live and ours, in both families; one that does not listen, or is closed, is not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening, socket.socket(family) as bound:
        bound.bind((host, 0))
        expected = [Expected("api", "somewhere", listening), Expected("probes", "elsewhere", bound)]
        api, probes = inventory(expected)
        assert (api.name, api.address, api.owner_pid, api.live) == ("api", "somewhere", os.getpid(), True)
        assert (probes.owner_pid, probes.live) == (None, False)
    assert inventory(expected) == unknown(expected)


def test_a_system_without_such_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """RA-5.4: nothing is known there, and no listener is live."""
    monkeypatch.setattr(listeners, "TABLES", {socket.AF_INET: tmp_path / "none"})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        expected = [Expected("api", "somewhere", listening)]
        assert inventory(expected) == unknown(expected)
        assert not inventory(expected)[0].live


# --- the watch, without a clock --------------------------------------------------------------------------------------


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall = NOW

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> dt.datetime:
        return self.wall


class Marks:
    """What a store gives, as a test sets it."""

    def __init__(self) -> None:
        self.epoch: str | Exception = EPOCH
        self.time: dt.datetime | None = NOW

    def examine(self) -> str:
        if isinstance(self.epoch, Exception):
            raise self.epoch
        return self.epoch

    def latest(self) -> dt.datetime | None:
        return self.time


@dataclass
class World:
    """A watch with everything around it."""

    clock: Clock = field(default_factory=Clock)
    marks: Marks = field(default_factory=Marks)
    load: Load = field(default_factory=lambda: Load(3, 1, 100, exhausted=False))
    well: bool = True
    ready: bool = True
    draining: bool = False
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts = Parts(
            limits=LIMITS,
            load=lambda _: self.load,
            well=lambda: self.well,
            activation_ready=lambda: self.ready,
            draining=lambda: self.draining,
        )
        record = NodeRecord(Path("store-node"), "node", EPOCH)
        self.watch = NodeWatch(record, self.marks, parts, clock=self.clock, log=lambda line, _: self.lines.append(line))


@pytest.fixture
def world() -> World:
    made = World()
    made.watch.look()
    return made


def test_what_is_read_when_it_is_asked_for(world: World) -> None:
    """RA-5.5, RA-5.6, RA-5.8: room, pressure, readiness and the drain are of this moment, with the limits in force."""
    seen = world.watch.observation()
    assert (seen.health, seen.pressure, seen.activation_ready, seen.draining) == ("ok", "available", True, False)
    assert (seen.capacity.connections.limit, seen.capacity.connections.used) == (LIMITS.max_connections, 3)
    assert (seen.capacity.exchanges.limit, seen.capacity.exchanges.used) == (LIMITS.max_concurrent_requests, 1)
    assert (seen.capacity.buffers.limit, seen.capacity.buffers.used) == (LIMITS.max_buffered_bytes, 100)
    world.load, world.ready, world.draining = Load(3, 16, 100, exhausted=True), False, True
    seen = world.watch.observation()
    assert (seen.pressure, seen.activation_ready, seen.draining) == ("exhausted", False, True)
    assert seen.capacity.exchanges.free == 0
    world.well = False
    assert world.watch.observation().health == "failing"


@pytest.mark.parametrize(
    ("ahead", "behind"),
    [
        (dt.timedelta(), 0),
        (dt.timedelta(seconds=-5), 0),
        (dt.timedelta(microseconds=1), 1),
        (dt.timedelta(milliseconds=1), 1),
        (dt.timedelta(milliseconds=1, microseconds=1), 2),
        (dt.timedelta(days=400), 34_560_000_000),
    ],
)
def test_how_far_the_clock_is_behind(world: World, ahead: dt.timedelta, behind: int) -> None:
    """RA-5.7: by the latest recorded time; a part of a millisecond is one."""
    world.marks.time = NOW + ahead
    seen = world.watch.observation()
    assert (seen.health, seen.clock.readable, seen.clock.behind_ms) == ("ok", True, behind)


def test_a_clock_that_catches_up(world: World) -> None:
    """RA-5.7: it is told once that it is behind and once that it is not, and a store without events has no mark."""
    world.marks.time = NOW + dt.timedelta(seconds=2)
    for _ in range(3):
        world.watch.look()
    assert world.watch.observation().clock.behind_ms == 2000
    world.clock.wall = NOW + dt.timedelta(seconds=2)
    for _ in range(3):
        world.watch.look()
    assert world.watch.observation().clock.behind_ms == 0
    assert [line.partition(",")[0] for line in world.lines] == [
        "the wall clock is 2000 ms behind the latest recorded event",
        "the wall clock is no longer behind the latest recorded event",
    ]
    world.marks.time = None
    assert world.watch.observation().clock.behind_ms == 0


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (StoreDamagedError("the store is damaged"), "cannot be read: the store is damaged; until then"),
        (ValueError("a fault"), "cannot be read: ValueError: a fault; until then"),
        ("f" * 16, "not the one that this node has recorded in: put that one back, or remove store-node and restart"),
    ],
)
def test_a_mark_that_cannot_be_read(world: World, found: str | Exception, line: str) -> None:
    """RA-5.7: unhealthy at once, whatever the reason; told once, and once that it is over."""
    world.marks.epoch = found
    for _ in range(3):
        world.watch.look()
    seen = world.watch.observation()
    assert (seen.health, seen.clock.readable, seen.clock.behind_ms) == ("failing", False, None)
    world.marks.epoch = EPOCH
    for _ in range(3):
        world.watch.look()
    assert world.watch.observation().health == "ok"
    told, over = world.lines
    assert line in told
    assert over == "the latest time that this node has recorded can be read again"


def test_what_was_seen_grows_old(world: World) -> None:
    """RA-5.7, RA-5.8: a watching thread that is stuck makes unknown what it has seen, after 5 s."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        world.watch.expect("api", "somewhere", listening)
        world.watch.look()
        known = world.watch.observation()
        world.clock.now += OLD_SECONDS
        assert world.watch.observation() == known
        world.clock.now += 0.001
        seen = world.watch.observation()
    assert (seen.health, seen.clock.readable) == ("failing", False)
    assert seen.listeners == unknown([Expected("api", "somewhere", listening)])


def test_before_the_first_look() -> None:
    """RA-5.7, RA-5.8: nothing is known, and that is not well."""
    world = World()
    seen = world.watch.observation()
    assert (seen.health, seen.clock.readable) == ("failing", False)


# --- the mark of a real store ----------------------------------------------------------------------------------------


def test_the_latest_time_of_a_store(tmp_path: Path) -> None:
    """RA-5.7: the latest of all events, wherever it stands; nothing in a new store."""
    with opened(tmp_path / "store") as store:
        assert store.latest_time() == ""
        assert store.examine() == store.epoch
        for hours in (1, 3, 2):
            store.append([event(time=NOW + dt.timedelta(hours=hours))])
        assert store.latest_time() == "2026-01-02T06:04:05.678Z"
        assert store.examine() == store.epoch


def test_the_latest_time_that_is_recorded_meanwhile(start: Any) -> None:
    """RA-5.7: an event that says it was later moves the mark, and the one after it, from before, does not."""
    with start() as tower:
        now, feed = dt.datetime.now(dt.UTC), tower.server.events
        for number, time in enumerate((now + dt.timedelta(hours=1), now)):
            feed.emit(event(number, time=time, type=f"test.number{number}"))
            until(lambda: f"test.number{number}" in str(tower.api("GET /api/v1/events").body))  # noqa: B023  it is called at once
            until(lambda: bool(seen_by(tower).clock.behind_ms))


def test_damage_under_an_open_store(tmp_path: Path) -> None:
    """RA-5.7: what an open connection does not see, one that is opened anew does."""
    path = tmp_path / "store"
    with opened(path) as store:
        store.append([event()])
        for name in (path, tmp_path / "store-wal"):
            with name.open("r+b") as file:
                file.write(b"\xaa" * max(4096, name.stat().st_size))
        with pytest.raises(StoreDamagedError):
            store.examine()


# --- the path --------------------------------------------------------------------------------------------------------


@linux
def test_a_node_to_which_nothing_is_amiss(tower: Tower) -> None:
    """RA-5.1, RA-5.4, RA-5.5, RA-5.6: a real one, whose listener the kernel shows to be this process's."""
    until(lambda: seen_by(tower).activation_ready)
    seen = seen_by(tower)
    (listener,) = seen.listeners
    assert (listener.name, listener.address, listener.owner_pid, listener.live) == (
        "api",
        tower.host,
        os.getpid(),
        True,
    )
    assert (seen.health, seen.draining, seen.clock.readable, seen.clock.behind_ms) == ("ok", False, True, 0)
    assert seen.capacity.connections.limit == tower.server.limits.max_connections
    assert seen.capacity.connections.used >= 1


def test_who_may_ask(tower: Tower) -> None:
    """RA-5.1: host, origin, method and token, in this order; HEAD has the fields of GET."""
    foreign, page, other = "Host: else.where", "Origin: http://else.where", f"Host: {tower.host}"
    assert parse_raw(tower, "POST", foreign, page).code == "forbidden_host"
    assert parse_raw(tower, "POST", other, page).code == "forbidden_origin"
    assert parse_raw(tower, "POST", other).code == "method_not_allowed"
    assert parse_raw(tower, "BREW", other).code == "not_implemented"
    assert parse_raw(tower, "GET", other).code == "unauthorized"
    assert parse_raw(tower, "GET", other, "Authorization: Bearer " + "x" * 32).code == "unauthorized"
    assert parse_raw(tower, "GET", other, f"Authorization: Bearer {TOKEN}").status == 200
    head = tower.api("HEAD /api/v1/node")
    assert (head.status, head.body) == (200, b"")
    assert int(head.fields["content-length"]) > 100


def parse_raw(tower: Tower, method: str, host: str, *fields: str) -> Any:
    return tower.ask(f"{method} /api/v1/node", *fields, host=host.partition(": ")[2])


def test_an_id_for_the_node_and_one_for_the_start(tmp_path: Path) -> None:
    """RA-5.2, RA-5.3: after another start on the same store the node is the same and the boot is not."""
    boots = []
    for _ in range(2):
        with running(store=tmp_path / "events.sqlite3") as tower:
            boots.append(seen_by(tower).node)
    assert boots[0].id == boots[1].id
    assert boots[0].boot_id != boots[1].boot_id


def held_request(tower: Tower) -> socket.socket:
    """Begin a request whose body is missing: its head is complete, so that a drain waits for it (HS-5.3)."""
    client = socket.create_connection(tower.address[:2], timeout=20)
    head = f"POST /api/v1/inspect/http-request HTTP/1.1\r\nHost: {tower.host}\r\nX-IDKMesh-UI-Token: {TOKEN}\r\n"
    client.sendall(f"{head}Content-Type: message/http\r\nContent-Length: 10\r\n\r\n".encode())
    return client


def test_in_a_drain(start: Any) -> None:
    """RA-5.1: it is answered, and says so."""
    with start() as tower, held_request(tower) as client:
        until(lambda: tower.server.usage().connections == 1)
        tower.server.begin_drain()
        assert tower.api("GET /api/v1/status").code == "shutting_down"
        assert seen_by(tower).draining
        client.sendall(b"0123456789")


@contextlib.contextmanager
def full(tower: Tower) -> Iterator[None]:
    """Take every slot of a tower."""
    with contextlib.ExitStack() as stack:
        for _ in range(tower.server.limits.max_concurrent_requests):
            admission = tower.server.limiter.admit()
            assert isinstance(admission, Admission)
            stack.enter_context(admission)
        yield


def test_beyond_the_cap(start: Any) -> None:
    """RA-5.1, RA-5.5: with every slot taken it is answered, and has no exchange free; live has no part in it."""
    with start(limits=ServiceLimits(max_concurrent_requests=2)) as tower:
        with full(tower):
            assert tower.api("GET /api/v1/status").code == "overloaded"
            seen = seen_by(tower)
            assert (seen.capacity.exchanges.used, seen.capacity.exchanges.free) == (2, 0)
            assert (seen.health, seen.pressure) == ("ok", "exhausted")
        assert seen_by(tower).pressure == "exhausted"  # for 5 s after the last that was refused


def test_readiness_that_waits_to_be_asked_for(start: Any, tmp_path: Path) -> None:
    """RA-5.6: who asks for the node asks for results that wait for it (HL-4.6), and gets what readiness would say."""
    there = tmp_path / "there"
    asked = row("there", File(path=str(there)), refresh=Refresh.REQUEST, interval_ms=50, timeout_ms=40, cache_ms=50)
    with start(matrix=matrix(asked)) as tower:
        assert not seen_by(tower).activation_ready
        there.touch()
        until(lambda: seen_by(tower).activation_ready)


def test_it_stands_in_the_access_log_when_its_status_changes(
    start: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """RA-5.1: as a probe does (CT-4.5): a look each second would hide what matters."""
    monkeypatch.setenv(ACCESS_LOG_VARIABLE, "1")
    caplog.set_level("INFO", logger="idkmesh")
    with start() as tower:
        for _ in range(3):
            seen_by(tower)
        for _ in range(3):
            assert tower.ask("GET /api/v1/node").status == 401
        for _ in range(3):
            seen_by(tower)
    lines = [json.loads(line) for line in caplog.messages if '"/api/v1/node"' in line]
    assert [line["status"] for line in lines] == [401, 200]
