"""Programs that take the descriptor of their connection, and do with it what they should and should not."""

from __future__ import annotations

import contextvars
import os
import select
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.dropin.test_programs import SECURE, SWITCHING, UPGRADE, connect, handler_of, read_exactly, read_head, start
from tests.functional.support import PATIENCE, Site, abort, ending, get, open_descriptors, parse, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.functional.support import Running

HEAD = b"HTTP/1.0 200 OK\r\n\r\n"


def closes_a_file(handler: Any) -> None:
    with os.fdopen(handler.connection.fileno(), "wb") as file:
        file.write(HEAD + b"body")


def closes_the_number(handler: Any) -> None:
    handler.wfile.write(HEAD + b"body")
    os.close(handler.wfile.fileno())


def closes_a_socket(handler: Any) -> None:
    with socket.socket(fileno=handler.request.fileno()) as sock:
        sock.sendall(HEAD + b"body")


def closes_with_the_base_class(handler: Any) -> None:
    handler.wfile.write(HEAD + b"body")
    socket.socket.close(handler.request)


def closes_and_asks_again(handler: Any) -> None:
    os.close(handler.request.fileno())
    assert select.select([], [handler.connection], [], 0)[1]
    handler.wfile.write(HEAD + b"body")


CLOSERS = [closes_a_file, closes_the_number, closes_a_socket, closes_with_the_base_class, closes_and_asks_again]


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("step", CLOSERS, ids=lambda step: step.__name__)
def test_handler_that_closes_its_descriptor(
    serve: Callable[..., Running], step: Callable[[Any], None], serial: bool
) -> None:
    """HS-10.4: what a handler gets is a duplicate: closing it costs no connection and no slot, nor is it told."""
    here = serve(handler_of(step), serial=serial)
    before = open_descriptors()
    for _ in range(8):
        data, end = ending(here.connect(get("/")))
        assert (parse(data).body, end) == (b"body", "eof")
    for client in here.clients:
        client.close()
    until(lambda: open_descriptors() <= before)
    assert here.log.lines == []


def test_number_that_has_been_given_out_again(serve: Callable[..., Running], tmp_path: Path) -> None:
    """HS-10.4: the number of a duplicate that a handler closed may be a file's by now: the server does not close it."""
    (tmp_path / "file").write_bytes(b"content")
    files: list[int] = []

    def step(handler: Any) -> None:
        handler.wfile.write(HEAD + b"body")
        descriptor = handler.request.fileno()
        source = os.open(tmp_path / "file", os.O_RDONLY)
        files.append(os.dup2(source, descriptor))
        os.close(source)

    assert serve(handler_of(step)).ask(get("/")).body == b"body"
    (descriptor,) = files
    assert os.read(descriptor, 100) == b"content"
    os.close(descriptor)


def test_thread_that_asks_while_the_handler_returns(serve: Callable[..., Running]) -> None:
    """HS-1.2, HS-10.4: a thread that waits in fileno() for a slow client gets nothing once its handler has returned."""
    outcomes: list[Any] = []

    def watch(handler: Any) -> None:
        try:
            outcomes.append(select.select([handler.connection], [], [], 0))
        except OSError as error:
            outcomes.append(error)

    def step(handler: Any) -> None:
        handler.wfile.write(HEAD + b"x" * 8_000_000)
        threading.Thread(target=watch, args=(handler,), daemon=True).start()
        threading.Event().wait(0.1)

    here = serve(type("Watched", (Site,), {"at_watch": step}))
    client = here.connect(get("/watch"), receive_buffer=4096)
    here.wait_for_state("writing", 1)
    (connection,) = [one for state, held in here.front.keeper.held.items() if state.value == "writing" for one in held]
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert len(parse(read_to_end(client)).body) == 8_000_000
    until(lambda: outcomes)
    assert isinstance(outcomes[0], BrokenPipeError)
    assert not connection.exposed
    assert here.ask().status == 200


