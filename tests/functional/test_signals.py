"""Signals, in processes of their own."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.functional.support import GET, PATIENCE, get, parse, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys, time
from http.server import BaseHTTPRequestHandler
from idkmesh.httpd.signals import ShutdownSignals, serve_until_signal

with ShutdownSignals() as signals:
    print("caught", flush=True)
    from idkmesh.httpd import BoundedHTTPServer
    from idkmesh.service_runtime import ServiceLimits

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(float(self.path[1:] or 0))
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"done")

        def log_message(self, *arguments):
            pass

    time.sleep(float(sys.argv[1]))
    server = BoundedHTTPServer(("127.0.0.1", 0), Handler, limits=ServiceLimits(drain_timeout=float(sys.argv[2])))
    print(server.server_port, flush=True)
    code = serve_until_signal(server, signals)
    print("served", flush=True)
sys.exit(code)
"""


class Process:
    """The program above, or one that runs it."""

    def __init__(self, *prefix: str, delay: float = 0.0, drain_timeout: float = 5.0, program: str = PROGRAM) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-X", "dev", "-c", program, str(delay), str(drain_timeout)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "caught\n"

    def port(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def connect(self, port: int, data: bytes = GET) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        client.sendall(data)
        return client

    def end(self, timeout: float = PATIENCE) -> tuple[int, str, float]:
        """Wait for the end; return exit code, standard error, and seconds."""
        began = time.monotonic()
        _, error = self.process.communicate(timeout=timeout)
        return self.process.returncode, error, time.monotonic() - began

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_and_exits_0(processes: list[Process], number: signal.Signals) -> None:
    """HS-9.1 to HS-9.4, DRAIN-01, DRAIN-04: what is in flight ends whole, what is new is 503, the exit code is 0."""
    process = Process()
    processes.append(process)
    port = process.port()
    with process.connect(port, get("/0.6")) as client:
        time.sleep(0.2)
        process.process.send_signal(number)
        time.sleep(0.15)
        with process.connect(port) as late:
            assert parse(read_to_end(late)).code == "shutting_down"
        assert parse(read_to_end(client)).body == b"done"
        code, error, took = process.end()
    assert (code, error) == (0, "")
    assert took < 1.5


def test_idle_process_ends_within_a_second(processes: list[Process]) -> None:
    """HS-9.2, DRAIN-05: with nothing in flight the process ends within a second of the signal."""
    process = Process(drain_timeout=30)
    processes.append(process)
    with process.connect(process.port(), GET[:9]):
        time.sleep(0.1)
        process.process.terminate()
        code, error, took = process.end()
    assert (code, error) == (0, "")
    assert took < 1.0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_second_signal_ends_at_once(processes: list[Process], number: signal.Signals, code: int) -> None:
    """HS-9.6, DRAIN-02: a second signal ends a drain at once, with the code of a process that the signal ended."""
    process = Process(drain_timeout=60)
    processes.append(process)
    with process.connect(process.port(), get("/30")):
        time.sleep(0.2)
        process.process.send_signal(number)
        time.sleep(0.2)
        assert process.process.poll() is None
        process.process.send_signal(number)
        ended, error, took = process.end()
    assert (ended, error) == (code, "")
    assert took < 1.0


def test_stuck_handler_does_not_keep_the_process(processes: list[Process]) -> None:
    """HS-9.2, HS-9.8, DRAIN-10: the process ends at drain_timeout, and its log names the request that was abandoned."""
    process = Process(drain_timeout=0.5)
    processes.append(process)
    with process.connect(process.port(), get("/600")):
        time.sleep(0.2)
        process.process.terminate()
        code, error, took = process.end()
    assert code == 0
    assert took < 2.5
    assert error.count("\n") == 1
    assert "GET '/600'" in error
    assert "abandoned" in error


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1])
def test_early_signal_is_not_lost(processes: list[Process], delay: float) -> None:
    """HS-9.6, DRAIN-08: a signal before the server listens, or as it begins to, ends the process within a second."""
    process = Process(delay=0.05)
    processes.append(process)
    time.sleep(delay)
    process.process.terminate()
    code, error, took = process.end()
    assert (code, error) == (0, "")
    assert took < 1.5


# A signal that comes while the interpreter ends meets its own handlers, not the server's.
UP_TO_THE_END = PROGRAM.replace('    print("served", flush=True)', "    import os\n    os._exit(code)")


