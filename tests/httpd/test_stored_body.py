"""A body that many answers share: what is sent of it, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from idkmesh.httpd import BoundedHTTPServer
from idkmesh.httpd.outbox import Outbox
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Access, Probe, Route, RouteApplication, RouteTable
from idkmesh.httpd.stored_body import StoredBody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.httpd.application import Application
    from idkmesh.httpd.request import Request

PIECES = (b"", b"a" * 3_000_000, b"b" * 100_000, b"c")
WHOLE = b"".join(PIECES)


class Everybody:
    """A guard that lets everybody pass."""

    def refuse_host(self, _request: Request) -> None:
        pass

    refuse_origin = refuse_token = refuse_host


class Server(BoundedHTTPServer):
    """Serves one body on the front, and in a worker."""

    def __init__(self) -> None:
        self.response = Response(200, (("X-More", "1"),), stored=StoredBody(PIECES))
        super().__init__(("127.0.0.1", 0), None)

    def _make_application(self) -> Application:
        common: dict[str, Any] = {"access": Access.PAGE, "summary": "", "answers": ()}
        probe = Probe(path="/front", verdict=lambda: self.response, operation="f", **common)
        route = Route(method="GET", path="/worker", endpoint=lambda *_: self.response, operation="w", **common)
        return RouteApplication(RouteTable((route,), (probe,)), Everybody())


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def asked(server: Server, method: str, path: str) -> tuple[dict[str, str], bytes]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)) as client:
        client.request(method, path)
        answer = client.getresponse()
        assert answer.status == 200
        return dict(answer.getheaders()), answer.read()


@pytest.mark.parametrize("path", ["/front", "/worker"])
def test_a_body_that_is_shared(server: Server, path: str) -> None:
    """HS-7.8: each answer has all of it, whoever writes it; that to HEAD has the same fields and none of it."""
    for _ in range(3):
        fields, content = asked(server, "GET", path)
        assert (fields["Content-Length"], fields["X-More"], content) == (str(len(WHOLE)), "1", WHOLE)
    fields, content = asked(server, "HEAD", path)
    assert (fields["Content-Length"], fields["X-More"], content) == (str(len(WHOLE)), "1", b"")


def test_readers_keep_what_they_were_promised(server: Server) -> None:
    """HS-7.8: who has begun to read gets the body that there was, after another one has taken its place."""
    with socket.create_connection(("127.0.0.1", server.server_port), 60) as slow:
        slow.sendall(b"GET /front HTTP/1.1\r\nHost: h\r\n\r\n")
        received = slow.recv(1000)
        server.response = Response(200, stored=StoredBody([b"other"]))
        assert asked(server, "GET", "/front")[1] == b"other"
        while data := slow.recv(1 << 20):
            received += data
    assert received.partition(b"\r\n\r\n")[2] == WHOLE


def test_nothing_is_left_of_it() -> None:
    """HS-7.8: the file is gone with the last who holds it or has still to send it."""
    before = descriptors()
    stored, outbox = StoredBody(PIECES), Outbox()
    assert descriptors() == before + 1
    stored.add_to(outbox)
    assert (outbox.remaining, outbox.memory, stored.read()) == (len(WHOLE), 0, WHOLE)
    del stored
    assert descriptors() == before + 1
    outbox.close()
    assert descriptors() == before


def test_a_full_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.8: what cannot be stored is told to who wants to store it, and leaves no descriptor."""

    def full(**_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = descriptors()
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match="No space"):
        StoredBody(PIECES)
    assert descriptors() == before


def test_no_descriptor_for_a_reader(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.8, HS-7.5: then his answer is cut, which is seen by its length, and nobody else's."""

    def none_left(_: int) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", none_left)
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            asked(server, "GET", "/front")
    assert asked(server, "GET", "/front")[1] == WHOLE