def test_descriptor_that_somebody_makes_blocking_for_good(serve: Callable[..., Running], folder_file: str) -> None:
    """HS-1.2: the front waits for nobody, whatever a program that had the descriptor does to its mode afterwards."""
    kept: list[int] = []

    def step(handler: Any) -> None:
        kept.append(os.dup(handler.connection.fileno()))
        handler.wfile.write(HEAD)
        with open(folder_file, "rb") as file:  # noqa: PTH123 (a plain file, as programs have it)
            handler.request.exchange.output.shared = False  # else the handler would wait for the client
            handler.request.sendfile(file)

    here = serve(type("Blocking", (Site,), {"at_file": step}))
    client = here.connect(get("/file"), receive_buffer=4096)
    until(lambda: kept)
    here.wait_for_state("writing", 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    received = 0
    while received < 8_000_000:  # for its last bytes the front sends, and then looks for input
        received += len(client.recv(1 << 20))
        os.set_blocking(kept[0], True)
        assert here.ask().status == 200
    os.close(kept[0])
    client.close()


@pytest.fixture
def folder_file(tmp_path: Path) -> str:
    path = tmp_path / "large"
    path.write_bytes(b"f" * 8_000_000)
    return str(path)


def test_child_that_outlives_its_handler(serve: Callable[..., Running]) -> None:
    """HS-1.2, HS-10.4: neither does it wait where a child that is still there makes its descriptor block."""
    code = "import os, sys\nos.set_blocking(0, True)\nprint(flush=True)\nsys.stderr.read(1)"
    children: list[subprocess.Popen[bytes]] = []

    def step(handler: Any) -> None:
        reader, writer = os.pipe()
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=handler.connection, stdout=subprocess.PIPE, stderr=reader
        )
        children.append(child)
        child.writer = writer  # type: ignore[attr-defined]
        os.close(reader)
        handler.request.exchange.output.retire()
        assert child.stdout is not None
        child.stdout.read(1)
        handler.answer(b"answer")

    here = serve(type("Parent", (Site,), {"at_child": step}))
    client = here.connect(get("/child"))
    read_head(client)
    assert read_exactly(client, 6) == b"answer"
    assert [here.ask().status for _ in range(3)] == [200] * 3
    (child,) = children
    os.close(child.writer)  # type: ignore[attr-defined]
    with child:
        assert child.wait(PATIENCE) in {0, 1}


@pytest.mark.parametrize("way", ["fileno", "fork"])
def test_clients_that_never_read_hold_no_slot(serve: Callable[..., Running], way: str) -> None:
    """HS-4.4, HS-10.4: a handler that shares its descriptor waits for its client as HS-4.4 says."""

    def step(handler: Any) -> None:
        if way == "fileno":
            handler.connection.fileno()
        elif os.fork() == 0:
            os._exit(0)
        else:
            os.wait()
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"x" * 1_000_000)

    here = serve(type("Sharing", (Site,), {"at_much": step}), max_concurrent_requests=2, request_timeout=0.5)
    for _ in range(2):
        here.connect(get("/much"), receive_buffer=4096)
    until(lambda: here.server.usage().in_flight == 2)
    until(lambda: here.ask().status == 200)
    until(lambda: here.server.usage().in_flight == 0)
    assert here.log.about("Error") == []


@SECURE
def test_waiting_for_a_live_client(serve: Callable[..., Running], secure: bool) -> None:
    """HS-10.4: a program that waits in select() for a live connection reads on as before."""
    quiet = threading.Event()

    def step(handler: Any) -> None:
        handler.request.sendall(SWITCHING)
        handler.request.settimeout(0.05)
        with pytest.raises(TimeoutError):
            handler.request.recv(1)
        quiet.set()
        assert select.select([handler.connection], [], [], PATIENCE)[0]
        assert handler.request.recv(8) == b"question"
        with pytest.raises(TimeoutError):
            handler.request.recv(1)
        handler.request.sendall(b"answer")

    here = start(serve, step, secure=secure)

    client = connect(here, UPGRADE, secure=secure)
    read_head(client)
    assert quiet.wait(PATIENCE)
    threading.Event().wait(0.2)
    client.sendall(b"question")
    assert read_exactly(client, 6) == b"answer"
    assert here.log.lines == []


@SECURE
def test_live_client_that_resets(serve: Callable[..., Running], secure: bool) -> None:
    """HS-4.7: the reset of a live connection is nobody's fault, and no log line."""
    ends: list[BaseException | None] = []

    def step(handler: Any) -> None:
        handler.request.sendall(SWITCHING)
        try:
            while handler.request.recv(100):
                pass
        except BaseException as error:
            ends.append(error)
            raise
        ends.append(None)

    here = start(serve, step, secure=secure)

    client = connect(here, UPGRADE, secure=secure)
    read_head(client)
    abort(client)
    until(lambda: ends)
    assert secure or isinstance(ends[0], ConnectionResetError)
    until(lambda: here.server.usage().in_flight == 0)
    assert here.log.lines == []


@pytest.mark.parametrize("fails", [False, True])
def test_forked_child_that_cannot_be_seen_as_one(serve: Callable[..., Running], fails: bool) -> None:
    """HS-10.4: a child that was forked outside of the handler's context, or cannot tell of its error, ends too."""

    def step(handler: Any) -> None:
        pid = contextvars.Context().run(os.fork)
        if pid == 0:
            os.close(2)
            if fails:
                raise ValueError
            return
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        handler.wfile.write(HEAD + b"%d" % code)

    here = serve(handler_of(step))
    for _ in range(2):
        assert here.ask(get("/")).body == b"%d" % fails


def test_forked_child_whose_client_never_reads(serve: Callable[..., Running]) -> None:
    """HS-4.4, HS-10.4: a child that writes to a client that takes nothing is given up with it."""
    codes: list[int] = []

    def step(handler: Any) -> None:
        pid = os.fork()
        if pid == 0:
            handler.wfile.write(HEAD + b"x" * 20_000_000)
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    here = serve(handler_of(step), request_timeout=0.5)
    here.connect(get("/"), receive_buffer=4096)
    until(lambda: codes)
    assert codes == [1]
