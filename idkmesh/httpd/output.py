"""What a handler writes, on its way to the client.

Two threads meet here while a handler runs: its worker, which appends, and the front, which lets output leave that has
waited too long (HS-7.3). A lock of its own orders them; both send without blocking. When the handler has ended the
worker alone finishes the response (HS-7.4).

The first bytes are the head of an HTTP response. It is held back until it is complete, then gains ``Connection:
close`` (HS-7.1): nothing else about it changes.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import threading
import time
from typing import TYPE_CHECKING, NoReturn, Protocol

from idkmesh.httpd.connection import MINIMUM_WRITE_RATE
from idkmesh.httpd.outbox import Outbox

if TYPE_CHECKING:
    import socket

    from idkmesh.httpd.budget import ByteBudget
    from idkmesh.httpd.connection import Connection

FLUSH_BYTES = 64 * 1024
FLUSH_SECONDS = 0.02
SPOOL_BYTES = 64 * 1024 * 1024
"""The most that one response puts into an anonymous file (HS-7.5)."""
MEMORY_BYTES = 256 * 1024
"""The most that one response holds in memory before it goes to the file."""
SLICE_BYTES = 16 * 1024 * 1024
"""What is taken at a time of a single write that is larger than the file may become."""
FLUSH_TURN_BYTES = 1024 * 1024
"""The most that the front sends of one running response before the others have their turn."""


class Readable(Protocol):
    """An open file: what `shutil.copyfileobj` takes as its source."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def tell(self) -> int:
        """Return where the next read begins."""


