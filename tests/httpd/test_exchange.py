"""One request in a worker's hands: the slot, the answer, the end of the connection."""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any, cast

import pytest

from idkmesh.httpd import exchange as module
from idkmesh.httpd.connection import Connection, State
from idkmesh.httpd.core import Core
from idkmesh.httpd.exchange import Exchange, close, current_exchange, failure_line, input_waits
from idkmesh.httpd.request_rules import HeadLimits, Request, read_head
from idkmesh.httpd.responses import Response
from idkmesh.service_runtime import (
    MAX_LOGGED_CHARACTERS,
    Admission,
    DoubleReleaseError,
    ServiceIdentity,
    ServiceLimits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDENTITY = ServiceIdentity(service="test", service_version="0")
HEAD = b"GET /path?q HTTP/1.1\r\nHost: h\r\nX-Request-ID: id-1\r\n\r\n"


class Server:
    def __init__(self) -> None:
        self.errors: list[str] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.errors.append(failure_line())


class Made:
    def __init__(self, responder: Callable[[Exchange], None], data: bytes = HEAD) -> None:
        self.server = Server()
        self.core = Core(self.server, ServiceLimits(), IDENTITY)
        near, self.far = socket.socketpair()
        near.settimeout(0)
        self.far.settimeout(30)
        self.connection = Connection(near, ("127.0.0.1", 1), 0.0, State.HANDLING)
        verdict = read_head(data, HeadLimits())
        assert type(verdict) is tuple
        request, rest = verdict
        assert isinstance(request, Request)
        self.connection.request = request
        self.connection.body = bytearray(rest)
        self.connection.responder = responder
        admission = self.core.limiter.admit(self)
        assert isinstance(admission, Admission)
        self.exchange = Exchange(self.core, self.connection, admission, self.server)
        self.connection.output = self.exchange.output

    def close(self) -> None:
        self.connection.sock.close()
        self.far.close()
        self.core.log.close(5)


@pytest.fixture
def run() -> Iterator[Callable[..., Made]]:
    made: list[Made] = []

    def start(responder: Callable[[Exchange], None], data: bytes = HEAD, *, leave: bool = False) -> Made:
        one = Made(responder, data)
        made.append(one)
        if leave:
            one.far.close()
        contextvars.Context().run(one.exchange.run)
        return one

    yield start
    for one in made:
        one.close()


def ok(exchange: Exchange) -> None:
    exchange.respond(Response(200, body=b"ok", content_type="text/plain"))


def test_answer_and_end(run: Callable[..., Made]) -> None:
    """HS-5.5, HS-7.4: the response is sent, the slot is back, the connection closed, once."""
    made = run(ok)
    assert made.core.limiter.in_flight == 0
    assert made.connection.state is State.CLOSED
    assert made.connection.sock.fileno() == -1
    assert made.connection.status == 200
    data = made.far.recv(65_536)
    assert b"X-Request-ID: id-1\r\n" in data
    assert data.endswith(b"\r\n\r\nok")
    with pytest.raises(DoubleReleaseError):
        made.exchange.cancel()


def test_slot_is_back_before_the_last_byte_leaves(monkeypatch: pytest.MonkeyPatch, run: Callable[..., Made]) -> None:
    """HS-5.5: the slot does not wait for the sending."""
    seen = []
    send = Exchange._send_once

    def noting(self: Exchange, data: bytes) -> Any:
        seen.append(self._service.limiter.in_flight)  # type: ignore[attr-defined]  # the service is a Core here
        return send(self, data)

    monkeypatch.setattr(Exchange, "_send_once", noting)
    run(ok)
    assert seen == [0]


def test_current_exchange(run: Callable[..., Made]) -> None:
    """HS-9.4: code that runs for a request can tell that it does."""
    seen = []
    made = run(lambda exchange: seen.append(current_exchange.get()))
    assert seen == [made.exchange]


@pytest.mark.parametrize("error", [ValueError("it"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_handler_raises(run: Callable[..., Made], error: BaseException) -> None:
    """HS-7.6: a 500, one line that names place and request, and the slot back."""

    def fail(exchange: Exchange) -> None:
        raise error

    made = run(fail)
    assert made.far.recv(65_536).startswith(b"HTTP/1.0 500 ")
    assert made.core.limiter.in_flight == 0
    (line,) = made.server.errors
    assert line.startswith(type(error).__name__)
    assert line.endswith("answering GET '/path' (request id-1)")
    assert "?q" not in line


def test_client_that_has_left_is_nobodys_fault(run: Callable[..., Made]) -> None:
    """HS-4.7: what a handler raises because its client has left is not told; the slot comes back."""

    def write(exchange: Exchange) -> None:
        exchange.output.write(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100_000)

    made = run(write, leave=True)
    assert made.server.errors == []
    assert made.connection.state is State.CLOSED
    assert made.core.limiter.in_flight == 0


def test_client_that_has_left_before_a_small_answer(run: Callable[..., Made]) -> None:
    """HS-4.7: neither is an answer that finds nobody any more."""
    made = run(ok, leave=True)
    assert made.server.errors == []
    assert made.connection.cut


def test_remainder_goes_to_the_front(run: Callable[..., Made]) -> None:
    """HS-7.4, HS-7.5: what the socket does not take at once is handed back, in a file; the body is let go."""

    def write(exchange: Exchange) -> None:
        exchange.respond(Response(200, body=b"x" * 3_000_000))

    made = run(write, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
    assert made.connection.state is State.WRITING
    assert made.connection.outbox is not None
    assert made.connection.body == b""
    assert made.connection.outbox.spooled == made.connection.outbox.remaining > 0
    assert made.core.budget.used == 0
    made.connection.outbox.close()


def test_socket_without_room(run: Callable[..., Made]) -> None:
    """HS-7.4: where the socket takes nothing at all, the whole response is the remainder."""
    made = Made(ok)
    with contextlib.suppress(BlockingIOError):
        while True:
            made.connection.sock.send(b"x" * 65_536)
    contextvars.Context().run(made.exchange.run)
    assert made.connection.outbox is not None
    assert made.connection.outbox.remaining > 100
    made.close()


def test_unread_input_lingers(run: Callable[..., Made]) -> None:
    """HS-4.6: where more has arrived than was announced, the front lingers."""
    made = Made(ok, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
    made.far.sendall(b"more")
    contextvars.Context().run(made.exchange.run)
    assert made.connection.unread
    assert made.connection.state is State.WRITING
    made.close()


def test_late_input_lingers(run: Callable[..., Made], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-4.6: without a body too, when the handler took long enough for more to arrive."""
    monkeypatch.setattr(module, "UNWATCHED_SECONDS", -1)
    made = Made(ok)
    made.far.sendall(b"GET /second HTTP/1.1\r\n\r\n")
    contextvars.Context().run(made.exchange.run)
    assert made.connection.unread
    made.close()


def test_body_is_bytes(run: Callable[..., Made]) -> None:
    """HS-6.1: a responder gets the whole body as bytes."""
    seen: list[Any] = []

    def read(exchange: Exchange) -> None:
        seen.extend((exchange.body, exchange.body, exchange.client_address, exchange.log))

    made = run(read, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
    assert seen == [b"body", b"body", ("127.0.0.1", 1), made.core.log]
    assert type(seen[0]) is bytes


def test_an_exchange_has_a_request(run: Callable[..., Made]) -> None:
    """HS-4.1: an exchange without a request is a fault of the program."""
    made = Made(ok)
    made.connection.request = None
    with pytest.raises(ValueError, match="needs a request"):
        _ = made.exchange.request
    made.close()


def test_failure_outside_of_an_exchange() -> None:
    """HS-7.6: one line also where no request is being answered, and where no exception is."""
    lines = []
    try:
        int("two\nlines")
    except ValueError:
        lines.append(failure_line())
    assert lines[0].startswith("ValueError: ")
    assert "\n" not in lines[0]
    assert failure_line().startswith("error: ")


def test_failure_line_is_cut(run: Callable[..., Made]) -> None:
    """HS-13.2, HS-7.6: method, path and message are each cut to 1,024 characters, however long a client makes them."""

    def fail(exchange: Exchange) -> None:
        raise ValueError("m" * 60_000)

    made = run(fail, b"%s /%s HTTP/1.1\r\nHost: h\r\nX-Request-ID: id-1\r\n\r\n" % (b"M" * 20_000, b"p" * 40_000))
    (line,) = made.server.errors
    assert line.startswith("ValueError: " + "m" * MAX_LOGGED_CHARACTERS + "... at ")
    request = f"{'M' * MAX_LOGGED_CHARACTERS}... '/{'p' * (MAX_LOGGED_CHARACTERS - 1)}...' (request id-1)"
    assert line.endswith(f", answering {request}")


def test_interrupt_is_kept(run: Callable[..., Made]) -> None:
    """HS-9.4: Ctrl-C in a handler is kept for whoever runs it on the main thread; other exceptions are not."""
    interrupt = KeyboardInterrupt()

    def fail(exchange: Exchange) -> None:
        raise interrupt if exchange.request.method == "GET" else SystemExit

    assert run(fail).exchange.interrupt is interrupt
    assert run(fail, HEAD.replace(b"GET", b"PUT")).exchange.interrupt is None


def test_declined() -> None:
    """HS-5.7: a worker that cannot get a thread for a request answers it 503, counts it, and gives its slot back."""
    made = Made(ok)
    contextvars.Context().run(made.exchange.decline)
    data = made.far.recv(65_536)
    assert data.startswith(b"HTTP/1.0 503 ")
    assert b"X-Request-ID: id-1\r\n" in data
    assert made.connection.state is State.CLOSED
    assert made.core.limiter.in_flight == 0
    assert made.core.limiter.statistics().overloaded_total == 1
    made.close()


def test_input_waits() -> None:
    """HS-4.6: bytes that nobody read, an end, a reset, and TLS, which always has its close_notify."""
    near, far = socket.socketpair()
    near.settimeout(0)
    assert not input_waits(near)
    far.sendall(b"x")
    assert input_waits(near)
    near.recv(1)
    far.close()
    assert not input_waits(near)
    near.close()
    assert not input_waits(near)
    assert input_waits(ssl.SSLSocket.__new__(ssl.SSLSocket))


def test_closing_a_cut_response_that_is_gone_already() -> None:
    """HS-4.7: ending in a reset what the client has reset is no error."""
    near, far = socket.socketpair()
    connection = Connection(near, None, 0.0, State.CLOSED)
    connection.cut = True
    near.close()
    close(connection)
    assert connection.sock.fileno() == -1
    far.close()


class Refusing(Server):
    def handle_error(self, request: Any, client_address: Any) -> None:
        raise SystemExit("handle_error leaves")


def test_handle_error_that_raises() -> None:
    """HS-7.6: what handle_error raises is one line, and the client still gets its 500."""
    made = Made(lambda exchange: cast("None", 1 / 0))
    made.core.server = Refusing()
    contextvars.Context().run(made.exchange.run)
    assert made.far.recv(65_536).startswith(b"HTTP/1.0 500 ")
    assert made.core.limiter.in_flight == 0
    made.close()


@pytest.mark.parametrize("where", ["settle", "_hand_out"])
def test_whatever_fails_at_the_end(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """HS-4.7, HS-5.5: slot and connection come back to the front even where the response cannot be ended."""
    made = Made(lambda exchange: exchange.respond(Response(200, body=b"x" * 3_000_000)))
    returned: list[Connection] = []
    monkeypatch.setattr(made.core, "give_back", returned.append)

    def fail(output: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(f"idkmesh.httpd.output.Output.{where}", fail)
    with pytest.raises(MemoryError):
        contextvars.Context().run(made.exchange.run)
    assert made.core.limiter.in_flight == 0
    assert returned == [made.connection]
    assert made.connection.state is State.CLOSED
    assert made.connection.cut
    assert made.connection.sock.fileno() == -1
    made.close()


def test_closing_what_somebody_else_has_closed() -> None:
    """HS-4.7: a descriptor that a program has closed under the server is no error when its connection ends."""
    near, far = socket.socketpair()
    os.close(near.fileno())
    close(Connection(near, None, 0.0, State.CLOSED))
    assert near.fileno() == -1
    far.close()


def test_failure_line_names_the_programs_own_line(run: Callable[..., Made]) -> None:
    """HS-7.6: where a library raised, the line of the program that called it comes first."""

    def parse(exchange: Exchange) -> None:
        json.loads("{")

    (line,) = run(parse).server.errors
    assert re.search(r" at .*test_exchange\.py:\d+ in parse, raised at .*decoder\.py:\d+ in ", line)
