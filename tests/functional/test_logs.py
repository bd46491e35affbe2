"""What is logged, and that nobody waits for it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.functional.support import GET, PATIENCE, Site, ending, get, parse, post, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.functional.support import Running

ROOT = Path(__file__).parents[2]


@pytest.fixture
def logged(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Running]:
    monkeypatch.setenv("IDKMESH_HTTP_ACCESS_LOG", "1")
    return serve


def entries(here: Running, count: int) -> list[dict[str, Any]]:
    until(lambda: len(here.log.about("duration_ms")) >= count)
    lines = here.log.about("duration_ms")
    assert len(lines) == count
    return [json.loads(line) for line in lines]


def test_access_log_is_opt_in(serve: Callable[..., Running]) -> None:
    """HS-13.3: without the variable nothing is logged of a request."""
    here = serve()
    here.ask()
    here.ask(b"nonsense\r\n\r\n")
    here.server.shutdown()
    assert here.log.lines == []


def test_access_log_lines(logged: Callable[..., Running]) -> None:
    """HS-13.3: one line for each answer, refusals and lingering ones included; no query, no field, no body."""
    here = logged(max_body_bytes=100)
    assert here.ask(get("/large?200000", "X-Request-ID: one", "Cookie: secret")).status == 200
    assert here.ask(post("/echo?secret", 101)).status == 413
    assert here.ask(b"GET /bad\r\n\r\n").status == 400
    assert here.ask(post("/echo", 6) + b"secret").status == 200
    lines = entries(here, 4)
    by_path = {line["path"]: line for line in lines}
    assert by_path["/large"]["status"] == 200
    assert by_path["/large"]["request_id"] == "one"
    assert by_path["/large"]["bytes"] > 200_000
    assert by_path["/large"]["peer"] == "127.0.0.1"
    assert by_path[""]["status"] == 400
    assert {line["status"] for line in lines if line["path"] == "/echo"} == {200, 413}
    assert not any("aborted" in line for line in lines)
    assert "secret" not in json.dumps(lines)


def test_access_log_of_a_slow_reader(logged: Callable[..., Running]) -> None:
    """HS-13.3: the bytes that the front sends after the handler count too."""
    here = logged()
    client = here.connect(get("/whole?5000000"), receive_buffer=65_536)
    here.wait_for_state("writing", 1)
    assert len(parse(read_to_end(client)).body) == 5_000_000
    (line,) = entries(here, 1)
    assert line["bytes"] > 5_000_000


def test_access_log_tells_of_a_cut(logged: Callable[..., Running]) -> None:
    """HS-13.3, OVER-05: a response that was cut is aborted in the log, whatever its status says."""
    here = logged(request_timeout=0.3)
    client = here.connect(get("/whole?20000000", "X-Request-ID: two"), receive_buffer=4096)
    here.wait_for_state("writing", 1)
    here.wait_for_state("writing", 0)
    assert ending(client)[1] == "reset"
    (line,) = entries(here, 1)
    assert (line["status"], line["aborted"]) == (200, True)
    assert line["bytes"] < 20_000_000
    assert line["request_id"] == "two"


def test_log_cannot_be_forged(logged: Callable[..., Running]) -> None:
    """HS-13.3: what a client sends cannot make a second line, nor reach a terminal as a command."""
    here = logged()
    assert here.ask(get("/?a%0d%0ab", 'X-Request-ID: "x"')).status == 200
    until(lambda: here.log.about("duration_ms"))
    (line,) = here.log.about("duration_ms")
    assert line.isprintable()
    assert "\n" not in line


def test_slow_log_handler_delays_nobody(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-13.1: a log handler that hangs delays no request; what does not fit the queue is dropped and counted."""
    monkeypatch.setenv("IDKMESH_HTTP_ACCESS_LOG", "1")
    release = threading.Event()

    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            release.wait(120)

    logger = logging.getLogger("idkmesh")
    hanging = Hanging()
    here = serve()
    logger.addHandler(hanging)
    try:
        began = time.monotonic()
        for _ in range(1500):
            assert here.ask().status == 200
        assert time.monotonic() - began < 60
    finally:
        release.set()
        logger.removeHandler(hanging)
    until(lambda: here.log.about("log lines lost"))


