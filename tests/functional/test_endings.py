"""Clients that end early, half, or with a reset; and requests behind the first."""

from __future__ import annotations

import gc
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.functional.support import GET, Site, abort, ending, get, open_descriptors, parse, post, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.functional.support import Running

SECOND = get("/second")


@pytest.fixture(autouse=True)
def nothing_unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail on whatever would print "Exception ignored in"."""
    caught: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", caught.append)
    yield
    gc.collect()
    assert caught == []


def test_half_close_after_the_request(serve: Callable[..., Running]) -> None:
    """HS-4.5: a client that ends its side after the request reads its answer, before, while and after it is handled."""
    here = serve()
    for data in (GET, get("/wait"), post("/echo", 4) + b"body"):
        client = here.connect(data)
        client.shutdown(socket.SHUT_WR)
        if b"/wait" in data:
            until(lambda: here.server.now_running == 1)
            here.server.gate.set()
        assert parse(read_to_end(client)).status == 200


def test_half_close_without_a_request(serve: Callable[..., Running]) -> None:
    """HS-4.7: a client that ends without a byte is closed without one."""
    here = serve()
    client = here.connect()
    client.shutdown(socket.SHUT_WR)
    assert ending(client) == (b"", "eof")
    early = here.connect()
    here.wait_for_state("reading_head", 1)
    early.shutdown(socket.SHUT_WR)
    assert ending(early) == (b"", "eof")


@pytest.mark.parametrize("data", [GET[:1], GET[:-1], post("/echo", 10), post("/echo", 10) + b"nine byte"])
def test_end_before_the_request_is_complete(serve: Callable[..., Running], data: bytes) -> None:
    """HS-4.5, RFC 9112 8: an end in the middle of a head or a body is 400, and no handler runs."""
    here = serve()
    client = here.connect(data)
    client.shutdown(socket.SHUT_WR)
    answer = parse(read_to_end(client))
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert b"incomplete_request" in answer.body
    assert here.server.calls == []


@pytest.mark.parametrize("first", [GET, post("/echo", 4) + b"body", get("/wait"), post("/echo", 10**9)])
def test_second_request_is_never_answered(serve: Callable[..., Running], first: bytes) -> None:
    """HS-7.1, HS-6.1, HTTP-04: one request a connection; what is pipelined is not interpreted, and no reset either."""
    here = serve()
    client = here.connect(first + SECOND)
    if b"/wait" in first:
        until(lambda: here.server.now_running == 1)
        client.sendall(SECOND)  # this one arrives while the first is handled
        time.sleep(0.01)
        here.server.gate.set()
    raw, end = ending(client)
    assert raw.count(b"HTTP/1.") == 1
    assert end == "eof"
    assert "GET /second" not in here.server.calls


def test_body_that_is_a_request(serve: Callable[..., Running]) -> None:
    """HTTP-04, HS-6.1: a body is a body, whatever it looks like."""
    here = serve()
    assert here.ask(post("/echo", len(SECOND)) + SECOND).body == SECOND
    assert here.ask(post("/nothing-reads-it", len(SECOND)) + SECOND).status == 200
    assert "GET /second" not in here.server.calls


class Waiting(Site):
    def at_stream(self) -> None:
        server: Any = self.server
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"first")
        self.wfile.flush()
        assert server.gate.wait(20)
        for _ in range(200):
            self.wfile.write(b"x" * 65_536)


def leave_at_once(here: Running) -> Iterator[socket.socket]:
    yield here.connect()


def leave_in_head(here: Running) -> Iterator[socket.socket]:
    yield here.connect(GET[:9])
    here.wait_for_state("reading_head", 1)


def leave_in_body(here: Running) -> Iterator[socket.socket]:
    yield here.connect(post("/echo", 100_000) + b"b" * 50_000)
    here.wait_for_state("reading_body", 1)


def leave_in_handler(here: Running) -> Iterator[socket.socket]:
    yield here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)


def leave_in_stream(here: Running) -> Iterator[socket.socket]:
    client = here.connect(get("/stream"))
    received = b""
    while b"first" not in received:
        received += client.recv(1000)
    yield client


def leave_in_response(here: Running) -> Iterator[socket.socket]:
    yield here.connect(get("/whole?30000000"), receive_buffer=4096)
    here.wait_for_state("writing", 1)


def leave_in_file_response(here: Running) -> Iterator[socket.socket]:
    yield here.connect(get("/large?30000000"), receive_buffer=4096)
    here.wait_for_state("writing", 1)


def leave_lingering(here: Running) -> Iterator[socket.socket]:
    yield here.connect(post("/echo", 10**9) + b"u" * 1000)
    here.wait_for_state("lingering", 1)


PHASES = [
    leave_at_once,
    leave_in_head,
    leave_in_body,
    leave_in_handler,
    leave_in_stream,
    leave_in_response,
    leave_in_file_response,
    leave_lingering,
]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("leave", [abort, socket.socket.close])
def test_client_leaves(
    serve: Callable[..., Running],
    phase: Callable[[Running], Iterator[socket.socket]],
    leave: Callable[[socket.socket], None],
) -> None:
    """HS-4.7, OVER-11: a reset or a close in whatever phase releases everything, without a traceback."""
    here = serve(Waiting, max_concurrent_requests=2, request_timeout=1.0)
    assert here.ask().status == 200  # the worker, the log and the selector are there
    before = open_descriptors()
    for _ in range(3):
        (client,) = phase(here)
        leave(client)
        here.server.gate.set()
        until(lambda: here.core.connections == 0)
        here.server.gate.clear()
    assert here.server.usage().in_flight == 0
    assert here.core.budget.used == 0
    assert here.ask().status == 200
    until(lambda: open_descriptors() == before, "descriptors back")
    assert here.log.lines == []


class Unaware(Site):
    def at_ignoring(self) -> None:
        server: Any = self.server
        self.send_response(200)
        self.end_headers()
        assert server.gate.wait(20)
        for _ in range(100):
            try:
                self.wfile.write(b"x" * 65_536)
            except OSError:
                server.calls.append("told")


def test_handler_is_told_that_its_client_has_left(serve: Callable[..., Running]) -> None:
    """HS-4.7: writing for a client that has left raises in the handler; what it makes of that is its own."""
    here = serve(Unaware)
    client = here.connect(get("/ignoring"))
    until(lambda: here.server.now_running == 1)
    abort(client)
    here.server.gate.set()
    until(lambda: here.server.usage().in_flight == 0)
    assert "told" in here.server.calls
    assert here.log.lines == []
