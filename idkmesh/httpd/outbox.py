"""Bytes and file ranges that wait for a socket, in order, sent without blocking.

The worker that produced a response and the front that finishes it use the same object, one after the other.
"""

from __future__ import annotations

import collections
import io
import os
import socket
import ssl
import sys
import tempfile
from typing import Final

try:
    import fcntl
    import termios
except ImportError:  # Windows
    _TIOCOUTQ = None
else:
    _TIOCOUTQ = getattr(termios, "TIOCOUTQ", None)

PIECE = 256 * 1024
"""Bytes offered to the socket at once: what a default send buffer can take, and a bounded copy for TLS."""
TLS_PIECE = 16 * 1024
"""One record. A TLS socket takes all or nothing: of a larger piece nothing would count as taken until all of it is."""
DONT_WAIT: Final = getattr(socket, "MSG_DONTWAIT", 0)
"""Makes one call on a socket return at once, whatever somebody who shares the descriptor has made of its mode."""
MEMORY_BYTES: Final = 32 * 1024
"""The most that one response holds in memory before it goes to the file."""

WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError)
"""What a call on a socket that must not block raises where it would, with TLS or without."""


def queued_bytes(sock: socket.socket) -> int:
    """Return how many bytes the socket holds that its peer has not acknowledged; 0 where the system does not tell."""
    if _TIOCOUTQ is None:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(sock, _TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, ValueError):  # ValueError: it is closed
        return 0


def most_at_once(sock: socket.socket) -> int:
    """Return how many bytes to offer a socket at a time."""
    return TLS_PIECE if isinstance(sock, ssl.SSLSocket) else PIECE


def send_some(sock: socket.socket, data: bytes | memoryview, flags: int) -> int:
    """Send what a socket takes now, without waiting; return how many bytes that is.

    :raises OSError: the client has left.
    """
    sent = 0
    try:
        if not isinstance(sock, ssl.SSLSocket):
            return sock.send(data, flags)
        view = memoryview(data)
        while sent < len(view):
            sent += sock.send(view[sent : sent + TLS_PIECE], flags)
    except WOULD_BLOCK:
        pass
    return sent


def no_wait(sock: socket.socket) -> int:
    """Return the flags for reads and writes. TLS takes none; its descriptor is made blocking for nobody."""
    return 0 if isinstance(sock, ssl.SSLSocket) else DONT_WAIT


class _FileRange:
    """A part of an open file; owns the descriptor."""

    __slots__ = ("descriptor", "offset", "remaining")

    def __init__(self, descriptor: int, offset: int, remaining: int) -> None:
        self.descriptor = descriptor
        self.offset = offset
        self.remaining = remaining


