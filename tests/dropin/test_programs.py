"""Programs written for the standard library's server, unchanged on ours (HS-10.1)."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import io
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xmlrpc.client import ServerProxy
from xmlrpc.server import SimpleXMLRPCDispatcher, SimpleXMLRPCRequestHandler

import pytest

from tests.functional.support import PATIENCE, SiteServer, ending, get, parse, post, read_to_end, until
from tests.functional.tls_support import client_context, server_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.functional.support import Answer, Running

with contextlib.suppress(ImportError):  # gone in Python 3.15
    from http.server import CGIHTTPRequestHandler

SECURE = pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the standard library's name)
        """Say nothing."""

    def respond(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def handler_of(step: Callable[[Any], None], **attributes: Any) -> Any:
    """Return a handler class that does `step` for every method."""
    return type("Handler", (Quiet,), {"do_GET": step, "do_POST": step, "do_HEAD": step, **attributes})


def connect(here: Running, data: bytes, *, secure: bool) -> socket.socket:
    client = here.connect()
    if secure:
        client = client_context().wrap_socket(client, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
        here.clients.append(client)
    client.sendall(data)
    return client


def start(serve: Callable[..., Running], step: Callable[[Any], None], *, secure: bool, **attributes: Any) -> Running:
    return serve(handler_of(step, **attributes), ssl_context=server_context() if secure else None)


def read_exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = client.recv(count - len(data))
        assert piece, f"ended after {data!r}"
        data += piece
    return data


def read_head(client: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += read_exactly(client, 1)
    return data


# --- writing ----------------------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n"


def sends_all(handler: Any) -> None:
    handler.request.sendall(HEAD)
    handler.connection.sendall(bytearray(b"body"))


def sends_pieces(handler: Any) -> None:
    left = HEAD + b"body"
    while left:
        left = left[handler.connection.send(left[:3]) :]


def sends_messages(handler: Any) -> None:
    assert handler.request.sendmsg([HEAD, memoryview(b"bo")]) == len(HEAD) + 2
    assert handler.request.sendto(b"dy", ("ignored", 1)) == 2


def writes_through_a_file(handler: Any) -> None:
    with handler.request.makefile("wb") as file:
        file.write(HEAD + b"body")


def writes_text(handler: Any) -> None:
    with handler.request.makefile("w", newline="", encoding="ascii") as file:
        file.write(HEAD.decode() + "body")


def writes_both(handler: Any) -> None:
    handler.wfile.write(HEAD)
    handler.request.sendall(b"bo")
    assert handler.wfile.write(memoryview(b"dy")) == 2
    handler.wfile.flush()


def writes_lines(handler: Any) -> None:
    handler.wfile.writelines([HEAD, b"bo", b"dy"])


def sends_a_file(handler: Any) -> None:
    handler.wfile.write(HEAD)
    with tempfile.TemporaryFile() as file:
        file.write(b"a body that is longer")
        assert handler.request.sendfile(file, offset=2, count=4) == 4


def sends_no_real_file(handler: Any) -> None:
    handler.wfile.write(HEAD)
    assert handler.request.sendfile(io.BytesIO(b"a body"), offset=2) == 4


def buffers_its_writer(handler: Any) -> None:
    handler.wfile = io.BufferedWriter(handler.wfile)
    handler.wfile.write(HEAD + b"body")


@SECURE
@pytest.mark.parametrize(
    "step",
    [
        sends_all,
        sends_pieces,
        sends_messages,
        writes_through_a_file,
        writes_text,
        writes_both,
        writes_lines,
        sends_a_file,
        sends_no_real_file,
        buffers_its_writer,
    ],
    ids=lambda step: step.__name__,
)
def test_every_way_to_write(serve: Callable[..., Running], step: Callable[[Any], None], secure: bool) -> None:
    """HS-10.4, HS-7.1: what is written in whatever way is one response, in order, and says Connection: close."""
    here = start(serve, step, secure=secure)
    raw = read_to_end(connect(here, get("/"), secure=secure))
    assert raw == b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
    assert here.log.lines == []


@pytest.mark.parametrize("value", ["text", 5, None])
def test_what_is_no_bytes_is_refused_at_once(serve: Callable[..., Running], value: Any) -> None:
    """HS-10.1: as on the standard library the write itself raises, and HS-7.6 the answer is a 500."""
    raised: list[type[Exception]] = []

    def step(handler: Any) -> None:
        for write in (handler.wfile.write, handler.request.send):
            try:
                write(value)
            except TypeError as error:
                raised.append(type(error))
        raise ValueError

    here = serve(handler_of(step))
    assert here.ask(get("/")).status == 500
    assert raised == [TypeError, TypeError]


# --- descriptors and children -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("cat"), reason="there is no cat on this system")
def test_child_process_has_the_body_and_the_response(serve: Callable[..., Running]) -> None:
    """HS-10.4: `rfile` and `wfile` can be given to a child process: it reads the body and writes after the head."""

    def step(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        subprocess.run(["cat"], stdin=handler.rfile, stdout=handler.wfile, check=True)
        assert handler.rfile.read(1) == b""
        handler.wfile.write(b" and after")

    here = serve(handler_of(step))
    answer = here.ask(post("/", 4) + b"body")
    assert answer.body == b"body and after"
    assert answer.fields["connection"] == "close"
    assert here.log.lines == []


def test_large_output_of_a_child(serve: Callable[..., Running]) -> None:
    """HS-10.4: the descriptor blocks while a child has it: a child's large output is whole with a slow client."""

    def step(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        code = "import sys; sys.stdout.buffer.write(b'x' * 3_000_000)"
        subprocess.run([sys.executable, "-c", code], stdout=handler.request, check=True)

    here = serve(handler_of(step))
    client = here.connect(get("/"), receive_buffer=4096)
    threading.Event().wait(0.2)
    assert len(parse(read_to_end(client)).body) == 3_000_000


def test_fork_in_a_handler(serve: Callable[..., Running]) -> None:
    """HS-10.4: what was written before a fork has left before the child writes, an unfinished head included."""

    def step(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Parent: yes\r\n")
        pid = os.fork()
        if pid == 0:
            try:
                os.write(handler.wfile.fileno(), b"X-Child: yes\r\n\r\nchild,")
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        handler.wfile.write(b"parent")

    here = serve(handler_of(step))
    for _ in range(20):
        answer = here.ask(post("/", 2) + b"ab")
        assert answer.fields.keys() == {"x-parent", "x-child", "connection"}
        assert answer.body == b"child,parent"


def child_sends_a_file(handler: Any) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"not this, child,")
        assert handler.request.sendfile(file, offset=10) == 6


def child_copies_a_file(handler: Any) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"child,")
        file.seek(0)
        handler.copyfile(file, handler.wfile)