class Output:
    """The response of one exchange. Every method but :meth:`flush_if_old` belongs to the worker."""

    __slots__ = (
        "_budget",
        "_chunks",
        "_connection",
        "_ended",
        "_head_done",
        "_lock",
        "_outbox",
        "_since",
        "_size",
        "_timeout",
        "broken",
        "fault",
        "left",
        "status",
        "total",
    )

    def __init__(self, connection: Connection, budget: ByteBudget, timeout: float) -> None:
        """Write to `connection`; `timeout` is the seconds without progress after which the client is given up."""
        self._connection = connection
        self._budget = budget
        self._timeout = timeout
        self._lock = threading.Lock()
        self._chunks: list[bytes] = []
        self._size = 0
        self._since = 0.0
        self._outbox: Outbox | None = None
        self._head_done = False
        self._ended = False
        self.left = False
        """Whether a part of the response may be on its way: then no other response can take its place."""
        self.broken = False
        """Whether the client has left or was given up."""
        self.fault: OSError | None = None
        """Why a response could not be kept: the temporary directory takes no more."""
        self.status = 0
        self.total = 0

    def write(self, data: bytes) -> int:
        """Append to the response; the bytes are the output's own from here on.

        :raises BrokenPipeError: the client has left.
        """
        size = len(data)
        if size > SPOOL_BYTES:
            for start in range(0, size, SLICE_BYTES):
                self.write(data[start : start + SLICE_BYTES])
            return size
        with self._lock:
            if self.broken or self._ended:
                self._refuse()
            if not self._chunks:
                self._since = time.monotonic()
            self._chunks.append(data)
            self._size += size
            self.total += size
            if self._size < FLUSH_BYTES:
                return size
            self._push()
        self._relieve()
        return size

    def write_whole(self, data: bytes, status: int) -> None:
        """Write a response that says ``Connection: close`` itself, and nothing else."""
        with self._lock:
            self._begin_whole(data, status)

    def replace(self, data: bytes, status: int) -> bool:
        """Make `data` the whole response in place of what was written; False where that may have left already."""
        with self._lock:
            if self.left or self.broken:
                return False
            outbox, self._outbox = self._outbox, None
            if outbox is not None:
                outbox.close()
            self._begin_whole(data, status)
            return True

    def _begin_whole(self, data: bytes, status: int) -> None:
        self._head_done = True
        self._chunks = [data]
        self._size = self.total = len(data)
        self._since = time.monotonic()
        self.status = status

    def write_head(self, data: bytes, status: int) -> None:
        """Begin a response with a whole head that says ``Connection: close`` itself."""
        with self._lock:
            self._head_done = True
            self.status = status
        self.write(data)

    @property
    def waiting(self) -> bool:
        """Whether output waits for the client."""
        outbox = self._outbox  # the front may take it away between two looks
        return outbox is not None and outbox.remaining > 0

    def first_status(self) -> int:
        """Return the status that the handler has begun to write, interim ones included; 0 before it has."""
        if self.status:
            return self.status
        first = self._chunks[0] if self._chunks else b""
        return int(first[9:12]) if first.startswith(b"HTTP/1.") and first[9:12].isdigit() else 0

    def flush(self) -> None:
        """Let what was written leave now.

        :raises BrokenPipeError: the client has left.
        """
        with self._lock:
            if not self._ended:
                self._push()
            if self.broken or self._ended:
                self._refuse()

    def flush_if_old(self, now: float) -> None:
        """Front: let output leave that is older than 20 ms, or that is stuck behind a slow client."""
        # A worker that holds the lock is sending just now.
        if (self._chunks or self._outbox) and self._lock.acquire(blocking=False):
            try:
                if (self._chunks and now - self._since >= FLUSH_SECONDS) or (self._outbox and self._outbox.remaining):
                    self._push(FLUSH_TURN_BYTES)
            finally:
                self._lock.release()

    def send_file(self, source: Readable, most: int | None = None) -> int | None:
        """Take the rest of an open regular file, or `most` bytes of it; None where `source` is no such file.

        The descriptor is duplicated, so the caller may close the file at once. Returns the bytes taken.
        """
        try:
            descriptor = source.fileno()
            offset = source.tell()
            status = os.fstat(descriptor)
        except (AttributeError, OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        count = max(0, status.st_size - offset)
        if most is not None:
            count = min(count, most)
        with self._lock:
            if self.broken or self._ended:
                self._refuse()
            self._stage(final=True)
            self._backlog().add_file(os.dup(descriptor), offset, count)
            self.total += count
        return count

    def settle(self) -> bytes | Outbox | None:
        """End the response: return what is still to be sent, or None where nothing is."""
        with self._lock:
            self._ended = True
            if self.broken:
                return None
            if self._outbox is None:
                data = b"".join(self._chunks) if len(self._chunks) != 1 else self._chunks[0]
                self._chunks.clear()
                return data if self._head_done else self._finish_head(data)
            self._stage(final=True)
            return self._hand_out()

    def keep(self, rest: memoryview) -> Outbox | None:
        """Return `rest` as what is still to be sent, once the response has ended; None where it cannot be kept."""
        with self._lock:
            self._append(rest)
            return self._hand_out()

    def _hand_out(self) -> Outbox | None:
        outbox, self._outbox = self._outbox, None
        return outbox if outbox is not None and outbox.remaining else None

    def abandon(self) -> None:
        """Drop what is left; the descriptors of files are closed."""
        with self._lock:
            self._break()

    def _refuse(self) -> NoReturn:
        reason = "the response has ended with its handler" if self._ended else "the client has left"
        raise BrokenPipeError(errno.EPIPE, reason)

    def _backlog(self) -> Outbox:
        if self._outbox is None:
            self._outbox = Outbox()
        return self._outbox

    def _stage(self, *, final: bool) -> None:
        """Move what was written to the outbox, its head complete; an unfinished head stays unless this is the end."""
        if not self._chunks:
            return
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if not self._head_done:
            interim = _interim_end(data)
            if not final and len(data) < FLUSH_BYTES and data.find(b"\r\n\r\n", interim) < 0:
                self._chunks = [data[interim:]] if interim < len(data) else []
                self._size = len(data) - interim
                data = data[:interim]
            else:
                data = self._finish_head(data)
        self._append(data)

    def _append(self, data: bytes | memoryview) -> None:
        """Keep bytes until the client takes them, in memory or in the file."""
        if not data:
            return
        outbox = self._backlog()
        size = outbox.memory + len(data)
        if not outbox.spooled and not (outbox.memory and size > MEMORY_BYTES) and self._hold(size):
            outbox.add(data)
            return
        try:
            outbox.spool(data)
        except OSError as error:
            self.fault = error
            self._break()

    def _hold(self, size: int) -> bool:
        return self._budget.hold(self._connection, self._connection.kept + size)

    def _finish_head(self, data: bytes) -> bytes:
        """Give the head its ``Connection: close``; interim responses before it pass unchanged."""
        self._head_done = True
        start = _interim_end(data)
        end = data.find(b"\r\n\r\n", start)
        if end < 0 or data[start : start + 7] != b"HTTP/1.":
            return data  # no response of HTTP/1: the handler wrote something of its own
        try:
            self.status = int(data[start + 9 : start + 12])
        except ValueError:
            return data
        return data[:start] + _closing(data[start : end + 2], self.status) + data[end + 2 :]

    def _push(self, limit: int = 0) -> None:
        """Send what the socket takes now, or up to `limit` bytes of it. The lock is held."""
        self._stage(final=False)
        outbox = self._outbox
        if outbox is None or self.broken:
            return
        self.left = True
        try:
            sent = outbox.send(self._connection.sock, limit)
        except OSError:
            self._break()
            return
        if sent:
            self._connection.written += sent
            self._connection.progress_at = time.monotonic()
            self._hold(outbox.memory)

    def _break(self) -> None:
        self.broken = True
        self._chunks.clear()
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None

    def _relieve(self) -> None:
        """Hold the handler back while its response fills the file, until the client takes some of it (HS-7.5)."""
        connection = self._connection
        began = 0.0
        while self._spooled >= SPOOL_BYTES:
            now = time.monotonic()
            if not began:
                began = now
                connection.await_reader(now)
            with self._lock:
                self._push()
                connection.look(now)
                stalled = now - connection.progress_at > self._timeout
                if stalled or (now - began > self._timeout and connection.write_rate(now) < MINIMUM_WRITE_RATE):
                    self._break()
                    break
            _wait_writable(connection.sock, 0.1)
        if self.broken:
            raise BrokenPipeError(errno.EPIPE, "the client takes too little of a large response")

    @property
    def _spooled(self) -> int:
        outbox = self._outbox  # the front may take it away between two looks
        return outbox.spooled if outbox is not None else 0


def _interim_end(data: bytes) -> int:
    """Return where the interim responses end that `data` begins with (RFC 9110 15.2; a 101 is final here)."""
    start = 0
    while data[start + 9 : start + 10] == b"1" and data[start : start + 7] == b"HTTP/1.":
        end = data.find(b"\r\n\r\n", start)
        if end < 0 or data[start + 9 : start + 12] == b"101":
            break
        start = end + 4
    return start


def _closing(head: bytes, status: int) -> bytes:
    """Return a response's head, whose last line ends in CRLF, with ``Connection: close`` in it."""
    lower = head.lower()
    at = lower.find(b"\r\nconnection:")
    if at < 0:
        return head + b"Connection: close\r\n"
    end = lower.find(b"\r\n", at + 2)
    value = lower[at + 13 : end].strip(b" \t")
    if value == b"close" or status == 101:  # noqa: PLR2004 (RFC 9110 15.2.2: the connection goes on, upgraded)
        return head
    return head[: at + 2] + b"Connection: close" + head[end:]


def _wait_writable(sock: socket.socket, timeout: float) -> None:
    """Wait up to `timeout` seconds for room; `select.select` could not watch descriptors above 1,023."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    poll.poll(timeout * 1000)
