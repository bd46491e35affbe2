"""Connections that another thread ends."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from idkmesh.etcd.tether import Tether

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    near.settimeout(30)
    far.settimeout(30)
    with near, far:
        yield near, far


@pytest.mark.parametrize("early", [False, True])
def test_what_is_cut_ends(pair: Pair, early: bool) -> None:
    """AR-6.3: whoever reads from a connection that is cut reads its end, also where it was made after that."""
    near, far = pair
    tether = Tether()
    if early:
        tether.cut()
    tether.hold(near)
    if not early:
        tether.cut()
    assert near.recv(1) == b""
    assert far.recv(1) == b""
    tether.cut()
    tether.close()


def test_the_newest_connection_is_held(pair: Pair) -> None:
    """AR-6.3: a request has one connection at a time; one that it has left is nobody's to end."""
    tether = Tether()
    other, its = socket.socketpair()
    with other, its:
        tether.hold(other)
        tether.hold(pair[0])
        tether.cut()
        assert pair[0].recv(1) == b""
        its.sendall(b"x")
        assert other.recv(1) == b"x"
    tether.close()


def test_what_is_let_go_goes_on(pair: Pair) -> None:
    """AR-6.3: what was brought in time is its user's, and no descriptor of it is left behind."""
    near, far = pair
    tether = Tether()
    tether.hold(near)
    tether.close()
    tether.cut()
    far.sendall(b"x")
    assert near.recv(1) == b"x"
    near.close()
    assert far.recv(1) == b""
    tether.close()