def child_writes_a_file(handler: Any) -> None:
    with handler.request.makefile("wb") as file:
        file.write(b"child,")


CHILD_WRITES: dict[str, Callable[[Any], Any]] = {
    "wfile.write": lambda handler: handler.wfile.write(b"child,"),
    "wfile.writelines": lambda handler: handler.wfile.writelines([b"chi", b"ld,"]),
    "request.sendall": lambda handler: handler.request.sendall(b"child,"),
    "connection.send": lambda handler: handler.connection.send(b"child,"),
    "request.sendmsg": lambda handler: handler.request.sendmsg([b"chi", b"ld,"]),
    "request.makefile": child_writes_a_file,
    "request.sendfile": child_sends_a_file,
    "copyfile": child_copies_a_file,
}


def in_child(handler: Any, work: Callable[[Any], Any]) -> int:
    """Fork, do `work` in the child, and return its exit code, as programs do it that fork with care."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work(handler)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("way", CHILD_WRITES)
def test_forked_child_writes(serve: Callable[..., Running], way: str) -> None:
    """HS-10.4: what a forked child writes in whatever way goes out though it leaves by os._exit; its parent goes on."""

    class Forking(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nparent,")
            code = in_child(self, CHILD_WRITES[way])
            self.wfile.write(b"parent again,")
            self.request.sendall(b"%d" % code)

    here = serve(Forking)
    for _ in range(5):
        answer = here.ask(get("/"))
        assert answer.body == b"parent,child,parent again,0"
        assert answer.fields["connection"] == "close"
    assert here.log.lines == []


def test_forked_child_writes_much(serve: Callable[..., Running]) -> None:
    """HS-10.4: a child's large output through `wfile` is whole with a client that does not read at first."""

    def step(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        code = in_child(handler, lambda handler: handler.wfile.write(b"c" * 3_000_000))
        handler.wfile.write(b"%d" % code)

    here = serve(handler_of(step))
    client = here.connect(get("/"), receive_buffer=4096)
    threading.Event().wait(0.2)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert parse(read_to_end(client)).body == b"c" * 3_000_000 + b"0"


LEAVES: dict[str, tuple[BaseException | None, int]] = {
    "returns": (None, 0),
    "exits": (SystemExit(7), 0),
    "raises": (ValueError("in the child"), 1),
}


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("way", LEAVES)
def test_forked_child_that_comes_back_ends(
    serve: Callable[..., Running], capfd: pytest.CaptureFixture[str], way: str, serial: bool
) -> None:
    """HS-10.4: a child that leaves the handler is no second server: it ends, and cuts nothing that its parent sends."""
    error, expected = LEAVES[way]

    def step(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nparent,")
        pid = os.fork()
        if pid == 0:
            handler.wfile.write(b"child,")
            if error is not None:
                raise error
            return
        handler.wfile.write(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    here = serve(handler_of(step), serial=serial)
    for _ in range(2):
        data, end = ending(here.connect(get("/")))
        assert (parse(data).body, end) == (b"parent,child,%d" % expected, "eof")
    assert here.log.lines == []
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 * expected
    assert all(line.startswith("in a forked child: ValueError: in the child at ") for line in lines)


def test_forked_child_waits_for_no_thread_of_its_parent(serve: Callable[..., Running]) -> None:
    """HS-10.4: a lock that the front held at a fork would be held in the child for ever: the child has its own."""

    def step(handler: Any) -> None:
        output = handler.request.exchange.output
        lock = output._lock
        pid = os.fork()
        if pid == 0:
            os._exit(0 if output._lock is not lock and not output._lock.locked() else 1)
        handler.respond(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    assert serve(handler_of(step)).ask(get("/")).body == b"0"


def test_writes_beside_a_shared_descriptor(serve: Callable[..., Running]) -> None:
    """HS-10.4, HS-7.3: while a child process may have the descriptor, each write leaves at once, in order with its."""

    def step(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        descriptor = handler.wfile.fileno()
        connection = handler.request.exchange.connection
        for piece in (b"one,", b"three,"):
            sent = connection.written
            handler.wfile.write(piece)
            assert connection.written == sent + len(piece)
            os.write(descriptor, b"between,")
        handler.request.exchange.output.flush_if_old(float("inf"))

    assert serve(handler_of(step)).ask(get("/")).body == b"one,between,three,between,"


def test_fork_after_the_client_has_left(serve: Callable[..., Running]) -> None:
    """HS-4.7: a fork that cannot flush, its client being gone, goes on; the handler learns of it when it writes."""
    went_on = threading.Event()

    def step(handler: Any) -> None:
        assert handler.server.gate.wait(PATIENCE)
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        handler.request.exchange.output.abandon()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        went_on.set()

    here = serve(handler_of(step))
    client = here.connect(get("/"))
    here.server.gate.set()
    assert went_on.wait(PATIENCE)
    client.close()


@pytest.mark.skipif("CGIHTTPRequestHandler" not in globals(), reason="this version of Python has no CGI")
@pytest.mark.skipif(os.name != "posix", reason="CGIHTTPRequestHandler forks on POSIX alone")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_cgi(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-10.1: CGIHTTPRequestHandler, which forks and as root becomes nobody, runs a script with a body."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "cgi-bin")
        directory.mkdir()
        script = directory / "echo.sh"
        script.write_text(
            '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\n"\necho "$QUERY_STRING $(id -u)"\ncat\n'
        )
        for path in (Path(folder), directory, script):
            path.chmod(0o755)
        monkeypatch.chdir(folder)
        here = serve(type("CGI", (CGIHTTPRequestHandler,), {"log_message": lambda *_: None}))
        answers = [here.ask(post("/cgi-bin/echo.sh?a=b", 6) + b"body\nx") for _ in range(5)]
    for answer in answers:
        assert answer.status == 200
        assert answer.fields["content-type"] == "text/plain"
        assert answer.fields["connection"] == "close"
        query, _, body = answer.body.partition(b"\n")
        name, user = query.split()
        assert (name, body) == (b"a=b", b"body\nx")
        assert int(user) != 0
    assert here.log.lines == []


# --- the socket -------------------------------------------------------------------------------------------------------


REPLAYED: dict[str, Any] = {
    "peek": b"POS",
    "recv": b"POST",
    "from": b" /",
    "into": (4, b" HTT"),
    "some": (2, b"P/TT"),
    "from into": (1, b"1/TT"),
    "message": b".1",
    "message into": (4, b"\r\nHo"),
    "nowhere": 0,
    "none": b"",
    "file": b"st: h\r\nContent-Length: 4\r\n\r\nbody",
    "end": (b"", b""),
    "names": (True, True),
    "class": (True, socket.AF_INET, socket.SOCK_STREAM),
}


def test_socket_replays_the_request(serve: Callable[..., Running]) -> None:
    """HS-10.4: `self.request` replays the request and then ends, in every way that a socket is read."""
    seen: dict[str, Any] = {}

    class Raw:
        def __init__(self, request: Any, address: Any, server: Any) -> None:
            seen["peek"] = request.recv(3, socket.MSG_PEEK)
            seen["recv"] = request.recv(4)
            seen["from"], peer = request.recvfrom(2)
            buffer = bytearray(4)
            seen["into"] = (request.recv_into(buffer), bytes(buffer))
            seen["some"] = (request.recv_into(buffer, 2), bytes(buffer))
            seen["from into"] = (request.recvfrom_into(buffer, 1)[0], bytes(buffer))
            seen["message"] = request.recvmsg(2)[0]
            seen["message into"] = (request.recvmsg_into([b"", buffer])[0], bytes(buffer))
            seen["nowhere"] = request.recvmsg_into([bytearray()])[0]
            seen["none"] = request.recv(0)
            with request.makefile("rb") as file:
                seen["file"] = file.read()
            seen["end"] = (request.recv(10), request.recv(10))
            assert peer == request.getpeername()
            seen["names"] = (peer == address, request.getsockname() == server.server_address)
            seen["class"] = (isinstance(request, socket.socket), request.family, request.type)
            request.sendall(HEAD + b"body")

    here = serve(Raw)
    assert here.ask(post("/", 4) + b"body").body == b"body"
    assert seen == REPLAYED


def test_socket_settings(serve: Callable[..., Running]) -> None:
    """HS-10.4: timeouts and options are the handler's; looking at the socket has no effect on it."""
    seen: list[Any] = []

    def step(handler: Any) -> None:
        sock = handler.connection
        seen.append((sock.gettimeout(), sock.timeout, sock.getblocking()))
        sock.settimeout(3)
        seen.append((sock.gettimeout(), sock.timeout, sock.getblocking()))
        sock.setblocking(False)
        seen.append((sock.gettimeout(), sock.getblocking()))
        sock.setblocking(True)
        seen.append((sock.gettimeout(), sock.getblocking()))
        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        seen.append("127.0.0.1" in repr(sock))
        seen.append(handler.request.exchange.output.shared)
        for refused in (sock.detach, sock.dup):
            with pytest.raises(OSError, match="cannot take the connection over"):
                refused()
        with pytest.raises(AttributeError, match="a plain socket has no 'getpeercert'"):
            sock.getpeercert()
        with pytest.raises(AttributeError):
            _ = sock._unknown
        sock.shutdown(socket.SHUT_WR)
        handler.respond(b"ok")

    here = serve(handler_of(step))
    assert here.ask(get("/")).body == b"ok"
    assert seen == [(None, None, True), (3, 3, True), (0, False), (None, True), True, True, False]


def test_tls_socket_tells_of_tls(serve: Callable[..., Running]) -> None:
    """HS-10.4: what only a TLS socket has is there under TLS."""

    def step(handler: Any) -> None:
        assert handler.connection.getpeercert() is None
        handler.respond(handler.connection.version().encode())

    here = start(serve, step, secure=True)
    assert parse(read_to_end(connect(here, get("/"), secure=True))).body.startswith(b"TLSv1.")


def test_socket_that_the_handler_closes(serve: Callable[..., Running]) -> None:
    """HS-10.4: a handler that closes its socket has sent what it wrote; the socket is of no use to it any more."""
    errors: list[OSError] = []

    def step(handler: Any) -> None:
        handler.respond(b"ok")
        handler.connection.close()
        handler.connection.close()
        try:
            handler.connection.send(b"more")
        except OSError as error:
            errors.append(error)

    here = serve(handler_of(step))
    assert here.ask(get("/")).body == b"ok"
    assert len(errors) == 1
    assert here.log.lines == []


@pytest.mark.parametrize("use", ["recv", "send", "write", "fileno"])
def test_socket_used_after_the_handler(serve: Callable[..., Running], use: str) -> None:
    """HS-10.5: a socket or `wfile` used after the handler has returned raises OSError, and is one log line."""
    kept: list[Any] = []

    def step(handler: Any) -> None:
        kept.append(handler)
        handler.respond(b"ok")

    here = serve(handler_of(step))
    for _ in range(3):
        assert here.ask(get("/")).body == b"ok"
    uses: dict[str, Callable[[Any], Any]] = {
        "recv": lambda handler: handler.request.recv(1),
        "send": lambda handler: handler.request.send(b"late"),
        "write": lambda handler: handler.wfile.write(b"late"),
        "fileno": lambda handler: handler.request.getsockname(),
    }
    for handler in kept:
        with pytest.raises(OSError, match=r"."):
            uses[use](handler)
        assert "ended" in repr(handler.request)
        assert handler.request.fileno() == -1
    told = 0 if use == "fileno" else 1
    until(lambda: len(here.log.about("a handler used its socket after it had returned")) == told)


def test_keep_alive_is_one_line(serve: Callable[..., Running]) -> None:
    """HS-10.5, HS-7.1: a handler that offers keep-alive is told of once, and its response says close."""

    def step(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "keep-alive")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    here = serve(handler_of(step, protocol_version="HTTP/1.1"))
    for _ in range(3):
        answer = here.ask(get("/"))
        assert answer.raw.startswith(b"HTTP/1.1 200 ")
        assert answer.raw.lower().count(b"connection:") == 1
        assert answer.fields["connection"] == "close"
    until(lambda: here.log.lines)
    assert here.log.lines == ["a handler offers keep-alive; this server answers one request a connection"]


def test_reading_past_the_body_is_one_line(serve: Callable[..., Running]) -> None:
    """HS-10.5, HS-6.1: a handler that reads past the body gets what was declared, at once, and is told of once."""

    def step(handler: Any) -> None:
        handler.respond(b"".join(iter(lambda: handler.rfile.read(3), b"")))

    here = serve(handler_of(step))
    for _ in range(3):
        assert here.ask(post("/", 4) + b"body").body == b"body"
    until(lambda: here.log.lines)
    assert len(here.log.about("read past the end of its request's body")) == len(here.log.lines) == 1


# --- live connections -------------------------------------------------------------------------------------------------

UPGRADE = get("/", "Connection: Upgrade", "Upgrade: echo")
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"


def echo_with_socket(handler: Any) -> None:
    handler.request.sendall(SWITCHING)
    while data := handler.request.recv(65_536):
        handler.request.sendall(data)


def echo_with_files(handler: Any) -> None:
    handler.wfile.write(SWITCHING)
    while data := handler.rfile.readline():
        handler.wfile.write(data)


def echo_with_a_slow_head(handler: Any) -> None:
    for number in range(len(SWITCHING)):
        handler.wfile.write(SWITCHING[number : number + 1])
    buffer = bytearray(65_536)
    while count := handler.connection.recv_into(buffer):
        handler.connection.sendmsg([buffer[:count]])


def echo_with_methods(handler: Any) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.send_response_only(101)
    handler.send_header("Upgrade", "echo")
    handler.send_header("Connection", "Upgrade")
    handler.end_headers()
    with handler.connection.makefile("rwb", buffering=0) as file:
        while data := file.read(65_536):
            file.write(data)


@SECURE
@pytest.mark.parametrize(
    "step",
    [echo_with_socket, echo_with_files, echo_with_a_slow_head, echo_with_methods],
    ids=lambda step: step.__name__,
)
def test_connection_goes_on_live_after_101(
    serve: Callable[..., Running], step: Callable[[Any], None], secure: bool
) -> None:
    """HS-10.4: after a 101 response, which passes unchanged, bytes go both ways at once, until the client ends."""
    here = start(serve, step, secure=secure)
    client = connect(here, UPGRADE, secure=secure)
    assert read_head(client) == SWITCHING
    for number in range(50):
        line = b"line %d\n" % number * 50
        client.sendall(line)
        assert read_exactly(client, len(line)) == line
    if secure:
        client.close()
    else:
        client.shutdown(socket.SHUT_WR)
        assert read_to_end(client) == b""
    until(lambda: here.server.usage().in_flight == 0)
    assert here.log.lines == []


@SECURE
def test_large_pieces_of_a_live_connection(serve: Callable[..., Running], secure: bool) -> None:
    """HS-10.4: more than the socket takes at once waits for the client, in order."""
    size = 4_000_000

    def step(handler: Any) -> None:
        handler.wfile.write(SWITCHING)
        handler.wfile.write(bytes(size))
        assert handler.request.recv(4) == b"done"
        handler.wfile.write(b"last")

    here = start(serve, step, secure=secure)
    client = connect(here, UPGRADE, secure=secure)
    assert read_head(client) == SWITCHING
    assert read_exactly(client, size) == bytes(size)
    client.sendall(b"done")
    assert read_exactly(client, 4) == b"last"


@SECURE
def test_bytes_that_came_before_the_101(serve: Callable[..., Running], secure: bool) -> None:
    """HS-10.4, HS-6.1: what a client sends beyond its request is live input after a 101, and nothing without one."""
    here = start(serve, echo_with_files, secure=secure)
    client = connect(here, UPGRADE + b"early, " + b"e" * 3000 + b"\n", secure=secure)
    assert read_head(client) == SWITCHING
    client.sendall(b"late\n")
    assert read_exactly(client, 3013) == b"early, " + b"e" * 3000 + b"\nlate\n"
    client.close()

    def step(handler: Any) -> None:
        handler.respond(handler.rfile.read())

    here = serve(handler_of(step))
    assert here.ask(post("/", 4, "Upgrade: echo") + b"body, and more").body == b"body"


def test_fork_outside_of_a_handler() -> None:
    """HS-10.4: a fork that no handler makes is no business of the server's."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_body_for_a_child_without_memory_files(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-10.4: where the system has no memory files, the body that a child reads is in a temporary one."""
    monkeypatch.delattr(os, "memfd_create", raising=False)

    def step(handler: Any) -> None:
        assert handler.rfile.fileno() == handler.rfile.fileno()
        handler.respond(os.read(handler.rfile.fileno(), 100))

    assert serve(handler_of(step)).ask(post("/", 4) + b"body").body == b"body"


def test_live_write_does_not_wait(serve: Callable[..., Running]) -> None:
    """HS-10.4: what is written to a live connection is on the wire when the write returns."""

    def step(handler: Any) -> None:
        handler.wfile.write(SWITCHING)
        assert handler.request.recv(1) == b"x"
        connection = handler.request.exchange.connection
        for write in (handler.wfile.write, handler.request.send, handler.connection.sendall):
            before = connection.written
            write(b"now")
            assert connection.written == before + 3

    here = serve(handler_of(step))
    client = here.connect(UPGRADE)
    assert read_head(client) == SWITCHING
    client.sendall(b"x")
    assert read_to_end(client) == b"now" * 3


def test_live_timeout_is_the_handlers(serve: Callable[..., Running]) -> None:
    """HS-10.4: a live read waits as long as the handler's `timeout` says; `handle_one_request` tells of it."""
    said: list[str] = []

    def step(handler: Any) -> None:
        handler.wfile.write(SWITCHING)
        handler.request.recv(1)

    def log_error(handler: Any, text: str, *arguments: Any) -> None:
        said.append(text % arguments)

    here = serve(handler_of(step, timeout=0.1, log_error=log_error))
    for request in (UPGRADE, get("/")):
        client = here.connect(request)
        assert read_head(client) == SWITCHING
        assert read_to_end(client) == b""
    assert said == ["Request timed out: TimeoutError('timed out')"] * 2
    assert here.log.lines == []


def test_live_write_times_out(serve: Callable[..., Running]) -> None:
    """HS-10.4, HS-4.4: a handler that waits for a client which takes nothing is told so in time."""
    said: list[str] = []

    def step(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(bytes(8_000_000))
        handler.connection.settimeout(0.2)
        try:
            handler.wfile.fileno()
        except TimeoutError as error:
            said.append(str(error))

    here = serve(handler_of(step))
    client = here.connect(get("/"), receive_buffer=4096)
    until(lambda: said == ["timed out"])
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert len(parse(read_to_end(client)).body) == 8_000_000


@SECURE
def test_live_half_close(serve: Callable[..., Running], secure: bool) -> None:
    """HS-10.4: `shutdown` on a live connection half-closes it: the client sees the end and can still send."""
    got: list[bytes] = []

    def step(handler: Any) -> None:
        handler.wfile.write(SWITCHING)
        handler.request.recv(1)
        handler.wfile.write(b"bye")
        handler.request.shutdown(socket.SHUT_WR)
        got.append(handler.request.recv(100) if not secure else b"after the end")

    here = start(serve, step, secure=secure)
    client = connect(here, UPGRADE, secure=secure)
    assert read_head(client) == SWITCHING
    client.sendall(b"x")
    assert read_to_end(client) == b"bye"
    if not secure:
        client.sendall(b"after the end")
    until(lambda: got == [b"after the end"])


def test_upgrade_that_is_refused(serve: Callable[..., Running]) -> None:
    """HS-10.4: a handler that answers an upgrade with something else than 101 has an ordinary, ended request."""

    def step(handler: Any) -> None:
        handler.respond(handler.rfile.read() + handler.request.recv(5), 400)

    here = serve(handler_of(step))
    answer = here.ask(post("/", 4, "Connection: Upgrade", "Upgrade: echo") + b"body")
    assert (answer.status, answer.body, answer.fields["connection"]) == (400, b"body", "close")


def test_live_connection_with_unread_input_keeps_its_last_words(serve: Callable[..., Running]) -> None:
    """HS-4.6: a live connection whose client goes on sending is not reset over the last words of the handler."""

    def step(handler: Any) -> None:
        handler.wfile.write(SWITCHING)
        assert handler.request.recv(1) == b"1"
        assert handler.server.gate.wait(PATIENCE)
        handler.wfile.write(b"enough")

    here = serve(handler_of(step))
    client = here.connect(UPGRADE)
    assert read_head(client) == SWITCHING
    client.sendall(b"1" + b"x" * 100_000)
    here.server.gate.set()
    until(lambda: here.server.usage().in_flight == 0)
    threading.Event().wait(0.05)
    assert ending(client) == (b"enough", "eof")


# --- response heads ---------------------------------------------------------------------------------------------------

EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
RESPONSES = {
    "gains": (b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nx", b"HTTP/1.0 200 OK\r\nA: b\r\nConnection: close\r\n\r\nx"),
    "no fields": (b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
    "says it": (b"HTTP/1.0 200 OK\r\nconnection:\tclose\r\n\r\n", b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n"),
    "keeps": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nA: b\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\nA: b\r\n\r\n",
    ),
    "twice": (
        b"HTTP/1.0 200 OK\r\nConnection: te\r\nA: b\r\nCONNECTION: keep-alive\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\nA: b\r\n\r\n",
    ),
    "in the body": (
        b"HTTP/1.0 200 OK\r\n\r\n\r\nConnection: a\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n\r\nConnection: a\r\n\r\n",
    ),
    "proxy field": (
        b"HTTP/1.0 200 OK\r\nProxy-Connection: a\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nProxy-Connection: a\r\nConnection: close\r\n\r\n",
    ),
    "interim": (EARLY + b"HTTP/1.1 200 OK\r\n\r\n", EARLY + b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
    "interims": (EARLY * 3 + b"HTTP/1.1 404 No\r\n\r\n", EARLY * 3 + b"HTTP/1.1 404 No\r\nConnection: close\r\n\r\n"),
    "interim alone": (EARLY, EARLY),
    "switching": (SWITCHING, SWITCHING),
    "switching, no field": (b"HTTP/1.1 101 S\r\n\r\nraw", b"HTTP/1.1 101 S\r\n\r\nraw"),
    "empty": (b"", b""),
    "not HTTP": (b"just text\r\n\r\nand more", b"just text\r\n\r\nand more"),
    "almost HTTP": (b"HTTP/1.", b"HTTP/1."),
    "another HTTP": (b"HTTP/2 200\r\n\r\n", b"HTTP/2 200\r\n\r\n"),
    "no status": (b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"),
    "no end": (b"HTTP/1.0 200 OK\r\nA: b", b"HTTP/1.0 200 OK\r\nA: b"),
    "bare LF": (b"HTTP/1.0 200 OK\nA: b\n\nbody", b"HTTP/1.0 200 OK\nA: b\n\nbody"),
    "never ends": (
        b"HTTP/1.0 200 OK\r\n" + b"A: b\r\n" * 20_000 + b"x",
        b"HTTP/1.0 200 OK\r\n" + b"A: b\r\n" * 20_000 + b"x",
    ),
}


@pytest.mark.parametrize("piece", [1, 7, 200_000])
@pytest.mark.parametrize("name", RESPONSES)
def test_head_gains_connection_close_and_nothing_else(serve: Callable[..., Running], name: str, piece: int) -> None:
    """HS-7.1, HS-7.2: however a response is written, its final head has one Connection: close; the rest is the same."""
    written, expected = RESPONSES[name]
    if len(written) > 10_000:
        piece *= 997

    def step(handler: Any) -> None:
        for start in range(0, len(written), piece):
            handler.wfile.write(written[start : start + piece])

    here = serve(handler_of(step))
    client = here.connect(get("/"))
    assert read_to_end(client) == expected


@pytest.mark.parametrize("name", RESPONSES)
def test_head_that_is_flushed_in_the_middle(serve: Callable[..., Running], name: str) -> None:
    """HS-7.1, HS-7.3: a front that lets old output leave between any two writes changes nothing."""
    written, expected = RESPONSES[name]
    cuts = sorted({*range(0, min(len(written), 120), 5), len(written)})

    def step(handler: Any) -> None:
        output = handler.request.exchange.output
        for start, end in itertools.pairwise(cuts):
            handler.wfile.write(written[start:end])
            output.flush_if_old(float("inf"))

    here = serve(handler_of(step))
    assert read_to_end(here.connect(get("/"))) == expected


# --- servers ----------------------------------------------------------------------------------------------------------


class DirectoryServer(SiteServer):
    """What `python -m http.server` does: the directory comes in with finish_request."""

    directory = ""

    def finish_request(self, request: Any, client_address: Any) -> None:
        handler_class: Any = self.RequestHandlerClass
        handler_class(request, client_address, self, directory=self.directory)


class Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the standard library's name)
        """Say nothing."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.txt").write_bytes(b"small\n")
    (tmp_path / "large.bin").write_bytes(os.urandom(1024) * 3000)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_bytes(b"<p>index")
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "a & b.txt").write_bytes(b"")
    return tmp_path


def test_finish_request_can_be_overridden(serve: Callable[..., Running], folder: Path) -> None:
    """HS-10.2: a server that constructs the handler itself, as `python -m http.server` does, serves the same files."""
    here = serve(Files, server_class=DirectoryServer)
    here.server.directory = str(folder)
    assert here.ask(get("/small.txt")).body == b"small\n"
    assert here.ask(get("/large.bin")).body == (folder / "large.bin").read_bytes()


def test_server_tells_handlers_its_name(serve: Callable[..., Running]) -> None:
    """HS-10.1: handlers find the server, its name and port, and whatever the program has put there."""

    def step(handler: Any) -> None:
        server = handler.server
        handler.respond(f"{server.server_name} {server.server_port} {server.extra} {server.server_address[1]}".encode())

    def prepare(server: Any) -> None:
        server.extra = "extra"

    here = serve(handler_of(step), prepare=prepare)
    port = here.server.server_address[1]
    assert here.ask(get("/")).body == f"127.0.0.1 {port} extra {port}".encode()


def test_log_message_goes_to_standard_error(serve: Callable[..., Running], capsys: pytest.CaptureFixture[str]) -> None:
    """HS-10.1: the handler's own log is the standard library's, one line a request."""

    class Logging(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

    here = serve(Logging)
    assert here.ask(get("/missing")).status == 404
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("] ")[2] for line in lines] == [
        "code 404, message Not Found",
        '"GET /missing HTTP/1.1" 404 -',
    ]
    assert here.log.lines == []


def test_every_request_has_a_fresh_context(serve: Callable[..., Running]) -> None:
    """HS-10.1: as with a thread a request, a context variable that one request sets is not seen by the next."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    def step(handler: Any) -> None:
        before = variable.get()
        variable.set(handler.path)
        handler.respond(before.encode())

    variable.set("of the test")
    here = serve(handler_of(step), max_concurrent_requests=1)
    assert {here.ask(get(f"/{number}")).body for number in range(5)} == {b"unset"}


@pytest.mark.parametrize("method", ["BREW", "get", "PROPFIND"])
def test_method_without_a_do_method_is_501(serve: Callable[..., Running], method: str) -> None:
    """HS-10.6: a method is 501, by the handler, only where it has no `do_METHOD`."""
    here = serve(handler_of(lambda handler: handler.respond(b"ok"), do_PROPFIND=lambda handler: handler.respond(b"p")))
    answer = here.ask(get("/").replace(b"GET", method.encode()))
    assert answer.status == (200 if method == "PROPFIND" else 501)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/api/v1/status", "/metrics"])
def test_no_path_is_answered_for_the_program(serve: Callable[..., Running], path: str) -> None:
    """HS-10.6: every path is the handler's, those of probes too."""
    here = serve(handler_of(lambda handler: handler.respond(b"mine " + handler.path.encode())))
    assert here.ask(get(path)).body == b"mine " + path.encode()


def test_xml_rpc(serve: Callable[..., Running]) -> None:
    """HS-10.1: SimpleXMLRPCRequestHandler answers calls, 1.5 MB of them in one, and faults."""

    class Server(SiteServer, SimpleXMLRPCDispatcher):
        logRequests = False  # noqa: N815 (the standard library's name)

        def __init__(self, *arguments: Any, **options: Any) -> None:
            SimpleXMLRPCDispatcher.__init__(self, allow_none=True, encoding=None)
            super().__init__(*arguments, **options)

    here = serve(SimpleXMLRPCRequestHandler, server_class=Server)
    here.server.register_function(lambda text: text[::-1], "reverse")
    here.server.register_function(lambda a, b: a / b, "divide")
    with ServerProxy(f"http://127.0.0.1:{here.server.server_port}/RPC2", allow_none=True) as proxy:
        assert proxy.reverse("abc") == "cba"
        assert proxy.reverse("x" * 1_500_000) == "x" * 1_500_000
        with pytest.raises(Exception, match="ZeroDivisionError"):
            proxy.divide(1, 0)
        assert proxy.reverse("again") == "niaga"


# --- files ------------------------------------------------------------------------------------------------------------


def serve_folder(serve: Callable[..., Running], folder: Path, handler: Any = Files, **options: Any) -> Running:
    return serve(functools.partial(handler, directory=str(folder)), **options)


@SECURE
@pytest.mark.parametrize("name", ["small.txt", "large.bin"])
def test_files_arrive_whole(serve: Callable[..., Running], folder: Path, name: str, secure: bool) -> None:
    """HS-7.4, HS-10.1: a partial of SimpleHTTPRequestHandler serves files, over TLS too."""
    here = serve_folder(serve, folder, ssl_context=server_context() if secure else None)
    answer = parse(read_to_end(connect(here, get(f"/{name}"), secure=secure)))
    content = (folder / name).read_bytes()
    assert answer.body == content
    assert answer.fields["content-length"] == str(len(content))
    assert answer.fields["last-modified"]


def test_file_goes_by_its_descriptor(
    serve: Callable[..., Running], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HS-7.4: a file is sent by `sendfile`: nothing reads it into memory."""
    sent: list[int] = []
    sendfile = os.sendfile

    def counting(out_fd: int, in_fd: int, offset: int, count: int) -> int:
        sent.append(sendfile(out_fd, in_fd, offset, count))
        return sent[-1]

    monkeypatch.setattr(os, "sendfile", counting)
    here = serve_folder(serve, folder)
    assert here.ask(get("/large.bin")).body == (folder / "large.bin").read_bytes()
    assert sum(sent) == 3_072_000


def test_head_of_a_file(serve: Callable[..., Running], folder: Path) -> None:
    """HS-7.7, HS-10.1: HEAD has the fields of GET and no body; an unchanged file is a 304."""
    here = serve_folder(serve, folder)
    answer = here.ask(get("/large.bin"))
    head = here.ask(get("/large.bin").replace(b"GET", b"HEAD"))
    assert head.body == b""
    assert {**head.fields, "date": ""} == {**answer.fields, "date": ""}
    unchanged = here.ask(get("/large.bin", f"If-Modified-Since: {answer.fields['last-modified']}"))
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert here.ask(get("/large.bin", "If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT")).status == 200


def test_directories(serve: Callable[..., Running], folder: Path) -> None:
    """HS-10.1: a directory has its index or a listing, and a redirect where the slash is missing."""
    here = serve_folder(serve, folder)
    assert here.ask(get("/sub/")).body == b"<p>index"
    assert b"a%20%26%20b.txt" in here.ask(get("/listed/")).body
    redirect = here.ask(get("/sub"))
    assert (redirect.status, redirect.fields["location"]) == (301, "/sub/")


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/..%2f",
        "///evil.example/",
        "//evil.example/%2e%2e",
        "/\\evil.example/",
        "/%5cevil.example/",
        "/%2f/evil.example",
        "//evil.example/../sub",
        "//sub",
        "///sub",
        "/%2fsub",
        "/\\sub",
        "/./sub",
        "//evil.example/../../sub",
    ],
)
def test_no_open_redirect(serve: Callable[..., Running], folder: Path, target: str) -> None:
    """HS-10.3: a target that looks like an authority never becomes a Location on another site."""
    here = serve_folder(serve, folder)
    answer = here.ask(get(target))
    location = answer.fields.get("location", "/")
    assert location.startswith("/")
    assert location[1:2] not in ("/", "\\")
    assert answer.status in (200, 301, 400, 404)


@pytest.mark.parametrize(
    "target",
    [
        "/%00",
        "/small.txt%00.png",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/x",
        "/c%3a%5cwindows%5cwin.ini",
        "/%5c%5chost%5cshare",
        "/con",
        "/a%20%2e",
        "/%zz",
        "/%",
        "/" + "n" * 3000,
    ],
)
def test_paths_that_are_no_files(serve: Callable[..., Running], folder: Path, target: str) -> None:
    """HS-10.1: a path that is no file is a 404, never a file outside of the folder and never a traceback.

    The one exception is the standard library's own: it raises ValueError at a NUL in some versions, which is HS-7.6.
    """
    here = serve_folder(serve, folder)
    answer = here.ask(get(target))
    assert b"root:" not in answer.body
    assert answer.status == 404 or ("%00" in target and answer.code == "internal_error")


@pytest.mark.parametrize("handler", [Quiet, Files])
def test_handler_is_freed_when_it_has_ended(serve: Callable[..., Running], handler: Any) -> None:
    """HS-10.3: nothing that the fast way puts into a handler keeps it alive until the garbage collector comes."""
    seen: list[weakref.ref[Any]] = []

    class Seen(handler):  # type: ignore[misc]  # whatever class it is
        def do_GET(self) -> None:
            seen.append(weakref.ref(self))
            self.send_response(200)
            self.end_headers()

    gc.disable()
    try:
        here = serve(Seen)
        for _ in range(3):
            assert here.ask(get("/")).status == 200
        until(lambda: all(reference() is None for reference in seen[:2]))
    finally:
        gc.enable()
    assert len(seen) == 3


def test_compressed_file_is_sent_as_read(serve: Callable[..., Running], folder: Path) -> None:
    """HS-7.4: a file object whose descriptor holds something else than it reads is read, not sent by descriptor."""
    import gzip  # noqa: PLC0415 (for this test alone)

    content = b"clear text" * 1000
    with gzip.open(folder / "file.gz", "wb") as file:
        file.write(content)

    class Unpacking(Files):
        def send_head(self) -> Any:
            self.send_response(200)
            self.end_headers()
            return gzip.open(folder / "file.gz", "rb")

    assert serve_folder(serve, folder, Unpacking).ask(get("/")).body == content


def test_copyfile_of_a_file_without_a_size(serve: Callable[..., Running]) -> None:
    """HS-7.4: the kernel's own files do not tell their size: `copyfile` and `sendfile` read them."""
    path = Path("/proc/version")
    if not path.exists():
        pytest.skip("this system has no /proc/version")

    class Kernel(Files):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with path.open("rb") as file:
                if self.path == "/copy":
                    self.copyfile(file, self.wfile)
                else:
                    assert self.request.sendfile(file) > 0

    here = serve(Kernel)
    for target in ("/copy", "/send"):
        assert here.ask(get(target)).body == path.read_bytes() != b""


def test_copyfile_of_a_program(serve: Callable[..., Running], folder: Path) -> None:
    """HS-10.1: a program's own `copyfile`, or a call of it for another purpose, is what it was."""

    class Shouting(Files):
        def copyfile(self, source: Any, outputfile: Any) -> None:
            outputfile.write(source.read().upper())

    class Copying(Files):
        def do_GET(self) -> None:
            copy = io.BytesIO()
            with (folder / "small.txt").open("rb") as file:
                self.copyfile(file, copy)
            self.send_response(200)
            self.end_headers()
            self.copyfile(copy, self.wfile)
            copy.seek(0)
            self.copyfile(copy, self.wfile)

    assert serve_folder(serve, folder, Shouting).ask(get("/small.txt")).body == b"SMALL\n"
    assert serve_folder(serve, folder, Copying).ask(get("/")).body == b"small\n"


def test_temporary_and_open_files(serve: Callable[..., Running]) -> None:
    """HS-7.4: whatever open file a program sends, the client gets what `read` would give from there on."""

    def step(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        with tempfile.NamedTemporaryFile() as named, tempfile.SpooledTemporaryFile() as spooled:
            for number, file in enumerate((named, spooled)):
                file.write(b"skipped, file %d;" % number)
                file.seek(9)
                handler.request.sendfile(file, offset=9)
        with open(os.devnull, "rb") as file:  # noqa: PTH123 (a device)
            handler.request.sendfile(file)
        read, write = os.pipe()
        os.write(write, b"pipe")
        os.close(write)
        with open(read, "rb") as pipe:  # noqa: PTH123 (a descriptor)
            handler.request.sendfile(pipe)

    answer: Answer = serve(handler_of(step)).ask(get("/"))
    assert answer.body == b"file 0;file 1;pipe"
