"""A real node and the real command: what becomes of the answer when something is really amiss."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.adapter.node_get import EXIT_NO
from idkmesh.adapter.observation import Failure, Observation, parse_observation
from idkmesh.control_tower.listeners import TABLES
from tests.events.support import event, opened
from tests.functional.router_support import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
BUSY_SECONDS = 20.0
"""How often a look may time out on a busy machine before a test gives up: one has a second, by contract."""

pytestmark = pytest.mark.skipif(not TABLES[socket.AF_INET].exists(), reason="the kernel has no such table")


@dataclass
class Node:
    """A control tower as a process, and its files."""

    process: subprocess.Popen[str]
    store: Path
    client_file: Path

    @property
    def record(self) -> Path:
        return self.store.with_name(self.store.name + "-node")

    def get(self, *flags: str) -> tuple[int, str, str]:
        """Run the command, and return its exit code and what it printed."""
        command = [sys.executable, "-m", "idkmesh", *("node", "get", "--client-file", str(self.client_file)), *flags]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
        return done.returncode, done.stdout, done.stderr

    def answered(self, *flags: str) -> tuple[int, str, str]:
        """Do the same where the node answers. A look that a busy machine has delayed beyond its second is repeated."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            code, text, errors = self.get(*flags)
            if code != EXIT_NO or time.monotonic() > deadline:
                return code, text, errors

    def seen(self) -> Observation:
        """Look at the node."""
        code, text, errors = self.answered("--json")
        assert code == 0, errors
        seen = parse_observation(text.encode())
        assert isinstance(seen, Observation)
        return seen

    def until(self, condition: Callable[[Observation], bool]) -> Observation:
        """Look until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition(seen := self.seen()):
            assert time.monotonic() < deadline, seen
        return seen

    def stop(self) -> str:
        """End it, and return what it wrote to standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, errors
        return errors


@contextlib.contextmanager
def node(folder: Path, *flags: str, prefix: Sequence[str] = ()) -> Iterator[Node]:
    """Start a control tower in a folder, by way of a program where one is given, and wait for its client file."""
    store, client_file = folder / "events.sqlite3", folder / "client.json"
    files = (f"--store={store}", f"--client-file={client_file}")
    command = [*prefix, sys.executable, "-m", "idkmesh", "control-tower", "--port=0", *files, *flags]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + PATIENCE
        while not client_file.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield Node(process, store, client_file)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate()


def is_ready(seen: Observation) -> bool:
    return seen.activation_ready and seen.health == "ok" and seen.pressure == "available"


def test_a_node_for_people(tmp_path: Path) -> None:
    """RA-6.1, RA-6.2: four lines, and exit code 0; `--json` is the document as the node gave it."""
    with node(tmp_path) as tower:
        seen = tower.until(is_ready)
        code, text, errors = tower.answered()
        assert (code, errors) == (0, "")
        assert text == f"node {seen.node.id}\nboot {seen.node.boot_id}\nlive yes\nready yes\n"
        _, text, _ = tower.answered("--json")
        assert text.startswith('{"kind":"idkmesh-node-observation","schema_version":"0.1","node":{"id":"')
        assert text.count("\n") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_its_listeners(tmp_path: Path, host: str) -> None:
    """RA-5.4, RA-4.1: both of them, with the process that the kernel shows to own them, at any loopback address."""
    with node(tmp_path, "--probe-listen=127.0.0.1:0", f"--host={host}") as tower:
        found = tower.seen().listeners
        assert [(each.name, each.owner_pid, each.live) for each in found] == [
            ("api", tower.process.pid, True),
            ("probes", tower.process.pid, True),
        ]
        assert found[0].address == json.loads(tower.client_file.read_bytes())["address"]
        assert len({each.address for each in found}) == 2


def test_the_listener_of_its_router(tmp_path: Path) -> None:
    """RA-5.4, RT-12.1: a router beside a tower listens at an address of its own, which is in the inventory."""
    site = Site(tmp_path)
    with node(tmp_path, f"--router={site.config}", "--probe-listen=127.0.0.1:0") as tower:
        found = tower.seen().listeners
        assert [(each.name, each.owner_pid, each.live) for each in found] == [
            (name, tower.process.pid, True) for name in ("api", "probes", "router")
        ]
        assert len({each.address for each in found}) == 3


