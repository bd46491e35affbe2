"""Handlers that fail, take long, or write much."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd import output as output_module
from tests.functional.support import (
    PATIENCE,
    Site,
    SiteServer,
    abort,
    ending,
    get,
    open_descriptors,
    parse,
    post,
    read_to_end,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.functional.support import Running


class Failing(Site):
    def at_raise(self) -> None:
        raise ValueError("it's broken\nin two lines")

    def at_exit(self) -> None:
        raise SystemExit(3)

    def at_late(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        raise ValueError("before anything left")

    def at_partial(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b"x" * 70_000)
        raise ValueError("after 70,000 bytes")

    def at_flushed(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"part")
        time.sleep(0.1)
        raise ValueError("after the front has sent it")

    def at_error_of_its_own(self) -> None:
        self.send_error(404, "nothing here")


@pytest.mark.parametrize("path", ["/raise", "/late", "/exit"])
def test_exception_is_an_envelope_and_one_line(serve: Callable[..., Running], path: str) -> None:
    """HS-7.6, HS-12.1, HTTP-04: an exception before output is a 500 envelope and one line, whatever the body is."""
    here = serve(Failing)
    answer = here.ask(get(path, "X-Request-ID: id-7"))
    assert (answer.status, answer.code) == (500, "internal_error")
    assert b"broken" not in answer.body
    until(lambda: here.log.lines)
    (line,) = here.log.lines
    assert "\n" not in line
    assert f"answering GET '{path}' (request id-7)" in line
    assert answer.fields["x-request-id"] == "id-7"
    smuggled = get("/")
    failed = here.ask(get(path, f"Content-Length: {len(smuggled)}") + smuggled)
    assert failed.status == 500
    assert failed.raw.count(b"HTTP/1.") == 1


def test_exits_do_not_empty_the_pool(serve: Callable[..., Running]) -> None:
    """HS-7.6: 32 handlers that call sys.exit() on 4 workers are 32 times a 500, and the workers are still there."""
    here = serve(Failing, max_concurrent_requests=4)
    assert {here.ask(get("/exit")).status for _ in range(32)} == {500}
    held = [here.connect(get("/wait")) for _ in range(4)]
    until(lambda: here.server.now_running == 4)
    here.server.gate.set()
    assert {parse(read_to_end(client)).status for client in held} == {200}
    until(lambda: len(here.log.lines) >= 32)
    assert len(here.log.about("SystemExit")) == 32


@pytest.mark.parametrize("path", ["/partial", "/flushed"])
def test_exception_after_output_is_a_cut(serve: Callable[..., Running], path: str) -> None:
    """HS-7.6: when a part has left, the connection is reset: the client sees that the response is not whole."""
    here = serve(Failing)
    data, end = ending(here.connect(get(path)))
    assert end == "reset"
    assert b"internal_error" not in data
    until(lambda: here.log.lines)
    assert len(here.log.lines) == 1


def test_what_a_handler_answers_itself_is_its_own(serve: Callable[..., Running]) -> None:
    """HS-7.2: an error page of the handler passes unchanged but for Connection: close."""
    here = serve(Failing)
    answer = here.ask(get("/error-of-its-own"))
    assert answer.status == 404
    assert answer.fields["connection"] == "close"
    assert "x-request-id" not in answer.fields
    assert here.log.lines == []


class Told(SiteServer):
    raise_again = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        assert isinstance(client_address, tuple)
        self.calls.append("handle_error")
        if self.raise_again:
            raise SystemExit("from handle_error")


@pytest.mark.parametrize("again", [False, True])
def test_handle_error_can_be_overridden(serve: Callable[..., Running], again: bool) -> None:
    """HS-7.6, HS-10.2: handle_error is called once; what it raises costs neither worker nor client."""
    here = serve(Failing, server_class=Told, max_concurrent_requests=1)
    here.server.raise_again = again
    for _ in range(3):
        assert here.ask(get("/raise")).status == 500
    assert here.server.calls.count("handle_error") == 3
    assert here.ask().status == 200
    until(lambda: len(here.log.about("handle_error failed")) == (3 if again else 0))


# --- when output leaves -----------------------------------------------------------------------------------------------


class Progress(Site):
    def at_progress(self) -> None:
        server: Any = self.server
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"first")
        assert server.gate.wait(20)
        self.wfile.write(b"last")

    def at_much(self) -> None:
        server: Any = self.server
        self.send_response(200)
        self.end_headers()
        for _ in range(4):
            self.wfile.write(b"m" * 65_536)
        assert server.gate.wait(20)

    def at_interim(self) -> None:
        self.protocol_version = "HTTP/1.1"
        self.send_response_only(103)
        self.end_headers()
        time.sleep(0.1)
        self.answer(b"final")

    def at_half_a_head(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-")
        time.sleep(0.1)
        self.wfile.write(b"Length: 2\r\n\r\nok")

    def at_thread(self) -> None:
        self.answer(b"done")
        server: Any = self.server
        wfile = self.wfile

        def write_late() -> None:
            server.gate.wait(20)
            try:
                wfile.write(b"late" * 50_000)
            except OSError as error:
                server.calls.append(str(error))

        server.late = threading.Thread(target=write_late)
        server.late.start()


def read_until(client: socket.socket, text: bytes) -> bytes:
    data = b""
    while text not in data:
        piece = client.recv(65_536)
        assert piece, data
        data += piece
    return data


def test_old_output_leaves_while_the_handler_runs(serve: Callable[..., Running]) -> None:
    """HS-7.3: what a handler wrote leaves after 20 ms, however long the handler goes on."""
    here = serve(Progress)
    client = here.connect(get("/progress"))
    assert read_until(client, b"first").endswith(b"first")
    here.server.gate.set()
    assert read_to_end(client) == b"last"


def test_much_output_leaves_at_once(serve: Callable[..., Running]) -> None:
    """HS-7.3: output beyond 64 KiB does not wait for the handler's end."""
    here = serve(Progress)
    client = here.connect(get("/much"))
    received = b""
    while not received.endswith(b"m" * 4 * 65_536):
        piece = client.recv(65_536)
        assert piece, len(received)
        received += piece
    assert here.server.now_running == 1
    here.server.gate.set()
    assert read_to_end(client) == b""