FULL_PIPE = """
import logging, sys, threading, socket
from http.server import BaseHTTPRequestHandler
from idkmesh.httpd import BoundedHTTPServer
logging.basicConfig(stream=sys.stderr, level=logging.INFO)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        raise ValueError("x" * 900)

server = BoundedHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for _ in range(400):
    with socket.create_connection(server.server_address) as client:
        client.sendall(b"GET / HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n")
        while client.recv(65536):
            pass
print("served", flush=True)
import os
os._exit(0)
"""


def test_full_standard_error_blocks_nobody() -> None:
    """HS-13.1: with a standard error that nobody reads the server goes on: log lines wait and are dropped."""
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", FULL_PIPE], stdout=subprocess.PIPE, stderr=writing, timeout=30, check=True, cwd=ROOT
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.stdout == b"served\n"


class Once(Site):
    protocol_version = "HTTP/1.1"

    def at_keep(self) -> None:
        self.answer(b"kept")
        self.close_connection = False


def test_what_cannot_work_is_told_once(serve: Callable[..., Running]) -> None:
    """HS-10.5, HS-7.1: keep-alive is one log line a server, and each response says Connection: close all the same."""
    here = serve(Once)
    for _ in range(5):
        assert here.ask(get("/keep")).fields["connection"] == "close"
    until(lambda: here.log.lines)
    assert len(here.log.about("keep-alive")) == 1


class Stuck(Site):
    """Fails, or holds its client until the gate opens, whatever the path."""

    def do_GET(self) -> None:
        server: Any = self.server
        server.running(1)
        assert server.gate.wait(PATIENCE)
        raise ValueError(self.path)


def test_what_clients_send_is_cut_in_lines(serve: Callable[..., Running]) -> None:
    """HS-13.2, HS-9.2: a path of 60,000 bytes is 1,024 of them in the line of an abandoned and of a failed request."""
    here = serve(Stuck, drain_timeout=0.1)
    path = "/" + "p" * 60_000
    cut = f"GET '{path[:1024]}...'"
    client = here.connect(get(path, "X-Request-ID: id-1"))
    until(lambda: here.server.now_running == 1)
    here.server.request_drain(15)
    here.thread.join(PATIENCE)
    here.server.gate.set()
    ending(client)
    until(lambda: len(here.log.lines) == 2)
    here.server.server_close()
    # Nobody waits for an abandoned one: it gives back what it held in its own time, after its line.
    until(lambda: here.core.budget.used == 0)
    (abandoned,) = here.log.about("abandoned")
    assert abandoned.endswith(f"and were abandoned: {cut}")
    (failed,) = here.log.about("ValueError")
    assert failed.startswith(f"ValueError: {path[:1024]}... at ")
    assert failed.endswith(f"answering {cut} (request id-1)")


def test_no_line_for_hostile_clients(serve: Callable[..., Running]) -> None:
    """HS-13.2, HS-4.7, OVER-01: bad requests, stalls and clients that leave are no log lines."""
    here = serve(request_timeout=0.2)
    for data in (b"", GET[:9], b"nonsense\r\n\r\n", post("/echo", 100) + b"x", b"\x16\x03\x01", b"\0" * 1000):
        here.connect(data)
    until(lambda: here.core.connections == 0)
    assert here.log.lines == []


def test_traceback_at_level_debug(serve: Callable[..., Running], caplog: pytest.LogCaptureFixture) -> None:
    """HS-7.6: one line at level ERROR; the traceback follows for those who have asked for level DEBUG."""
    here = serve(Stuck)
    here.server.gate.set()
    with caplog.at_level(logging.DEBUG, logger="idkmesh"):
        assert here.ask().status == 500
        until(lambda: any("Traceback" in record.getMessage() for record in caplog.records))
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "\n" not in told.getMessage()