def test_the_client_file_of_a_tower(tmp_path: Path) -> None:
    """RA-4.3, CT-9.10: mode 0600 while it serves, removed at its end; where none can be written it does not start."""
    with node(tmp_path) as tower:
        assert tower.client_file.stat().st_mode & 0o7777 == 0o600
        tower.stop()
        assert not tower.client_file.exists()
    command = [sys.executable, "-m", "idkmesh", "control-tower", "--port=0", f"--client-file={tmp_path}/no/file"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == f"idkmesh: cannot write the client file {tmp_path}/no/file: No such file or directory\n"


def test_another_start(tmp_path: Path) -> None:
    """RA-5.2, RA-5.3: the same node, another boot, and an old token that is refused."""
    with node(tmp_path) as tower:
        first = tower.seen().node
        token = json.loads(tower.client_file.read_bytes())["token"]
        tower.stop()
    with node(tmp_path) as tower:
        second = tower.seen().node
        assert (second.id, second.boot_id == first.boot_id) == (first.id, False)
        client = json.loads(tower.client_file.read_bytes()) | {"token": token}
        tower.client_file.write_text(json.dumps(client))
        code, text, errors = tower.answered("--json")
        assert code == 3
        assert isinstance(parse_observation(text.encode()), Failure)
        assert re.fullmatch(r"idkmesh: could not tell: \S+ refuses the token; take .*\n", errors)
        assert token not in errors + text


def test_a_bad_client_file(tmp_path: Path) -> None:
    """RA-6.2: exit code 2 and one line, with `--json` a document besides; wrong usage too."""
    with node(tmp_path) as tower:
        tower.client_file.chmod(0o644)
        for flags in ((), ("--json",)):
            code, text, errors = tower.get(*flags)
            assert (code, bool(text)) == (2, bool(flags))
            assert errors.endswith("its mode is 0644, so that others can read or write it; make it 0600\n")
        assert tower.get("--nothing")[0] == 2


def test_a_node_that_is_stopped(tmp_path: Path) -> None:
    """RA-6.1, RA-6.2: SIGSTOP is a look that times out, SIGCONT brings it back as it was, and its end is a no."""
    with node(tmp_path) as tower:
        before = tower.until(is_ready).node
        tower.process.send_signal(signal.SIGSTOP)
        code, text, errors = tower.get("--json")
        assert code == 1
        assert isinstance(parse_observation(text.encode()), Failure)
        assert re.fullmatch(r"idkmesh: no answer from \S+ within 1 s\n", errors)
        tower.process.send_signal(signal.SIGCONT)
        assert tower.until(is_ready).node == before
        kept = tower.client_file.read_bytes()
        tower.stop()
        tower.client_file.write_bytes(kept)
        tower.client_file.chmod(0o600)
        code, text, errors = tower.get()
        assert (code, text) == (1, "")
        assert re.fullmatch(r"idkmesh: nobody listens on \S+\n", errors)


def connected(tower: Node, head: str) -> socket.socket:
    """Send a part of a request."""
    host, _, port = json.loads(tower.client_file.read_bytes())["address"].rpartition(":")
    client = socket.create_connection((host, int(port)), timeout=PATIENCE)
    client.sendall(head.encode())
    return client


def test_a_node_that_drains(tmp_path: Path) -> None:
    """RA-5.1: it is answered in a real drain, which it reports."""
    with node(tmp_path, "--drain-timeout=20") as tower:
        tower.until(is_ready)
        client = json.loads(tower.client_file.read_bytes())
        head = (
            f"POST /api/v1/inspect/http-request HTTP/1.1\r\nHost: {client['address']}\r\nContent-Length: 5\r\n"
            f"Authorization: Bearer {client['token']}\r\nContent-Type: message/http\r\nExpect: 100-continue\r\n\r\n"
        )
        with connected(tower, head) as waiting:
            assert waiting.recv(1000).startswith(b"HTTP/1.1 100 "), "it waits for the body"
            tower.process.send_signal(signal.SIGTERM)
            seen = tower.until(lambda seen: seen.draining)
            assert (seen.health, [each.live for each in seen.listeners]) == ("ok", [True])
        tower.process.communicate(timeout=PATIENCE)
    assert tower.process.returncode == 0


def test_filled_ingress(tmp_path: Path) -> None:
    """RA-5.5, RA-3.1, RA-3.2: incomplete requests up to the node's capacity: ready fails, live holds, then both do."""
    flags = ("--max-concurrent-requests=2", "--max-sse-clients=1", "--max-connections=11", "--request-timeout=60")
    with node(tmp_path, *flags) as tower, contextlib.ExitStack() as stack:
        tower.until(is_ready)
        clients = [stack.enter_context(connected(tower, "GET / HTTP/1.1\r\nHost")) for _ in range(11)]
        seen = tower.until(lambda seen: seen.capacity.connections.free == 0)
        assert seen.capacity.connections.limit == 11
        code, text, _ = tower.answered()
        assert code == 0
        assert "live yes\n" in text
        assert re.search(r"^ready no: .*connections", text, re.MULTILINE)
        for client in clients:
            client.close()
        tower.until(lambda seen: is_ready(seen) and seen.capacity.connections.free > 0)


# --- the durable clock ---------------------------------------------------------------------------------------------


def test_a_clock_that_is_behind(tmp_path: Path) -> None:
    """RA-5.7: events of a time to come were recorded: live and not ready, until the clock has caught up."""
    with node(tmp_path) as tower:
        tower.stop()
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=8)
    with opened(tmp_path / "events.sqlite3") as store:
        store.append([event(time=ahead), event(time=ahead - dt.timedelta(days=1))])
    with node(tmp_path) as tower:
        behind = tower.seen().clock.behind_ms
        if dt.datetime.now(dt.UTC) < ahead:
            assert behind is not None
            assert 0 < behind <= 8000
            code, text, _ = tower.answered()
            assert code == 0
            assert "live yes\n" in text
            assert dt.datetime.now(dt.UTC) >= ahead or "clock_behind" in text
        tower.until(lambda seen: is_ready(seen) and seen.clock.behind_ms == 0)
        assert dt.datetime.now(dt.UTC) >= ahead
        errors = tower.stop()
    assert re.search(r"the wall clock is \d+ ms behind the latest recorded event", errors)


