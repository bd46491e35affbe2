"""Descriptors that a listener holds for newcomers, on real sockets; what accept(2) says is put in its place."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd.reserve import Reserve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform == "win32":
    pytest.skip("a socket is no descriptor there", allow_module_level=True)


@pytest.fixture
def reserve() -> Iterator[Reserve]:
    made = Reserve(2)
    made.fill()
    yield made
    made.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(0)
        yield made


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def is_a_placeholder(descriptor: int) -> bool:
    return os.fstat(descriptor).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116  beside fstat


def stands_for_accept(*answers: Any) -> Callable[[], tuple[int, Any]]:
    left = list(answers)

    def accept() -> tuple[int, Any]:
        answer = left.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer, ("", 0)

    return accept


FULL = OSError(errno.EMFILE, "Too many open files")


def test_a_descriptor_goes_and_comes_back(reserve: Reserve, listener: socket.socket) -> None:
    """HS-4.9: a newcomer gets one; the end of its connection holds the same number again; the client sees an end."""
    with socket.create_connection(listener.getsockname(), 5) as client:
        lent = reserve.accept(listener._accept)  # type: ignore[attr-defined]
        assert lent is not None
        connection = reserve.socket(listener.family, listener.type, listener.proto, lent[0])
        assert reserve.lent == {lent[0]}
        connection.sendall(b"answer")
        connection.close()
        connection.close()
        assert client.recv(100) == b"answer"
        assert client.recv(100) == b""
    assert is_a_placeholder(lent[0])
    assert not os.get_inheritable(lent[0])
    assert reserve.lent == set()
    assert reserve.accept(stands_for_accept(FULL, 77)) == (77, ("", 0)), "both are there: the second helps"


def test_another_thread_was_quicker(reserve: Reserve) -> None:
    """HS-4.9: the next one is tried, None where all went; and the reserve takes others as soon as they are free."""
    assert reserve.accept(stands_for_accept(FULL, OSError(errno.ENFILE, ""))) is None
    assert reserve.accept(stands_for_accept()) is None
    reserve.fill()
    assert reserve.accept(stands_for_accept(77)) == (77, ("", 0))


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ECONNABORTED, errno.ENOBUFS, errno.EINVAL])
def test_what_else_accept_says_costs_nothing(reserve: Reserve, number: int) -> None:
    """HS-4.9: nobody waits, the newcomer has left, or the machine lacks something else: what was given up is held."""
    with pytest.raises(OSError, match=os.strerror(number)):
        reserve.accept(stands_for_accept(OSError(number, os.strerror(number))))
    assert reserve.accept(stands_for_accept(FULL, 77)) == (77, ("", 0))


def test_none_is_free_to_fill_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-4.9: a reserve that cannot be had is had later, and until then is empty."""

    def full(*_: object) -> int:
        raise FULL

    reserve = Reserve(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        reserve.fill()
        assert reserve.accept(stands_for_accept()) is None
    reserve.fill()
    assert reserve.accept(stands_for_accept(77)) == (77, ("", 0))
    reserve.close()


def test_nothing_is_held_where_nothing_is_wanted() -> None:
    """HS-4.9: the listeners of a service itself hold none."""
    reserve = Reserve(0)
    reserve.fill()
    assert reserve.accept(stands_for_accept()) is None
    reserve.close()


def test_who_comes_back_to_a_closed_one_is_closed(listener: socket.socket) -> None:
    """HS-4.9: no descriptor is left."""
    reserve = Reserve(1)
    reserve.fill()
    with socket.create_connection(listener.getsockname(), 5):
        lent = reserve.accept(listener._accept)  # type: ignore[attr-defined]
        assert lent is not None
        reserve.close()
        reserve.fill()
        reserve.take_back(lent[0])
        assert not is_open(lent[0])