def test_interim_response_leaves_and_the_final_one_closes(serve: Callable[..., Running]) -> None:
    """HS-7.1, RFC 9110 15.2: an interim response passes unchanged; the final one says Connection: close."""
    here = serve(Progress)
    raw = read_to_end(here.connect(get("/interim")))
    interim, final = raw.split(b"\r\n\r\n", 1)
    assert interim.startswith(b"HTTP/1.1 103")
    assert b"Connection" not in interim
    answer = parse(final)
    assert answer.fields["connection"] == "close"
    assert answer.body == b"final"


def test_half_a_head_waits_for_its_end(serve: Callable[..., Running]) -> None:
    """HS-7.1: a head that takes long to write still gains its Connection: close."""
    here = serve(Progress)
    answer = here.ask(get("/half-a-head"))
    assert (answer.fields["connection"], answer.body) == ("close", b"ok")


def test_writing_after_the_end(serve: Callable[..., Running]) -> None:
    """HS-10.5: a thread that outlives its handler cannot write into a connection that is not its own any more."""
    here = serve(Progress)
    assert here.ask(get("/thread")).body == b"done"
    here.server.gate.set()
    here.server.late.join()
    assert here.server.calls[1:]  # what the thread met
    until(lambda: len(here.log.lines) == 1)
    assert here.ask().status == 200


# --- large responses --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "large.bin").write_bytes(os.urandom(1024) * 20_000)
    (tmp_path / "small.txt").write_bytes(b"small")
    return tmp_path


def file_handler(folder: Path) -> type[SimpleHTTPRequestHandler]:
    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, directory=str(folder), **options)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
            """Say nothing."""

    return Files


def test_slow_readers_of_a_file_hold_no_slot(serve: Callable[..., Running], folder: Path) -> None:
    """HS-7.4: 16 clients that do not read a 20 MB file leave both workers free, and get it whole when they read."""
    here = serve(file_handler(folder), max_concurrent_requests=2)
    readers = []
    for number in range(16):
        readers.append(here.connect(get("/large.bin"), receive_buffer=4096))
        here.wait_for_state("writing", number + 1)
    assert here.server.usage().in_flight == 0
    assert here.core.budget.used == 0
    assert here.ask(get("/small.txt")).body == b"small"
    expected = (folder / "large.bin").read_bytes()
    readers[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert parse(read_to_end(readers[0])).body == expected


def test_file_that_shrinks_is_a_cut(serve: Callable[..., Running], folder: Path) -> None:
    """HS-7.4, HS-7.6: a file that becomes shorter while it is sent ends in a reset: its length was promised."""
    here = serve(file_handler(folder))
    client = here.connect(get("/large.bin"), receive_buffer=4096)
    here.wait_for_state("writing", 1)
    os.truncate(folder / "large.bin", 1_000)
    assert ending(client)[1] == "reset"
    assert here.ask(get("/small.txt")).status == 200


class Spooling(Site):
    def at_single_write(self) -> None:
        self.answer(b"s" * int(self.query))

    def at_endless(self) -> None:
        server: Any = self.server
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"e" * 1_000_000)
        except OSError as error:
            server.calls.append(f"ended: {type(error).__name__}")
            raise


