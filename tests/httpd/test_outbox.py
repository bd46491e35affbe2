"""Bytes and files that wait for a socket."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd.outbox import PIECE, Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.settimeout(0)
    far.settimeout(30)
    yield near, far
    near.close()
    far.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def pour(outbox: Outbox, near: socket.socket, far: socket.socket) -> bytes:
    """Send until nothing is left, and return what arrived."""
    received = b""
    far.settimeout(0)
    while outbox.remaining:
        outbox.send(near)
        while True:
            try:
                received += far.recv(1 << 20)
            except BlockingIOError:
                break
    return received


def open_file(content: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return os.dup(file.fileno())


def test_order_of_bytes_files_and_spool(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-7.4, HS-7.5: whatever waits leaves in the order in which it came, whole, and its descriptors are closed."""
    before = descriptors()
    outbox = Outbox()
    outbox.add(b"")
    outbox.add(b"first")
    outbox.add_file(open_file(b"0123456789" * 50_000), 10, 400_000)
    outbox.spool(b"s" * 300_000)
    outbox.spool(b"t" * 10)
    outbox.add(memoryview(b"memory"))
    outbox.spool(b"another spool")
    expected = b"first" + (b"0123456789" * 50_000)[10:400_010] + b"s" * 300_000 + b"t" * 10 + b"memoryanother spool"
    assert (outbox.memory, outbox.remaining) == (11, len(expected))
    assert pour(outbox, *pair) == expected
    assert (outbox.memory, outbox.remaining, outbox.spooled) == (0, 0, 0)
    outbox.close()
    assert descriptors() == before


def test_a_full_socket_is_no_error(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-7.4: sending never blocks; what does not fit stays, and a limit ends a turn early."""
    near, far = pair
    outbox = Outbox()
    outbox.add(b"x" * 4_000_000)
    sent = outbox.send(near)
    assert 0 < sent < 4_000_000
    assert outbox.send(near) == 0
    assert outbox.remaining == outbox.memory == 4_000_000 - sent
    far.recv(1 << 20)
    assert 0 < outbox.send(near, limit=1) <= PIECE
    outbox.close()


def test_spool_that_is_filled_while_it_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-7.5: the file grows behind while it is sent in front; once caught up with, a new one begins."""
    before = descriptors()
    outbox = Outbox()
    received = b""
    for number in range(5):
        outbox.spool(bytes((number,)) * 1000)
        assert outbox.spooled in {1000, 2000}
        received += pour(outbox, *pair)
        outbox.spool(b"")
    assert received == b"".join(bytes((number,)) * 1000 for number in range(5))
    outbox.send(pair[0])
    outbox.close()
    assert descriptors() == before


def test_file_that_became_shorter(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-7.4: the end of a file before the end of its range is an error: the length is promised."""
    outbox = Outbox()
    outbox.add_file(open_file(b"short"), 0, 100)
    with pytest.raises(ConnectionAbortedError, match="shorter"):
        outbox.send(pair[0])
    outbox.close()


@pytest.mark.parametrize("count", [0, -5])
def test_empty_range_closes_its_file(count: int) -> None:
    """HS-7.4: a range of nothing is nothing, and keeps no descriptor."""
    before = descriptors()
    outbox = Outbox()
    outbox.add_file(open_file(b"content"), 0, count)
    assert outbox.remaining == 0
    assert descriptors() == before


def test_close_drops_everything() -> None:
    """HS-4.7: closing gives every descriptor back; a second close is no fault."""
    before = descriptors()
    outbox = Outbox()
    outbox.add(b"bytes")
    outbox.add_file(open_file(b"content"), 0, 7)
    outbox.spool(b"spooled")
    assert descriptors() > before
    outbox.close()
    outbox.close()
    assert descriptors() == before
    assert (outbox.memory, outbox.remaining) == (0, 0)


def test_peer_that_has_left(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-4.7: sending to who has left raises, and closing still works."""
    near, far = pair
    far.close()
    outbox = Outbox()
    outbox.add(b"bytes")
    with pytest.raises(OSError, match=r"."):
        outbox.send(near)
    outbox.close()


def test_without_sendfile(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.4: where the system has no sendfile the file is read and sent."""
    monkeypatch.delattr(os, "sendfile")
    outbox = Outbox()
    outbox.add_file(open_file(b"abc" * 1000), 3, 2000)
    assert pour(outbox, *pair) == (b"abc" * 1000)[3:2003]


def test_spool_is_written_in_parts(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.5: a disk that takes a part at a time gets the rest afterwards."""
    real = os.pwrite

    def partial(descriptor: int, data: Any, offset: int) -> int:
        return real(descriptor, memoryview(data)[:7], offset)

    monkeypatch.setattr(os, "pwrite", partial)
    outbox = Outbox()
    outbox.spool(b"0123456789" * 5)
    assert pour(outbox, *pair) == b"0123456789" * 5


def test_reduce_moves_to_the_file_or_copies() -> None:
    """HS-7.5: much is moved to a file, in order with what follows; little is copied, so that its source is let go."""
    sender, receiver = socket.socketpair()
    with sender, receiver:
        large = bytes(range(256)) * 400
        outbox = Outbox()
        outbox.add(memoryview(large)[-10:])
        outbox.reduce(100)
        assert (outbox.memory, outbox.spooled, outbox.remaining) == (10, 0, 10)
        assert all(segment.obj is not large for segment in outbox._segments if isinstance(segment, memoryview))
        with tempfile.TemporaryFile() as file:
            file.write(b"in a file")
            file.flush()
            outbox.add_file(os.dup(file.fileno()), 0, 9)
        outbox.add(memoryview(large)[:1000])
        outbox.reduce(100)
        assert (outbox.memory, outbox.remaining) == (0, 1019)
        outbox.send(sender)
        assert receiver.recv(4096) == large[-10:] + b"in a file" + large[:1000]
        assert outbox.remaining == 0


def test_reduce_that_fails_keeps_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.5: where the temporary directory takes no more, nothing is lost before the response is given up."""

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    outbox = Outbox()
    outbox.add(b"x" * 1000)
    with pytest.raises(OSError, match="no space"):
        outbox.reduce(100)
    outbox.close()
    assert outbox.remaining == 0


def test_end_of_a_large_piece_is_copied(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-7.5, HS-6.3: what a client has not taken of a large piece does not keep all of it in memory."""
    near, _ = pair
    with contextlib.suppress(BlockingIOError):
        while True:
            near.send(b"x" * 1024)
    outbox = Outbox()
    outbox.add(memoryview(b"y" * 1_000_000)[999_000:])
    assert outbox.send(near) == 0
    (segment,) = outbox._segments
    assert isinstance(segment, memoryview)
    assert memoryview(segment.obj).nbytes == len(segment) == outbox.memory == 1000
