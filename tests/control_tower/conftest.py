"""A control tower that runs, and a client that sends raw bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.control_tower_ui import ControlTowerServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 30.0
"""Seconds after which a test gives up. No test passes because of it."""

TOKEN = "secret-token-of-the-test-suite-0123456789"


@dataclass(frozen=True)
class Answer:
    status: int
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        code = self.json()["error"]["code"]
        assert isinstance(code, str)
        return code


class Tower:
    """A running server and the ways to ask it."""

    def __init__(self, server: ControlTowerServer) -> None:
        self.server = server
        self.address: tuple[Any, ...] = server.server_address
        self.host = server.origin.removeprefix("http://")

    def send(self, data: bytes) -> bytes:
        """Send raw bytes, half-close, and return everything that comes back."""
        with socket.create_connection(self.address[:2], timeout=PATIENCE) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            chunks = list(iter(lambda: client.recv(65536), b""))
        return b"".join(chunks)

    def ask(self, line: str, *fields: str, host: str | None = None, body: bytes | None = None) -> Answer:
        """Send one request, with this service's Host unless another is given."""
        lines = [f"{line} HTTP/1.1", f"Host: {host or self.host}", *fields]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return parse(self.send(head + (body or b"")))

    def api(self, line: str, *fields: str, body: bytes | None = None) -> Answer:
        """Send one request with the session token."""
        return self.ask(line, f"X-IDKMesh-UI-Token: {TOKEN}", *fields, body=body)


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that another thread brings about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.005)


def parse(data: bytes) -> Answer:
    head, separator, body = data.partition(b"\r\n\r\n")
    assert separator, data
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
    assert len(dict(pairs)) == len(pairs), "no field twice"
    return Answer(int(status.split()[1]), dict(pairs), body)


@contextlib.contextmanager
def running(address: tuple[str, int] = ("127.0.0.1", 0), **options: Any) -> Iterator[Tower]:
    with tempfile.TemporaryDirectory() as folder:
        options.setdefault("store", Path(folder) / "events.sqlite3")
        server = ControlTowerServer(address, TOKEN, **options)
        thread = threading.Thread(target=server.serve_forever, name="tower-of-the-test")
        thread.start()
        try:
            until(lambda: server.health.snapshot().started)
            yield Tower(server)
        finally:
            server.shutdown()
            thread.join(30)
            server.server_close()


@pytest.fixture(scope="module")
def tower() -> Iterator[Tower]:
    with running() as started:
        yield started


@pytest.fixture
def start() -> Any:
    """Start a tower of the test's own, as a context manager."""
    return running