def test_spooled_response_arrives(serve: Callable[..., Running]) -> None:
    """HS-7.5: what a slow client does not take goes to a file and then to the client, and its handler ends before."""
    here = serve(Spooling, max_concurrent_requests=1)
    client = here.connect(get("/large?20000000"), receive_buffer=4096)
    here.wait_for_state("writing", 1)
    assert here.ask().status == 200
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert len(parse(read_to_end(client)).body) == 20_000_000


def test_handler_waits_beyond_the_file(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.5: beyond the file the handler waits with its slot, and goes on as the client reads."""
    monkeypatch.setattr(output_module, "SPOOL_BYTES", 1_000_000)
    monkeypatch.setattr(output_module, "SLICE_BYTES", 400_000)
    here = serve(Spooling, max_concurrent_requests=1)
    client = here.connect(get("/single-write?12000000"), receive_buffer=4096)
    until(lambda: here.server.now_running == 1)
    time.sleep(0.2)
    assert here.server.usage().in_flight == 1
    assert here.ask().status == 503
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert parse(read_to_end(client)).body == b"s" * 12_000_000
    assert here.ask().status == 200


def test_endless_response_that_nobody_reads(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.5, HS-4.4: a waiting handler whose client takes nothing is told so in time, and its slot comes back."""
    monkeypatch.setattr(output_module, "SPOOL_BYTES", 2_000_000)
    here = serve(Spooling, max_concurrent_requests=1, request_timeout=0.4)
    client = here.connect(get("/endless"), receive_buffer=4096)
    until(lambda: "ended: BrokenPipeError" in here.server.calls)
    until(lambda: here.server.usage().in_flight == 0)
    assert ending(client)[1] == "reset"
    assert here.log.lines == []


def test_endless_response_read_too_slowly(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.5: a client that takes less than 1 KiB a second while a handler waits for it loses its response."""
    monkeypatch.setattr(output_module, "SPOOL_BYTES", 2_000_000)
    monkeypatch.setattr(output_module, "MINIMUM_WRITE_RATE", 1e9)
    here = serve(Spooling, max_concurrent_requests=1, request_timeout=0.4)
    client = here.connect(get("/endless"))
    end, ends = "", time.monotonic() + PATIENCE
    while not end and time.monotonic() < ends:
        try:
            end = "" if client.recv(16_384) else "eof"
        except ConnectionResetError:
            end = "reset"
        time.sleep(0.01)  # it never stalls
    assert end == "reset"
    until(lambda: "ended: BrokenPipeError" in here.server.calls)
    until(lambda: here.server.usage().in_flight == 0)
    assert here.ask().status == 200
    assert here.log.lines == []


def test_full_temporary_directory(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.5: where nothing more can be spooled the response is cut, once told of, and the server goes on."""

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    here = serve(Spooling, max_concurrent_requests=1, max_buffered_bytes=1024 * 1024)
    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    for path in ("/large?20000000", "/single-write?20000000"):
        assert ending(here.connect(get(path), receive_buffer=4096))[1] == "reset"
    until(lambda: here.server.usage().in_flight == 0)
    assert here.ask().status == 200
    until(lambda: len(here.log.about("no more can be spooled")) == 1)


def test_client_that_resets_a_spooled_response(serve: Callable[..., Running]) -> None:
    """HS-4.7: the file of a response goes with its client."""
    here = serve(Spooling)
    before = open_descriptors()
    client = here.connect(get("/large?9000000"), receive_buffer=4096)
    here.wait_for_state("writing", 1)
    assert open_descriptors() > before
    abort(client)
    here.wait_for_state("writing", 0)
    until(lambda: open_descriptors() <= before)
    assert here.log.lines == []


class Child(Site):
    def at_child(self) -> None:
        self.send_response(200)
        self.end_headers()
        os.write(self.connection.fileno(), b"from the descriptor")


def test_descriptor_that_was_given_away_does_not_block_the_front(serve: Callable[..., Running]) -> None:
    """HS-10.4, HS-1.2: a handler that took the live descriptor leaves a socket that does not block behind."""
    here = serve(Child)
    client = here.connect(post("/child", 4) + b"body" + b"unread")
    assert read_until(client, b"from the descriptor")
    here.wait_for_state("lingering", 1)
    assert here.ask().status == 200


def test_head_and_bodiless_answers(serve: Callable[..., Running]) -> None:
    """HS-7.7: the answer to HEAD has the fields and no body; a 500 in place of it has none either."""
    here = serve(Failing)
    answer = here.ask(get("/").replace(b"GET", b"HEAD"))
    assert (answer.status, answer.body, answer.fields["content-length"]) == (200, b"", "2")
    failed = here.ask(get("/raise").replace(b"GET", b"HEAD"))
    assert (failed.status, failed.body) == (500, b"")
