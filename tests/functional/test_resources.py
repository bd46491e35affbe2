"""Descriptors, threads and memory: what a full machine does, and what is left after much traffic."""

from __future__ import annotations

import gc
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.functional.support import (
    GET,
    PATIENCE,
    abort,
    get,
    open_descriptors,
    parse,
    post,
    read_to_end,
    readable,
    resident_bytes,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.functional.support import Running

ROOT = Path(__file__).parents[2]

# The limit is lowered after the server has looked at it: so the descriptors run out before the connections do.
FULL_MACHINE = """
import os, resource, sys, threading, time
from http.server import BaseHTTPRequestHandler
from idkmesh.httpd import BoundedHTTPServer
from idkmesh.service_runtime import ServiceLimits

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *arguments):
        pass

limits = ServiceLimits(request_timeout=60, max_connections=200, listen_backlog=64)
server = BoundedHTTPServer(("127.0.0.1", 0), Handler, limits=limits)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read(1)
before = time.process_time()
time.sleep(0.5)
print(time.process_time() - before, flush=True)
sys.stdin.read(1)
server.shutdown()
server.server_close()
"""


class Elsewhere:
    """A server in a process of its own, with limits of its own, and the clients of a test."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.clients: list[socket.socket] = []
        self.port, *self.figures = map(int, self.line().split())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("1")
        self.process.stdin.flush()

    def connect(self, data: bytes = b"", *, receive_buffer: int = 0) -> socket.socket:
        client = socket.socket()
        self.clients.append(client)
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(PATIENCE)
        client.connect(("127.0.0.1", self.port))
        client.sendall(data)
        return client

    def end(self) -> str:
        """Let the process end; return its standard error."""
        _, error = self.process.communicate("1", timeout=PATIENCE)
        return error

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., Elsewhere]]:
    started: list[Elsewhere] = []

    def start(*arguments: str) -> Elsewhere:
        started.append(Elsewhere(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_out_of_descriptors(elsewhere: Callable[..., Elsewhere]) -> None:
    """HS-4.8: EMFILE is one log line and a pause: existing connections go on, no processor burns, and all recover."""
    there = elsewhere(FULL_MACHINE)
    first = there.connect(GET[:9])
    time.sleep(0.1)
    held = [there.connect() for _ in range(60)]
    waiting = there.connect(GET)
    time.sleep(0.3)
    there.go_on()
    burnt = float(there.line())
    assert not readable(waiting)
    first.sendall(GET[9:])
    assert parse(read_to_end(first)).body == b"done"
    for client in held:
        client.close()
    assert parse(read_to_end(waiting)).body == b"done"
    assert parse(read_to_end(there.connect(GET))).body == b"done"
    error = there.end()
    assert burnt < 0.1
    assert error.count("\n") == 1
    assert error.startswith("cannot accept a connection: Too many open files")


# Two descriptors a reader: the connection and the file. They run out long before max_connections is reached.
FILE_SERVER = """
import functools, resource, sys, threading
from http.server import SimpleHTTPRequestHandler
from idkmesh.httpd import BoundedHTTPServer

class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (120, hard))
server = BoundedHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=sys.argv[1]))
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, server.limits.max_connections, flush=True)
sys.stdin.read(1)
server.shutdown()
server.server_close()
"""


def test_no_lock_out_by_readers_of_files(elsewhere: Callable[..., Elsewhere], tmp_path: Path) -> None:
    """HS-4.8, HS-8.3: slow readers that use up the descriptors, two each, give way to who comes."""
    (tmp_path / "large").write_bytes(bytes(10_000_000))
    (tmp_path / "small").write_bytes(b"small")
    there = elsewhere(FILE_SERVER, str(tmp_path))
    assert there.figures == [72]
    for _ in range(60):
        there.connect(get("/large"), receive_buffer=4096)
        time.sleep(0.005)
    assert parse(read_to_end(there.connect(get("/small")))).body == b"small"
    for client in there.clients:
        client.close()
    error = there.end()
    assert error.startswith("max_connections (72) is reached: connections give way to newcomers\n")
    assert "cannot accept" not in error


def good(here: Running) -> None:
    assert here.ask().status == 200


def good_post(here: Running) -> None:
    assert here.ask(post("/echo", 10_000) + b"b" * 10_000).status == 200


def bad(here: Running) -> None:
    assert here.ask(b"GET / HTTP/1.1\nHost: h\r\n\r\n").status == 400


def too_large(here: Running) -> None:
    assert here.ask(post("/echo", 10**9)).status == 413


def closed_early(here: Running) -> None:
    here.connect(GET).close()


def aborted_early(here: Running) -> None:
    abort(here.connect(GET))


def half_a_head(here: Running) -> None:
    here.connect(GET[:9]).close()


def aborted_body(here: Running) -> None:
    abort(here.connect(post("/echo", 1000) + b"part"))


def silent(here: Running) -> None:
    abort(here.connect())


def unread_response(here: Running) -> None:
    abort(here.connect(get("/large?300000")))


KINDS = (
    good,
    good_post,
    bad,
    too_large,
    closed_early,
    aborted_early,
    half_a_head,
    aborted_body,
    silent,
    unread_response,
)


def close_wait(port: int) -> int:
    """Return how many of the server's connections are in CLOSE_WAIT (state 08)."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "08" for line in lines)