def spoil(store: Path) -> None:
    """Overwrite a store and its log, as a failing disk may."""
    for path in (store, store.with_name(store.name + "-wal")):
        if path.exists():
            with path.open("r+b") as file:
                file.write(os.urandom(max(8192, path.stat().st_size)))


def unreadable(seen: Observation) -> bool:
    return seen.health == "failing" and not seen.clock.readable and seen.clock.behind_ms is None


def test_a_store_that_is_damaged_while_it_is_used(tmp_path: Path) -> None:
    """RA-5.7: unhealthy within seconds, and after another start too; a new node once somebody says so."""
    with node(tmp_path) as tower:
        first = tower.until(is_ready).node
        spoil(tower.store)
        tower.until(unreadable)
        code, text, _ = tower.answered()
        assert code == 0
        assert re.fullmatch(r"live no: health \([^()]+\), clock \([^()]+\)", text.splitlines()[2])
        errors = tower.stop()
        assert "the latest time that this node has recorded cannot be read: " in errors
    with node(tmp_path) as tower:
        seen = tower.seen()
        assert unreadable(seen)
        assert seen.node.id == first.id
        errors = tower.stop()
        assert f"remove {tower.record} and restart to begin as a new node" in errors
        tower.record.unlink()
    with node(tmp_path) as tower:
        assert tower.until(is_ready).node.id != first.id


@pytest.mark.parametrize("how", ["spoiled", "removed", "spoiled at the first start"])
def test_a_store_that_is_lost_between_two_starts(tmp_path: Path, how: str) -> None:
    """RA-5.7: put aside at the start, or made anew: the node is never silently new."""
    with node(tmp_path) as tower:
        tower.stop()
    if how == "removed":
        for path in tmp_path.glob("events.sqlite3*"):
            if path.is_file() and path != tower.record:
                path.unlink()
    else:
        spoil(tower.store)
        if how == "spoiled at the first start":  # of a version that knows of nodes
            tower.record.unlink()
    for _ in range(2):
        with node(tmp_path) as tower:
            assert unreadable(tower.seen())
            assert "until then /api/v1/node says that it is not healthy" in tower.stop()


def test_a_store_that_is_put_back(tmp_path: Path) -> None:
    """RA-5.7: with the store that it has recorded in, the node is healthy again."""
    with node(tmp_path) as tower:
        tower.stop()
    aside = tmp_path / "aside"
    tower.store.rename(aside)
    with node(tmp_path) as tower:
        assert unreadable(tower.seen())
        tower.stop()
    for path in tmp_path.glob("events.sqlite3*"):
        if path.is_file() and path != tower.record:
            path.unlink()
    aside.rename(tower.store)
    with node(tmp_path) as tower:
        tower.until(is_ready)


def test_a_damaged_id(tmp_path: Path) -> None:
    """RA-5.2: it does not start, in one line that says what to do."""
    with node(tmp_path) as tower:
        tower.stop()
    tower.record.write_text("nonsense")
    command: list[Any] = [sys.executable, "-m", "idkmesh", "control-tower", "--port=0", f"--store={tower.store}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.startswith(f"idkmesh: the node's file {tower.record} is damaged")
    assert done.stderr.count("\n") == 1
    assert tower.record.read_text() == "nonsense"
