"""The parts that touch the world, each alone: proxies, questions, processes, and the command's refusals."""

from __future__ import annotations

import os
import queue
import resource
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.cli import main
from idkmesh.rehearsal import lookout
from idkmesh.rehearsal.faults import How
from idkmesh.rehearsal.prober import MAX_BODY_BYTES, ask
from idkmesh.rehearsal.process import Process
from idkmesh.rehearsal.proxy import Proxies
from idkmesh.rehearsal.reroute import Upstream
from tests.health.matrices import matrix_text
from tests.rehearsal.stores import free_port, takes_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT = 60.0


def until(condition: Callable[[], object], said: str) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, said
        time.sleep(0.01)


# --- proxies -----------------------------------------------------------------------------------------------------


class Echo(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), EchoHandler)
        self.port: int = self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def end(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class EchoHandler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            while data := self.request.recv(65_536):
                self.request.sendall(data)
        except OSError:
            return


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.end()


@pytest.fixture
def proxies(echo: Echo) -> Iterator[Proxies]:
    with Proxies([Upstream("db", "127.0.0.1", echo.port)]) as running:
        yield running


def connected(proxies: Proxies) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxies.ports["db"]), WAIT)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    got = b""
    while len(got) < len(data):
        piece = connection.recv(65_536)
        if not piece:
            break
        got += piece
    return got


def test_a_proxy_knows_that_nobody_came(proxies: Proxies) -> None:
    """HL-8.7: connections of the service are counted, those that fill the queue of a fault are not."""
    assert proxies.silent == {"db"}
    proxies.set("db", How.BLACKHOLE)
    proxies.set("db", None)
    time.sleep(2)
    assert proxies.silent == {"db"}
    until(lambda: passes(proxies), "the proxy does not come back")
    assert proxies.silent == frozenset()


def passes(proxies: Proxies) -> bool:
    try:
        with connected(proxies) as connection:
            return echoed(connection, b"x") == b"x"
    except OSError:
        return False


def test_a_proxy_passes_everything(proxies: Proxies) -> None:
    """HL-8.1: bytes both ways, more than any buffer holds, and the end of each direction."""
    data = os.urandom(3_000_000)
    with connected(proxies) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        got = bytearray()
        while len(got) < len(data):
            got += connection.recv(65_536)
        sender.join()
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
        assert bytes(got) == data


def test_refuse_and_back(proxies: Proxies) -> None:
    """HL-8.3: what was open is reset, connects are refused, and the port is the same afterwards."""
    with connected(proxies) as connection:
        assert echoed(connection, b"x") == b"x"
        proxies.set("db", How.REFUSE)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    until(lambda: not takes_connections(proxies.ports["db"]), "it is not refused")
    proxies.set("db", None)
    until(lambda: takes_connections(proxies.ports["db"]), "it has not come back")
    with connected(proxies) as connection:
        assert echoed(connection, b"y") == b"y"


def test_cut(proxies: Proxies) -> None:
    """HL-8.3: connects succeed, and are reset."""
    proxies.set("db", How.CUT)
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        try:
            with connected(proxies) as connection:
                assert echoed(connection, b"x") == b"x"
        except (ConnectionResetError, BrokenPipeError):
            return
    pytest.fail("it is not cut")


def test_blackhole_and_back(proxies: Proxies) -> None:
    """HL-8.3: what was open is silent, connects have no answer; nothing that was held back comes later."""
    with connected(proxies) as connection:
        assert echoed(connection, b"x") == b"x"
        proxies.set("db", How.BLACKHOLE)
        until(lambda: not takes_connections(proxies.ports["db"]), "connects have an answer")
        connection.settimeout(0.2)
        connection.sendall(b"late")
        with pytest.raises(TimeoutError):
            connection.recv(1)
        proxies.set("db", None)
        connection.settimeout(WAIT)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    until(lambda: takes_connections(proxies.ports["db"]), "it has not come back")


def test_slow(proxies: Proxies) -> None:
    """HL-8.3: what comes back is late by the delay, once, and whole."""
    proxies.set("db", How.SLOW, 0.3)
    time.sleep(0.05)
    with connected(proxies) as connection:
        began = time.monotonic()
        assert echoed(connection, b"abc" * 1000) == b"abc" * 1000
        assert 0.3 <= time.monotonic() - began < 0.3 + 5


