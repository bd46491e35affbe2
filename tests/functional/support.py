"""Clients that do what no library does, a handler whose behaviour is chosen by path, and a server in a thread."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idkmesh.httpd import BoundedHTTPServer
from idkmesh.service_runtime import ServiceLimits

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

PATIENCE = 30.0
"""Seconds after which a test gives up. No test passes because of it."""

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def get(path: str, *fields: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: h", *fields, "", ""]
    return "\r\n".join(lines).encode()


def post(path: str, length: int, *fields: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: h", f"Content-Length: {length}", *fields, "", ""]
    return "\r\n".join(lines).encode()


@dataclass(frozen=True)
class Answer:
    status: int
    fields: dict[str, str]
    body: bytes
    raw: bytes

    @property
    def code(self) -> str:
        """The code of the error envelope, after a look at all of it (HS-12.1)."""
        document = json.loads(self.body)
        assert set(document) == {"api_version", "schema_version", "kind", "ok", "error"}
        assert document["kind"] == "idkmesh-api-error"
        assert document["ok"] is False
        assert set(document["error"]) == {"code", "message", "retryable", "details"}
        assert int(self.fields["content-length"]) == len(self.body)
        assert self.fields["connection"] == "close"
        assert self.fields["cache-control"] == "no-store"
        assert self.fields["x-request-id"]
        assert self.fields["x-content-type-options"] == "nosniff"
        assert self.fields["x-idkmesh-service"]
        if self.status == 503:
            assert self.fields["retry-after"] == "1"
            assert document["error"]["retryable"] is True
        code: str = document["error"]["code"]
        return code


def parse(raw: bytes) -> Answer:
    """Read one whole response; nothing may follow it that its length does not announce."""
    head, separator, body = raw.partition(b"\r\n\r\n")
    assert separator, f"no whole head: {raw[:200]!r}"
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines)
    lower = {name.lower(): value for name, value in fields.items()}
    if "content-length" in lower:
        assert len(body) <= int(lower["content-length"]), "more than was announced"
    return Answer(int(status_line.split()[1]), lower, body, raw)


def read_to_end(sock: socket.socket) -> bytes:
    """Read until the server closes. A reset raises."""
    chunks = []
    while data := sock.recv(256 * 1024):
        chunks.append(data)
    return b"".join(chunks)


def ending(sock: socket.socket) -> tuple[bytes, str]:
    """Read until the end and say which it was: ``"eof"`` or ``"reset"``."""
    chunks = []
    try:
        while data := sock.recv(256 * 1024):
            chunks.append(data)
    except ConnectionResetError:
        return b"".join(chunks), "reset"
    return b"".join(chunks), "eof"


def closed_by_peer(sock: socket.socket) -> bool:
    """Say whether the server has ended this connection, without waiting."""
    sock.settimeout(0)
    try:
        return not sock.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        with contextlib.suppress(OSError):
            sock.settimeout(PATIENCE)


def readable(sock: socket.socket) -> bool:
    """Say whether something, or the end, has arrived."""
    return bool(select.select([sock], [], [], 0)[0])


def abort(sock: socket.socket) -> None:
    """Close with a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def until(condition: Callable[[], Any], what: str = "", timeout: float = PATIENCE) -> None:
    """Wait for something that another thread brings about."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"did not come about: {what or condition}"
        time.sleep(0.005)


class Site(BaseHTTPRequestHandler):
    """Does what the path says. ``server.gate`` holds ``/wait``; ``server.calls`` notes what was handled."""

    def do_GET(self) -> None:
        server: Any = self.server
        path = self.path.partition("?")[0]
        server.calls.append(f"{self.command} {path}")
        server.running(1)
        try:
            getattr(self, "at_" + path.strip("/").replace("-", "_"), self.at_)()
        finally:
            server.running(-1)

    do_POST = do_GET  # noqa: N815 - the standard library's names
    do_PUT = do_GET  # noqa: N815 - as above
    do_HEAD = do_GET  # noqa: N815 - as above

    def answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    @property
    def query(self) -> str:
        return self.path.partition("?")[2]

    def at_(self) -> None:
        self.answer(b"ok")

    def at_wait(self) -> None:
        server: Any = self.server
        assert server.gate.wait(PATIENCE * 3)
        self.answer(b"waited")

    def at_echo(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def at_large(self) -> None:
        size = int(self.query)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        piece = b"x" * 65_536
        for _ in range(size // len(piece)):
            self.wfile.write(piece)
        self.wfile.write(b"x" * (size % len(piece)))

    def at_whole(self) -> None:
        self.answer(b"w" * int(self.query))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Say nothing."""