class Outbox:
    """What is still to be sent on one connection.

    `memory` is the bytes held in memory, `remaining` all that is to be sent, files included.
    """

    __slots__ = ("_segments", "_spool", "memory", "remaining")

    def __init__(self) -> None:
        """Start empty."""
        self._segments: collections.deque[memoryview | _FileRange] = collections.deque()
        self._spool: _FileRange | None = None
        self.memory = 0
        self.remaining = 0

    def add(self, data: bytes | memoryview) -> None:
        """Append bytes, which the caller does not change afterwards."""
        size = len(data)
        if size:
            self._segments.append(memoryview(data))
            self._spool = None
            self.memory += size
            self.remaining += size

    def add_file(self, descriptor: int, offset: int, count: int) -> None:
        """Append `count` bytes of the file at `offset`; the descriptor is closed when they are sent or dropped."""
        if count <= 0:
            os.close(descriptor)
            return
        self._segments.append(_FileRange(descriptor, offset, count))
        self._spool = None
        self.remaining += count

    def spool(self, data: bytes | memoryview) -> None:
        """Append bytes by way of an anonymous file, so that they cost no memory.

        :raises OSError: the temporary directory does not take them.
        """
        spool = self._spool
        if spool is None:
            with tempfile.TemporaryFile() as file:
                spool = _FileRange(os.dup(file.fileno()), 0, 0)
            self._segments.append(spool)
            self._spool = spool
        view = memoryview(data)
        while view:
            # The range's end is where the next byte goes, wherever its beginning has got to.
            written = os.pwrite(spool.descriptor, view, spool.offset + spool.remaining)
            spool.remaining += written
            self.remaining += written
            view = view[written:]

    def reduce(self, most: int) -> None:
        """Keep at most `most` bytes in memory: all of them move to the file where there are more.

        Fewer are copied: a view of the last bytes of a large response would keep all of it.

        :raises OSError: the temporary directory does not take them; what is not moved stays where it is.
        """
        segments, self._segments = self._segments, collections.deque()
        spill = self.memory > most
        filling, self._spool = self._spool, None
        self.memory = self.remaining = 0
        try:
            while segments:
                segment = segments[0]
                if isinstance(segment, _FileRange):
                    self._segments.append(segment)
                    self.remaining += segment.remaining
                    self._spool = None
                elif spill:
                    self.spool(segment)
                else:
                    self.add(segment if len(segment) == memoryview(segment.obj).nbytes else bytes(segment))
                segments.popleft()
        finally:
            self._segments.extend(segments)
            if self._segments and self._segments[-1] is filling:
                self._spool = filling

    @property
    def spooled(self) -> int:
        """Size of the anonymous file which :meth:`spool` is filling, what was sent from it included."""
        return self._spool.offset + self._spool.remaining if self._spool is not None else 0

    def send(self, sock: socket.socket, limit: int = 0, *, exposed: bool = False) -> int:
        """Send until the socket takes no more, or, with a `limit`, until that many bytes went; return how many.

        :param exposed: other code has had the descriptor, which may block.
        :raises OSError: the client has left.
        """
        sent = 0
        try:
            while self._segments and not (limit and sent >= limit):
                segment = self._segments[0]
                if isinstance(segment, memoryview):
                    count = self._send_bytes(sock, segment)
                else:
                    count = self._send_file(sock, segment, exposed=exposed)
                sent += count
                self.remaining -= count
        except WOULD_BLOCK:
            self._let_go()
        return sent

    def _let_go(self) -> None:
        """Copy the end of a segment that has been sent in part: a view of it would keep all of it."""
        first = self._segments[0]
        if isinstance(first, memoryview) and len(first) <= MEMORY_BYTES and len(first) < memoryview(first.obj).nbytes:
            self._segments[0] = memoryview(bytes(first))

    def _send_bytes(self, sock: socket.socket, view: memoryview) -> int:
        count = sock.send(view[: most_at_once(sock)], no_wait(sock))
        self.memory -= count
        if count == len(view):
            self._segments.popleft()
        else:
            self._segments[0] = view[count:]
        return count

    def _send_file(self, sock: socket.socket, part: _FileRange, *, exposed: bool) -> int:
        if part.remaining == 0:  # a spool that has been caught up with
            self._drop_first(part)
            return 0
        want = min(part.remaining, most_at_once(sock))
        # sendfile(2) takes no flag: it would wait where somebody has made the descriptor block.
        if exposed or isinstance(sock, ssl.SSLSocket) or not hasattr(os, "sendfile"):
            count = sock.send(os.pread(part.descriptor, want, part.offset), no_wait(sock))
        else:
            count = os.sendfile(sock.fileno(), part.descriptor, part.offset, want)
        if count == 0:
            # The file has become shorter than it was. The length is promised already: only a cut tells the truth.
            msg = "a file became shorter while it was being sent"
            raise ConnectionAbortedError(msg)
        part.offset += count
        part.remaining -= count
        if part.remaining == 0:
            self._drop_first(part)
        return count

    def _drop_first(self, part: _FileRange) -> None:
        self._segments.popleft()
        os.close(part.descriptor)
        if part is self._spool:
            self._spool = None

    def close(self) -> None:
        """Drop what is left and close the files."""
        for segment in self._segments:
            if isinstance(segment, _FileRange):
                os.close(segment.descriptor)
        self._segments.clear()
        self._spool = None
        self.memory = self.remaining = 0


def is_plain_file(source: object) -> bool:
    """Say whether the bytes that `read` gives are those of the descriptor. Compressed files have descriptors too."""
    if isinstance(source, tempfile._TemporaryFileWrapper):  # noqa: SLF001 (what NamedTemporaryFile gives)
        source = source.file
    if type(source) in (io.BufferedReader, io.BufferedRandom):
        source = source.raw  # type: ignore[attr-defined]
    return type(source) is io.FileIO and not source.closed