def test_the_address_that_takes_connections_is_used(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-8.1: where a name has several addresses, one that refuses hides no other."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, echo.port)) for host in ("127.0.0.2", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with Proxies([Upstream("db", "localhost", echo.port)]) as running:
        monkeypatch.undo()

        def passes() -> bool:
            try:
                with connected(running) as connection:
                    return echoed(connection, b"x") == b"x"
            except OSError:
                return False

        until(passes, "the second address is not used")
        time.sleep(2 * lookout.WATCH_SECONDS)  # it is looked at again, and stays
        assert passes()


def test_a_full_machine_ends_no_proxy(proxies: Proxies) -> None:
    """Rule: without descriptors nothing is accepted or said of the dependency; afterwards all is as it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        time.sleep(3 * lookout.WATCH_SECONDS)  # it is looked at meanwhile
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with connected(proxies) as connection:
        assert echoed(connection, b"x") == b"x"


def test_a_proxy_is_what_its_dependency_is(proxies: Proxies, echo: Echo) -> None:
    """HL-8.1: while the dependency takes no connection, neither does the proxy; it comes back with it."""
    echo.shutdown()
    echo.server_close()
    until(lambda: not takes_connections(proxies.ports["db"]), "it still listens")
    again = Echo(echo.port)
    try:
        until(lambda: takes_connections(proxies.ports["db"]), "it has not come back")
    finally:
        again.end()


def test_proxies_leave_nothing() -> None:
    """HL-8.4: no thread and no port is left, whatever is open; a name that is none is told with its dependency."""
    port = free_port()
    with Proxies([Upstream("db", "127.0.0.1", port)]) as running:
        ports = dict(running.ports)
        running.set("db", How.BLACKHOLE)
    assert not takes_connections(ports["db"])
    assert [thread.name for thread in threading.enumerate() if thread.name == "rehearsal-proxies"] == []
    with pytest.raises(OSError, match=r"db: .*invalid"):
        Proxies([Upstream("db", "name.invalid", 1)])


# --- questions ---------------------------------------------------------------------------------------------------


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = int(self.path.split("/")[1]) if self.path[1:4].isdigit() else 200
        body = {"/warned": b'{"warnings": ["cache", 1]}', "/big": b"x" * (3 * MAX_BODY_BYTES)}.get(self.path, b"[]")
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.path[4:])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/trickle":
            time.sleep(1)
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that leave early are meant
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "ok", "detail"),
    [
        ("/", True, "status 200"),
        ("/399", True, "status 399"),
        ("/400", False, "status 400"),
        ("/503", False, "status 503"),
        ("/302/503", False, "status 503"),
        ("/302//elsewhere.example/", True, "status 302, to another host"),
        ("/302/302", True, "status 302"),
        ("/big", True, "status 200"),
        ("/trickle", False, "timeout"),
    ],
)
def test_questions(pages: str, path: str, ok: bool, detail: str) -> None:
    """HL-8.2: 200 to 399 is a success; redirects are followed on the same host alone; one deadline for all of it."""
    said = ask(pages + path, 0.5 if path == "/trickle" else WAIT)
    assert (said.ok, said.detail) == (ok, detail)


def test_warnings_are_read(pages: str) -> None:
    """HL-5.1, HL-8.5: the names that a body of readiness warns of; what is no name is none."""
    assert ask(pages + "/warned", WAIT).warnings == ("cache",)


def test_nobody_there() -> None:
    """HL-8.2: a closed port is a failure, and so are bytes that are no HTTP."""
    assert ask(f"http://127.0.0.1:{free_port()}", WAIT).detail == "refused"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(b"no\r\n\r\n")

        thread = threading.Thread(target=babble)
        thread.start()
        assert ask(f"http://127.0.0.1:{server.getsockname()[1]}", WAIT).detail == "no HTTP"
        thread.join()


# --- processes ---------------------------------------------------------------------------------------------------


def test_a_process_leaves_nothing_of_its_group() -> None:
    """HL-8.4: its lines are passed on, its end is told once, and what it has left in its group is killed."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    child_of = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid"
    program = f"import subprocess, sys; print({child_of}, flush=True); sys.exit(4)"
    process = Process([sys.executable, "-c", program], os.environ, line=lines.put, ended=ended.put)
    assert ended.get(timeout=WAIT) == "exit 4"
    process.join()
    child = int(lines.get(timeout=WAIT))

    def over() -> bool:
        try:
            return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    until(over, "a process of the group is left")
    process.signal(signal.SIGKILL)
    assert ended.empty()


def test_a_stopped_process_can_be_killed() -> None:
    """HL-8.3, HL-8.4: SIGSTOP holds it, and KILL ends it all the same."""
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    process = Process(["sleep", "60"], os.environ, line=lambda _: None, ended=ended.put)
    process.signal(signal.SIGSTOP)
    process.signal(signal.SIGKILL)
    assert ended.get(timeout=WAIT) == "ended by SIGKILL"
    process.join()


# --- the command -------------------------------------------------------------------------------------------------

TARGET = ["--target", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([*TARGET, "--fail", "nobody@1s..2s"], "no such dependency"),
        ([*TARGET, "--wedge", "2s..1s"], "ends before"),
        ([*TARGET, "--for", "soon"], "is no time"),
        ([*TARGET, "--scenario", "none"], "no such scenario"),
        ([*TARGET, "--scenario", "noncritical-failure"], "needs a noncritical dependency"),
        ([*TARGET, "--scenario", "flap", "--for", "3s"], "leave the other flags out"),
        ([*TARGET, "--roll", "1s"], "two ports"),
        (["--target", "https://a"], "--target is no plain URL"),
        (["--target", "http://u:p@a"], "--target is no plain URL"),
        ([*TARGET, "--output", "/nowhere/at/all"], "cannot write"),
    ],
)
def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str) -> None:
    """HL-8.7: exit code 2 and one line, before anything is started."""
    file = tmp_path / "m.yaml"
    file.write_text(matrix_text(), encoding="utf-8")
    assert main(["rehearse", "--matrix", str(file), *flags, "--", "touch", str(tmp_path / "started")]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "started").exists()


