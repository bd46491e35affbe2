"""A real node, the real command, and a real adapter: what its supervisor is told when something is really amiss."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.adapter.observation import MAX_DOCUMENT_BYTES
from idkmesh.control_tower.listeners import TABLES
from scripts.bench.benchlib.processes import free_port
from tests.adapter.observations import EXAMPLE_FILE
from tests.adapter.support import PATIENCE, TOKEN, Adapter, adapter, client_file, command
from tests.functional.support import until
from tests.functional.test_node import Node, connected, is_ready, node, spoil

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not TABLES[socket.AF_INET].exists(), reason="the kernel has no such table")

YES = (200, 200, 200)
NO = (503, 503, 503)


@contextlib.contextmanager
def beside(tower: Node, log: Path) -> Iterator[Adapter]:
    """Run an adapter that has seen the node ready."""
    with adapter(tower.client_file, log, node_id=tower.until(is_ready).node.id) as here:
        here.wait_for(*YES)
        yield here


def test_a_node_that_is_well(tmp_path: Path) -> None:
    """RA-7.1, RA-9.3: without ARGV a control tower is asked, and a check says the same."""
    with node(tmp_path) as tower, beside(tower, tmp_path / "log") as here:
        assert here.threads() == 2
        looked = command(tower.client_file, "--check", node_id=tower.seen().node.id)
        ended = subprocess.run(looked, capture_output=True, text=True, check=False)
        # On a busy machine a look may be late, by contract.
        assert ended.stdout == "the node is live and ready\n" or ended.returncode == 1


def test_filled_ingress(tmp_path: Path) -> None:
    """RA-3.1, RA-3.2, RA-3.5: incomplete requests up to the node's capacity: ready fails, live and startup hold."""
    flags = ("--max-concurrent-requests=2", "--max-sse-clients=1", "--max-connections=11", "--request-timeout=60")
    with node(tmp_path, *flags) as tower, beside(tower, tmp_path / "log") as here, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(tower, "GET / HTTP/1.1\r\nHost")) for _ in range(11)]
        here.wait_for(200, 200, 503)
        until(lambda: "connections" in here.log()[-1], "the line", PATIENCE)
        for client in clients:
            client.close()
        here.wait_for(*YES)


def test_a_node_that_is_stopped(tmp_path: Path) -> None:
    """RA-1.1, RA-3.4: SIGSTOP of the node is a no, SIGCONT a yes again, in the same lifetime."""
    with node(tmp_path) as tower, beside(tower, tmp_path / "log") as here:
        tower.process.send_signal(signal.SIGSTOP)
        here.wait_for(*NO)
        tower.process.send_signal(signal.SIGCONT)
        here.wait_for(*YES)


def test_another_start_of_the_node(tmp_path: Path) -> None:
    """RA-3.5, RA-7.1: its end is a no; its next start, with another token in the file, is a new lifetime."""
    with node(tmp_path) as tower:
        node_id = tower.until(is_ready).node.id
        with beside(tower, tmp_path / "log") as here:
            tower.stop()
            here.wait_for(*NO)
            with node(tmp_path) as again:
                assert again.seen().node.id == node_id
                here.wait_for(*YES)


def test_a_damaged_clock(tmp_path: Path) -> None:
    """RA-3.1: a durable clock that cannot be read any more is a node that is not live."""
    with node(tmp_path) as tower, beside(tower, tmp_path / "log") as here:
        spoil(tower.store)
        here.wait_for(*NO)
        until(lambda: here.log()[-1] == "the node is not live: health, clock", "the line", PATIENCE)


def test_another_node(tmp_path: Path) -> None:
    """RA-3.1: a client file that leads to another node than the one that is meant."""
    with node(tmp_path) as tower, adapter(tower.client_file, tmp_path / "log", node_id="another") as here:
        line = f"the node is not live: identity (it is {tower.seen().node.id}, and another is meant)"
        until(lambda: line in here.log(), "the line", PATIENCE)
        assert here.told() == NO


def test_the_node_goes_on_without_it(tmp_path: Path) -> None:
    """RA-9.4: it does as before when the adapter is killed, and when it was never there."""
    with node(tmp_path) as tower:
        before = tower.until(is_ready)
        with beside(tower, tmp_path / "log") as here:
            here.process.kill()
            here.process.wait(PATIENCE)
        after = tower.until(is_ready)
        assert after.node == before.node
        tower.until(lambda seen: seen.capacity.connections.used <= before.capacity.connections.used)
        tower.stop()