class SiteServer(BoundedHTTPServer):
    """The bounded server with what :class:`Site` needs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.gate = threading.Event()
        self.calls: list[str] = []
        self.now_running = 0
        self.most_running = 0
        self._counting = threading.Lock()
        super().__init__(*arguments, **options)

    def running(self, change: int) -> None:
        with self._counting:
            self.now_running += change
            self.most_running = max(self.most_running, self.now_running)


class Lines(logging.Handler):
    """Keeps the log lines of one server's life."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def about(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]


@dataclass
class Running:
    """A server that serves in a thread, and ways to talk to it."""

    server: Any
    log: Lines
    thread: threading.Thread
    clients: list[socket.socket] = field(default_factory=list)
    context: ssl.SSLContext | None = None

    @property
    def core(self) -> Any:
        return self.server._core

    @property
    def front(self) -> Any:
        return self.server._front

    def connect(self, data: bytes = b"", *, receive_buffer: int = 0) -> socket.socket:
        """Connect and send; the socket is closed with the server if not before."""
        client = socket.socket(self.server.address_family)
        self.clients.append(client)
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(PATIENCE)
        client.connect(self.server.server_address)
        if data:
            client.sendall(data)
        return client

    def ask(self, data: bytes = GET) -> Answer:
        """Send one request and read its whole answer."""
        with self.connect(data) as client:
            return parse(read_to_end(client))

    def wait_for_state(self, name: str, count: int) -> None:
        """Wait until the front holds exactly `count` connections in a state."""
        until(lambda: self.held(name) == count, f"{count} connections {name}")

    def held(self, name: str) -> int:
        return sum(len(held) for state, held in self.front.keeper.held.items() if state.value == name)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the front from its next turn, so that what happens meanwhile is one batch of it."""
        arrived, go_on = threading.Event(), threading.Event()

        def pause() -> None:
            arrived.set()
            assert go_on.wait(PATIENCE)

        self.server.service_actions = pause
        assert arrived.wait(PATIENCE)
        del self.server.service_actions
        try:
            yield
        finally:
            go_on.set()

    def close(self) -> None:
        """End the server, and see that nothing is left of any connection."""
        self.server.gate.set()
        for client in self.clients:
            client.close()
        self.server.shutdown()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        self.server.server_close()
        assert self.server.usage().in_flight == 0
        assert self.core.budget.used == 0, "bytes on the budget that no connection holds"
        assert self.core.connections == 0
        assert self.log.about("outside a handler") == []


@contextlib.contextmanager
def running(
    handler: Any = Site,
    *,
    server_class: type[BoundedHTTPServer] = SiteServer,
    address: Any = ("127.0.0.1", 0),
    prepare: Callable[[Any], None] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    **limits: Any,
) -> Iterator[Running]:
    """Serve `handler` in a thread under `limits`, which are the settings by name."""
    limits.setdefault("drain_timeout", 5.0)
    log = Lines()
    logger = logging.getLogger("idkmesh")
    logger.addHandler(log)
    before, logger.level = logger.level, logging.INFO
    server = server_class(address, handler, limits=ServiceLimits(**limits), ssl_context=ssl_context)
    if prepare is not None:
        prepare(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="front")
    here = Running(server, log, thread)
    thread.start()
    try:
        until(lambda: server._front is not None)
        yield here
    finally:
        try:
            here.close()
        finally:
            logger.removeHandler(log)
            logger.setLevel(before)


def resident_bytes() -> int:
    """Return this process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
