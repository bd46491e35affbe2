"""What a handler writes, on its way to the client.

Two threads meet here while a handler runs: its worker, which appends, and the front, which lets output leave that has
waited too long (HS-7.3). A lock of its own orders them; both send without blocking. When the handler has ended the
worker alone finishes the response (HS-7.4). Threads of the handler's own may come too, and outlive it.

While a child process may have the descriptor (`shared`), what the handler writes leaves at once, in the order in which
both write; the front lets it alone.

The first bytes are the head of an HTTP response. It is held back until it is complete, and `handler_head` finishes
it; after a 101 response everything leaves at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import ssl
import stat
import threading
import time
from typing import TYPE_CHECKING, NoReturn, Protocol

from idkmesh.httpd.connection import MINIMUM_WRITE_RATE
from idkmesh.httpd.handler_head import SWITCHING_PROTOCOLS, finish_head
from idkmesh.httpd.outbox import MEMORY_BYTES, WOULD_BLOCK, Outbox, is_plain_file, send_some

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from idkmesh.httpd.budget import ByteBudget
    from idkmesh.httpd.connection import Connection

FLUSH_BYTES = 64 * 1024
FLUSH_SECONDS = 0.02
SPOOL_BYTES = 64 * 1024 * 1024
"""The most that one response puts into an anonymous file (HS-7.5)."""
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
        "_duplicate",
        "_ended",
        "_head_done",
        "_lock",
        "_outbox",
        "_retired",
        "_since",
        "_size",
        "_timeout",
        "broken",
        "fault",
        "forked",
        "left",
        "shared",
        "status",
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
        self._retired = False
        self._duplicate = -1
        """The descriptor that the handler has been given: it may close it, and harms nobody."""
        self.forked = False
        """Whether this is a forked child's: what it writes goes to the descriptor, and the response is the parent's."""
        self.left = False
        """Whether a part of the response may be on its way: then no other response can take its place."""
        self.broken = False
        """Whether the client has left or was given up."""
        self.fault: OSError | None = None
        """Why a response could not be kept: the temporary directory takes no more."""
        self.shared = False
        """Whether a child process may have the descriptor: what is written leaves at once."""
        self.status = 0

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
                if self.forked and not self.broken:
                    return self._write_through(data)
                self._refuse()
            if not self._chunks:
                self._since = time.monotonic()
            self._chunks.append(data)
            self._size += size
            if self._size < FLUSH_BYTES and self.status != SWITCHING_PROTOCOLS and not self.shared:
                return size
            self._push()
        self._relieve()
        return size

    def _write_through(self, data: bytes) -> int:
        connection = self._connection
        view = memoryview(data)
        began = 0.0
        while view:
            sent = send_some(connection.sock, view, connection.flags)
            connection.written += sent
            view = view[sent:]
            if not sent:
                if not began:
                    began = self._await_reader()
                if self._given_up(began):
                    self.broken = True
                    raise BrokenPipeError(errno.EPIPE, "the client takes too little of the response")
                _wait_writable(connection.sock, 0.1)
        return len(data)

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
        self._size = len(data)
        self._since = time.monotonic()
        self.status = status

    def write_head(self, data: bytes, status: int) -> None:
        """Begin a response with a whole head that says ``Connection: close`` itself."""
        with self._lock:
            self._head_done = True
            self.status = status
        self.write(data)

    def upgraded(self) -> bool:
        """Say whether the handler has answered 101: from then on the connection is live."""
        with self._lock:
            if not self._head_done:
                self._stage(final=False)
            return self.status == SWITCHING_PROTOCOLS

    def receive(self, size: int, flags: int) -> bytes:
        """Read from the client of a live connection, without blocking; what was written before leaves first.

        Under the lock: a TLS object cannot be read and written at once.
        """
        connection = self._connection
        with self._lock:
            self._push()
            self._check()
            try:
                return connection.sock.recv(size, flags | connection.flags)
            except WOULD_BLOCK:
                raise
            except OSError:
                self._break()
                raise

    def flush(self, timeout: float | None = None) -> None:
        """Let everything written leave, an unfinished head too, and wait until the socket has taken it.

        :param timeout: seconds to wait while the client takes nothing; `request_timeout` where None.
        :raises BrokenPipeError: the client has left.
        :raises TimeoutError: the client takes nothing; what it has not taken still goes out after the handler.
        """
        if self.forked:
            return
        with self._lock:
            self._check()
            self._stage(final=True)
            self._push()
        while self._waits():
            if not _wait_writable(self._connection.sock, self._timeout if timeout is None else timeout):
                raise TimeoutError("timed out")
            with self._lock:
                self._push()
        self._check()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[socket.socket]:
        """Lend the handler the connection's socket, under the lock.

        :raises BrokenPipeError: the client has left, or the handler has returned and another thread of it has not.
        """
        with self._lock:
            if (self.broken or self._ended or self._retired) and not self.forked:
                self._refuse()
            yield self._connection.sock

    def share(self) -> int:
        """Return a duplicate of the descriptor, the same for each call; it blocks until :meth:`retire`.

        Over TLS it does not: nobody else can read or write there, and the server's own calls would block with it.

        :raises BrokenPipeError: as :meth:`in_use`.
        """
        with self.in_use() as sock:
            if not self._has_duplicate():
                self._duplicate = os.dup(sock.fileno())
            self._expose()
            if not isinstance(sock, ssl.SSLSocket):
                os.set_blocking(self._duplicate, True)
            return self._duplicate

    def note_fork(self) -> None:
        """In the parent: the child has the descriptor, and may have answered."""
        with self._lock:
            if not self._ended:
                self._expose()

    def _expose(self) -> None:
        self.left = self.shared = self._connection.exposed = True

    def _has_duplicate(self) -> bool:
        """Say whether the duplicate is still one: a handler may have closed it, and its number be given out again."""
        if self._duplicate < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._duplicate), os.fstat(self._connection.sock.fileno()))
        except OSError:
            return False

    def retire(self) -> None:
        """End the handler's use of the descriptor."""
        with self._lock:
            self._retired = True
            if self.shared and not self.forked:  # a child that returns is not to change what its parent has
                self.shared = False
                with contextlib.suppress(OSError):
                    os.set_blocking(self._connection.sock.fileno(), False)
                if self._has_duplicate():
                    os.close(self._duplicate)

    def _waits(self) -> bool:
        outbox = self._outbox  # the front may take it away between two looks
        return outbox is not None and outbox.remaining > 0

    def disown(self) -> None:
        """In a forked child: forget what the parent sends, and a lock that a thread of the parent may have held.

        What the child writes goes to the descriptor at once, as it does with the standard library.
        """
        self._lock = threading.Lock()
        self.forked = self._ended = self._connection.exposed = True
        self._chunks = []
        self._outbox = None

    def flush_if_old(self, now: float) -> None:
        """Front: let output leave that is older than 20 ms, or that is stuck behind a slow client."""
        # A worker that holds the lock is sending just now.
        if (self._chunks or self._outbox) and not self.shared and self._lock.acquire(blocking=False):
            try:
                if (self._chunks and now - self._since >= FLUSH_SECONDS) or (self._outbox and self._outbox.remaining):
                    self._push(FLUSH_TURN_BYTES)
            finally:
                self._lock.release()

    def send_file(self, source: Readable, most: int | None = None) -> int | None:
        """Take the rest of an open regular file, or `most` bytes of it; None where `source` is no such file.

        The descriptor is duplicated, so the caller may close the file at once. Returns the bytes taken.
        """
        if self.forked or not is_plain_file(source):
            return None
        descriptor = source.fileno()
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
            return None  # the kernel's own files, such as those of /proc, do not tell their size
        offset = source.tell()
        count = max(0, status.st_size - offset)
        if most is not None:
            count = min(count, most)
        with self._lock:
            self._check()
            self._stage(final=True)
            self._backlog().add_file(os.dup(descriptor), offset, count)
        if self.shared:
            self._relieve()
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
                return data if self._head_done else self._finish_head(data, final=True)[0]
            self._stage(final=True)
            return self._hand_out()

    def keep(self, rest: memoryview) -> Outbox | None:
        """Return `rest` as what is still to be sent, once the response has ended; None where it cannot be kept."""
        with self._lock:
            self._append(rest)
            return self._hand_out()

    def _hand_out(self) -> Outbox | None:
        self._reduce()
        outbox, self._outbox = self._outbox, None
        return outbox if outbox is not None and outbox.remaining else None

    def abandon(self) -> None:
        """Drop what is left; the descriptors of files are closed."""
        with self._lock:
            self._break()

    def _check(self) -> None:
        if self.broken or self._ended:
            self._refuse()

    def _refuse(self) -> NoReturn:
        ended = self._ended or (self._retired and not self.broken)
        reason = "the response has ended with its handler" if ended else "the client has left"
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
            data, held = self._finish_head(data, final=final)
            if held:
                self._chunks.append(held)
                self._size = len(held)
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

    def _finish_head(self, data: bytes, *, final: bool) -> tuple[bytes, bytes]:
        """Return what may leave, and the unfinished head that may not yet; note what is known of it by now."""
        head = finish_head(data, final=final, most=FLUSH_BYTES)
        self._head_done = head.done
        self.status = head.status or self.status
        return head.ready, head.held

    def _push(self, limit: int = 0) -> None:
        """Send what the socket takes now, or up to `limit` bytes of it. The lock is held."""
        self._stage(final=False)
        outbox = self._outbox
        if outbox is None or self.broken:
            return
        self.left = True
        try:
            sent = outbox.send(self._connection.sock, limit, exposed=self._connection.exposed)
        except OSError:
            self._break()
            return
        if sent:
            self._connection.written += sent
            self._connection.progress_at = time.monotonic()
        self._reduce()

    def _reduce(self) -> None:
        """Keep little in memory of what the client has not taken."""
        outbox = self._outbox
        if outbox is None or not outbox.memory:
            return
        try:
            outbox.reduce(MEMORY_BYTES)
        except OSError as error:
            self.fault = error
            self._break()
        else:
            self._hold(outbox.memory)

    def _break(self) -> None:
        self.broken = True
        self._chunks.clear()
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None

    def _relieve(self) -> None:
        """Hold the handler back while its response fills the file, until the client takes some of it (HS-7.5).

        While the descriptor is shared, until the client has taken all of it: a child would write past what waits.
        """
        began = 0.0
        while self._behind:
            began = began or self._await_reader()
            with self._lock:
                if self._ended:  # with the handler, of which this thread is another
                    return
                self._push()
                if self._given_up(began):
                    self._break()
                    break
            _wait_writable(self._connection.sock, 0.1)
        if self.broken:
            raise BrokenPipeError(errno.EPIPE, "the client takes too little of the response")

    @property
    def _behind(self) -> bool:
        return self._waits() if self.shared else self._spooled >= SPOOL_BYTES

    @property
    def _spooled(self) -> int:
        outbox = self._outbox  # the front may take it away between two looks
        return outbox.spooled if outbox is not None else 0

    def _await_reader(self) -> float:
        now = time.monotonic()
        self._connection.await_reader(now)
        return now

    def _given_up(self, began: float) -> bool:
        """Say whether a client that is waited for since `began` takes nothing, or too little (HS-4.4, HS-7.5)."""
        connection = self._connection
        now = time.monotonic()
        connection.look(now)
        stalled = now - connection.progress_at > self._timeout
        return stalled or (now - began > self._timeout and connection.write_rate(now) < MINIMUM_WRITE_RATE)


def _wait_writable(sock: socket.socket, timeout: float) -> bool:
    """Wait up to `timeout` seconds for room; `select.select` could not watch descriptors above 1,023."""
    poll = select.poll()
    try:
        poll.register(sock, select.POLLOUT)
    except ValueError:  # closed: the handler has returned, and a thread of it has not
        return True
    return bool(poll.poll(timeout * 1000))