def test_nothing_leaks(serve: Callable[..., Running]) -> None:
    """HS-4.7, OVER-11: after 10,000 good, bad and aborted connections everything is back where it was."""
    threads = threading.active_count()
    here = serve(listen_backlog=256, max_concurrent_requests=8)

    def round_(count: int) -> None:
        for number in range(count):
            KINDS[number % len(KINDS)](here)
            here.clients.clear()
        until(lambda: here.core.connections == 0)
        gc.collect()

    round_(2000)
    descriptors, memory = open_descriptors(), resident_bytes()
    round_(10_000)
    until(lambda: open_descriptors() <= descriptors)
    assert threading.active_count() <= threads + 8 + 2  # the workers, the front, the writer of the log
    assert resident_bytes() - memory < 4 * 1024 * 1024
    assert close_wait(here.server.server_port) == 0
    assert here.core.budget.used == 0
    assert here.server.usage().in_flight == 0
    assert not any(here.front.keeper.held.values())
    assert not here.front.keeper.deadlines._slots
    assert here.log.lines == []


MODES = {
    "slow headers": ["-H", "-i", "1"],
    "slow body": ["-B", "-i", "1", "-s", "8192", "-u", "/echo"],
    "slow read": ["-X", "-w", "10", "-y", "20", "-n", "1", "-z", "5", "-k", "1"],
}


@pytest.mark.skipif(shutil.which("slowhttptest") is None, reason="slowhttptest is not installed")
@pytest.mark.parametrize("mode", MODES)
def test_slowhttptest(serve: Callable[..., Running], mode: str) -> None:
    """HS-1.2, HS-8.3, OVER-01, OVER-02, OVER-04: under each attack of slowhttptest a healthy client is answered."""
    program = shutil.which("slowhttptest")
    assert program is not None
    here = serve(max_connections=300, max_concurrent_requests=4, listen_backlog=256, request_timeout=2.0)
    path = "/whole?2000000" if mode == "slow read" else "/echo"
    url = f"http://127.0.0.1:{here.server.server_port}{path}"
    command = [program, *MODES[mode], "-c", "400", "-r", "400", "-l", "4", "-p", "2", "-u", url]
    attack = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    threads = answered = 0
    slowest = 0.0
    before = threading.active_count()
    try:
        until(lambda: here.core.accepted > 200)
        while attack.poll() is None:
            began = time.monotonic()
            status = here.ask().status
            assert status == 200 or mode == "slow read"  # its crowd asks for work too, and fills the cap
            answered += 1
            slowest = max(slowest, time.monotonic() - began)
            threads = max(threads, threading.active_count())
            time.sleep(0.02)
    finally:
        attack.kill()
        attack.wait()
    assert answered > 10
    assert slowest < 1.9, "one of its crowd has 2 s"
    assert threads <= before + 4 + 1  # the workers, the writer of the log
