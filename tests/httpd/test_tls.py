"""TLS on a socket that never blocks."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl

from idkmesh.httpd import tls
from tests.functional.tls_support import client_context, server_context


def test_handshake_in_steps() -> None:
    """HS-11.1: each step says what it waits for; done is said once it is."""
    near, far = socket.socketpair()
    near.settimeout(0)
    far.settimeout(0)
    server = tls.wrap(server_context(), near)
    client = client_context().wrap_socket(far, do_handshake_on_connect=False)
    assert tls.handshake(server) == "read"
    outcomes: list[str | None] = []
    while "done" not in outcomes:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        outcomes.append(tls.handshake(server))
    assert set(outcomes) <= {"read", "done"}
    tls.notify_close(server)
    client.close()
    server.close()


def test_handshake_that_fails() -> None:
    """HS-11.2: plain text, and a peer that has gone, end the handshake."""
    for data in (b"GET / HTTP/1.1\r\n\r\n", b""):
        near, far = socket.socketpair()
        near.settimeout(0)
        server = tls.wrap(server_context(), near)
        far.sendall(data)
        far.close()
        assert tls.handshake(server) is None
        tls.notify_close(server)
        server.close()


def test_handshake_that_waits_for_room() -> None:
    """HS-11.1: a handshake whose bytes do not fit waits for room."""
    near, far = socket.socketpair()
    near.settimeout(0)
    far.settimeout(0)
    server = tls.wrap(server_context(), near)
    client = client_context().wrap_socket(far, do_handshake_on_connect=False)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    raw = socket.socket(fileno=os.dup(server.fileno()))
    raw.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        while True:
            raw.send(b"x" * 65_536)
    assert tls.handshake(server) == "write"
    for sock in (raw, client, server):
        sock.close()


def test_close_notify_of_a_closed_socket() -> None:
    """HS-11.3: saying good-bye to nobody is no error."""
    near, far = socket.socketpair()
    near.settimeout(0)
    server = tls.wrap(server_context(), near)
    server.close()
    far.close()
    tls.notify_close(server)
    assert server.fileno() == -1