def serve_observations(listener: socket.socket, heads: list[bytes]) -> None:
    """Stand for a node that writes down what it is asked."""
    body = EXAMPLE_FILE.read_bytes()
    assert len(body) < MAX_DOCUMENT_BYTES
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            heads.append(client.recv(65_536))
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def test_what_a_node_is_asked(tmp_path: Path) -> None:
    """RA-1.2: one question a second, and it reads; whatever the adapter is asked, it asks the node nothing for it."""
    heads: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_observations, args=(listener, heads))
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        began = time.monotonic()
        with adapter(client_file(tmp_path, address), tmp_path / "log") as here:
            here.wait_for(*YES)
            for _ in range(50):
                here.ask("/ready")
                here.ask("/anything")
            until(lambda: len(heads) >= 3, "three looks", PATIENCE)
        assert len(heads) <= 1 + time.monotonic() - began
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
    expected = f"GET /api/v1/node HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n"
    assert {head.split(b"Connection")[0] for head in heads} == {expected.encode()}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_curl(tmp_path: Path) -> None:
    """RA-8.1, RA-8.3: a client as it comes is answered; with a pod's address for a Host it is refused."""
    with node(tmp_path) as tower, beside(tower, tmp_path / "log") as here:
        curl = ["curl", "--silent", "--output", str(tmp_path / "body"), "--write-out", "%{http_code}"]
        url = f"http://127.0.0.1:{here.port}/live"
        for more, code in (((), "200"), (("--head",), "200"), (("--header", "Host: 10.244.1.7:18181"), "403")):
            done = subprocess.run([*curl, *more, url], capture_output=True, text=True, check=True)
            assert done.stdout == code


HAPROXY = """\
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend front
  bind 127.0.0.1:{front}
  default_backend nodes
backend nodes
  option httpchk
  http-check send meth GET uri /ready ver HTTP/1.1{host}
  http-check expect status 200
  server node {node} check addr 127.0.0.1 port {adapter} inter 300ms fall 1 rise 1
"""


@contextlib.contextmanager
def haproxy(folder: Path, tower: Node, here: Adapter, host: str) -> Iterator[int]:
    """Run HAProxy before a node, with checks that ask its adapter. Give the port of its front."""
    front = free_port()
    address = json.loads(tower.client_file.read_bytes())["address"]
    file = folder / f"haproxy-{front}.cfg"
    file.write_text(HAPROXY.format(front=front, node=address, adapter=here.port, host=host))
    with subprocess.Popen(
        ["haproxy", "-db", "-f", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield front
        finally:
            process.terminate()
            process.wait(PATIENCE)


def status(port: int) -> int:
    """Ask for the node's readiness through the proxy: 0 where nobody answers yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not here")
def test_haproxy(tmp_path: Path) -> None:
    """RA-8.1, RA-8.3: with the listen address for a Host its checks take a node out and in; without it, only out."""
    with node(tmp_path) as tower, beside(tower, tmp_path / "log") as here:
        with haproxy(tmp_path, tower, here, f" hdr Host 127.0.0.1:{here.port}") as front:
            until(lambda: status(front) == 200, "in", PATIENCE)
            tower.process.send_signal(signal.SIGSTOP)
            until(lambda: status(front) == 503, "out", PATIENCE)
            tower.process.send_signal(signal.SIGCONT)
            until(lambda: status(front) == 200, "in again", PATIENCE)
        with haproxy(tmp_path, tower, here, "") as front:
            until(lambda: status(front) == 503, "never in", PATIENCE)


def can_make_namespaces() -> bool:
    """Say whether this user can make a network namespace."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    name = f"idkmesh-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=True)
    return made


@contextlib.contextmanager
def namespace(name: str) -> Iterator[list[str]]:
    """Make a network namespace with nothing but loopback, and give what runs a program in it."""
    subprocess.run(["ip", "netns", "add", name], check=True)
    inside = ["ip", "netns", "exec", name]
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def healthcheck(inside: list[str], here: Adapter, path: str) -> int:
    """Ask from within a namespace, with the command that is a probe there; return its exit code."""
    url = f"http://127.0.0.1:{here.port}{path}"
    asked = [*inside, sys.executable, "-m", "idkmesh", "healthcheck", "--timeout", "10", url]
    return subprocess.run(asked, capture_output=True, check=False).returncode


@pytest.mark.skipif(not can_make_namespaces(), reason="needs the right to make network namespaces")
def test_a_replaced_namespace(tmp_path: Path) -> None:
    """RA-1.3, RA-10.2, HL-6.2: an adapter in the node's old namespace says no for good; one made anew says yes."""
    names = [f"idkmesh-{os.getpid()}-{number}" for number in (1, 2)]
    with contextlib.ExitStack() as stack:
        old, new = (stack.enter_context(namespace(name)) for name in names)
        with node(tmp_path, prefix=old) as tower:
            record = tower.store.with_name(tower.store.name + "-node")
            node_id = json.loads(record.read_bytes())["node_id"]
            left = stack.enter_context(adapter(tower.client_file, tmp_path / "log", node_id=node_id, prefix=old))
            until(lambda: healthcheck(old, left, "/ready") == 0, "ready in the first", PATIENCE)
            tower.stop()
            until(lambda: healthcheck(old, left, "/ready") == 1, "no without a node", PATIENCE)
        again = stack.enter_context(node(tmp_path, prefix=new))
        made = stack.enter_context(adapter(again.client_file, tmp_path / "new log", node_id=node_id, prefix=new))
        until(lambda: healthcheck(new, made, "/startup") == 0, "started in the second", PATIENCE)
        assert healthcheck(new, made, "/live") == 0
        for path in ("/startup", "/live", "/ready"):
            assert healthcheck(old, left, path) == 1
        until(lambda: "nobody listens" in left.log()[-1], "the line", PATIENCE)