def test_a_bad_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-8.7: all that is wrong with it, and exit code 2."""
    file = tmp_path / "m.yaml"
    file.write_text(matrix_text(critical="maybe", timeout_ms="0"), encoding="utf-8")
    assert main(["rehearse", "--matrix", str(file), *TARGET, "--", "true"]) == 2
    assert capsys.readouterr().err.count("m.yaml:") == 2


def test_could_not_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-8.7: a command that does not start, or ends again and again before it has answered, is exit code 3."""
    file = tmp_path / "m.yaml"
    file.write_text(matrix_text(), encoding="utf-8")
    given = ["rehearse", "--matrix", str(file), "--target", f"http://127.0.0.1:{free_port()}"]
    assert main([*given, "--", str(tmp_path / "none")]) == 3
    assert "cannot be started" in capsys.readouterr().err
    assert main([*given, "--backoff", "100ms", "--ascii", "--", "false"]) == 3
    assert "verdict: could not tell" in capsys.readouterr().out


IGNORES_TERM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: open(sys.argv[1] + ".term", "w").close())
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(60)
"""


def rehearsing(folder: Path, *flags: str, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a rehearsal of a command that writes its number into ``pid``, and a file when it is told to end."""
    file = folder / "m.yaml"
    file.write_text(matrix_text(), encoding="utf-8")
    argv = [*before, sys.executable, "-m", "idkmesh", "rehearse", "--matrix", str(file), *TARGET, *flags]
    argv += ["--", sys.executable, "-c", IGNORES_TERM, str(folder / "pid")]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """HL-8.4: a rehearsal under nohup outlives its terminal, and is ended by the next signal."""
    mark = tmp_path / "pid"
    process = rehearsing(tmp_path, "--grace", "200ms", before=("/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"))
    try:
        until(lambda: mark.exists() and mark.read_text(), "the command has not started")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait(WAIT)


def test_a_target_that_answers_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-8.1: exit code 2 and one line, and the command is not run: what is told would be told of a stranger."""

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/livez" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    file = tmp_path / "m.yaml"
    file.write_text(matrix_text(), encoding="utf-8")
    server = HTTPServer(("127.0.0.1", 0), Stranger)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        target = f"http://127.0.0.1:{server.server_address[1]}"
        given = ["rehearse", "--matrix", str(file), "--target", target, "--for", "1s"]
        assert main([*given, "--", "touch", str(tmp_path / "started")]) == 2
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    err = capsys.readouterr().err
    assert f"somebody answers {target}/livez already (status 200)" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("numbers", "grace"),
    [
        ([signal.SIGTERM], "200ms"),
        ([signal.SIGINT], "200ms"),
        ([signal.SIGHUP], "200ms"),
        ([signal.SIGQUIT], "200ms"),
        ([signal.SIGTERM, signal.SIGINT], "1m"),
    ],
    ids=["TERM", "INT", "HUP", "QUIT", "a second one, for those in a hurry"],
)
def test_an_interrupt_leaves_nothing(tmp_path: Path, numbers: list[signal.Signals], grace: str) -> None:
    """HL-8.4: a signal to a rehearsal ends its command too, one that ignores TERM included."""
    mark = tmp_path / "pid"
    # A suite under nohup has it ignored, and what it starts would too.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = rehearsing(tmp_path, "--grace", grace)
    signal.signal(signal.SIGHUP, before)
    try:
        until(lambda: mark.exists() and mark.read_text(), "the command has not started")
        process.send_signal(numbers[0])
        if len(numbers) > 1:
            # Two that are pending at once have no order: Python takes the lower number first.
            until((tmp_path / "pid.term").exists, "the command has not been told to end")
            process.send_signal(numbers[1])
        assert process.wait(WAIT) == 128 + numbers[0]
    finally:
        process.kill()
        process.wait(WAIT)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