def test_many_signals(processes: list[Process]) -> None:
    """HS-9.6, DRAIN-02: signals at random times never hang the process and print no traceback."""
    chooser = random.Random(20_260_101)
    for _ in range(5):
        process = Process(drain_timeout=2, program=UP_TO_THE_END)
        processes.append(process)
        client = process.connect(process.port(), get("/1"))
        for _ in range(20):
            time.sleep(chooser.random() * 0.02)
            if process.process.poll() is None:
                process.process.send_signal(chooser.choice([signal.SIGTERM, signal.SIGINT]))
        code, error, _ = process.end()
        client.close()
        assert code in {0, 130, 143}
        assert error == ""


# Signals that change nothing but interrupt every system call of the main thread, under load.
STORM = """
import os, random, signal, sys, threading, time
from http.server import BaseHTTPRequestHandler
from idkmesh.httpd import BoundedHTTPServer

print("caught", flush=True)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *arguments):
        pass

server = BoundedHTTPServer(("127.0.0.1", 0), Handler)
hits = []

def on_signal(number, frame):
    hits.append(number)
    if number == signal.SIGTERM:
        server.shutdown()

signal.signal(signal.SIGUSR1, on_signal)
signal.signal(signal.SIGTERM, on_signal)
print(server.server_port, flush=True)
server.serve_forever()
server.server_close()
sys.exit(0 if hits.count(signal.SIGUSR1) > 10 else 9)
"""


def test_signals_under_load_and_shutdown_from_a_signal_handler(processes: list[Process]) -> None:
    """HS-9.4, HS-9.6, DRAIN-01: 100 signals in 2 s disturb no request, and shutdown() in a signal handler returns."""
    process = Process(program=STORM)
    processes.append(process)
    port = process.port()
    chooser = random.Random(7)
    ends = time.monotonic() + 2.0
    signals_left = 100
    while time.monotonic() < ends:
        if signals_left and chooser.random() < 0.2:
            signals_left -= 1
            process.process.send_signal(signal.SIGUSR1)
        with process.connect(port) as client:
            assert parse(read_to_end(client)).body == b"done"
    process.process.terminate()
    code, error, took = process.end()
    assert (code, error) == (0, "")
    assert took < 2.0


# The program that everybody writes: Ctrl-C ends serve_forever() wherever it is.
INTERRUPTED = """
import signal
from http.server import BaseHTTPRequestHandler
from idkmesh.httpd import BoundedHTTPServer

signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background has it ignored
print("caught", flush=True)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *arguments):
        pass

with BoundedHTTPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_port, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
"""


@pytest.mark.parametrize("requests", [0, 13, 14, 15])
def test_keyboard_interrupt(processes: list[Process], requests: int) -> None:
    """HS-9.5, DRAIN-01: Ctrl-C as the standard library has it: the loop raises, the block closes, exit code 0."""
    process = Process(program=INTERRUPTED)
    processes.append(process)
    port = process.port()
    time.sleep(0.1)
    clients = [process.connect(port) for _ in range(requests)]
    process.process.send_signal(signal.SIGINT)
    code, error, took = process.end()
    for client in clients:
        client.close()
    assert (code, error) == (0, "")
    assert took < 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="process namespaces are Linux's")
def test_process_1(processes: list[Process]) -> None:
    """HS-9.6, DRAIN-08: as process 1, for which signals have no default, SIGTERM still drains and ends with 0."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() != 0 or unshare is None or subprocess.run([*command, "true"], check=False).returncode:
        command = []  # not allowed here: as an ordinary process then, so that something is proved
    process = Process(*command)
    processes.append(process)
    process.port()
    children = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children")
    inner = int(children.read_text().split()[0]) if command else process.process.pid
    os.kill(inner, signal.SIGTERM)
    code, error, took = process.end()
    assert (code, error) == (0, "")
    assert took < 2.0


def test_handlers_are_put_back() -> None:
    """HS-9.6: leaving the block puts the former signal handlers back."""
    from idkmesh.httpd.signals import ShutdownSignals  # noqa: PLC0415 - the only test that does not start a process

    before = signal.getsignal(signal.SIGTERM)
    with ShutdownSignals() as signals:
        assert signal.getsignal(signal.SIGTERM) == signals._on_signal
        assert not signals.requested
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: signals.requested)
    assert signal.getsignal(signal.SIGTERM) == before
