"""The socket that a handler sees: it replays the request, then ends (HS-10.4).

Laws
    * It has no descriptor until it is asked for one, and then a duplicate of the connection's
      (:meth:`HandlerSocket.fileno`): a handler that closes it, or a file or socket that it made of it, harms nobody.
    * The duplicate blocks, for a child process that may have it, and no longer when the handler has ended.
    * What is sent through it joins the handler's output, in order with what is written to ``wfile``.
    * After a 101 response it goes on live, with the timeout that the handler set.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import select
import socket
import ssl
import tempfile
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from idkmesh.httpd import tls
from idkmesh.httpd.exchange import Lineage, current_exchange, input_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _typeshed import ReadableBuffer, WriteableBuffer

    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.output import Output
    from idkmesh.httpd.request_rules import Request
    from idkmesh.service_runtime import LineLog

T = TypeVar("T")

_remove_expect = re.compile(rb"\r\nexpect:[^\r\n]*+(?=\r\n)", re.IGNORECASE).sub


_TLS_FACTS = frozenset(
    {
        "cipher",
        "compression",
        "context",
        "get_channel_binding",
        "getpeercert",
        "selected_alpn_protocol",
        "server_hostname",
        "server_side",
        "session",
        "session_reused",
        "shared_ciphers",
        "version",
    }
)


class HandlerSocket(socket.socket):
    """``self.request`` of a handler. Blocking, as far as the handler can tell."""

    __slots__ = ("_closed_by_handler", "_exchange", "_log", "_peer", "_replay", "_sock", "_timeout")

    def __init__(self, exchange: Exchange, log: LineLog) -> None:
        """Replay the request of `exchange` to its handler."""
        # In the place of `super().__init__`, which would open or take a descriptor.
        self._io_refs = 0
        self._closed = False
        self._sock = exchange.connection.sock
        self._exchange: Exchange | None = exchange
        self._replay: io.BytesIO | None = None
        self._log = log
        self._closed_by_handler = False
        self._peer = exchange.client_address
        self._timeout: float | None = None

    @property
    def exchange(self) -> Exchange:
        """The exchange this socket belongs to.

        :raises OSError: it is over.
        """
        if self._exchange is None:
            if not self._closed_by_handler:
                self._log.once("socket-kept", "a handler used its socket after it had returned: the socket has ended")
            raise OSError(errno.EBADF, "this socket ended with its handler: one request a connection")
        return self._exchange

    def retire(self) -> None:
        """End the handler's use of the connection, which goes on."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        output, connection = exchange.output, exchange.connection
        output.retire()
        if exchange.request.get("upgrade") is not None and output.upgraded() and not connection.unread:
            connection.unread = input_waits(connection.sock)

    def take_body(self) -> bytes:
        """Return the body for somebody who has the head already; nothing is left to replay."""
        self._replay = io.BytesIO()
        return self.exchange.body

    def _rest(self, exchange: Exchange) -> io.BytesIO:
        """Return what is left to replay: at first the whole request. Most handlers never read it here."""
        if self._replay is None:
            self._replay = io.BytesIO(head_of(exchange.request) + exchange.body)
        return self._replay

    # --- reading ---------------------------------------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read what is left of the request, then ``b""``; live bytes after a 101."""
        exchange = self.exchange
        rest = self._rest(exchange)
        at = rest.tell()
        data = rest.read(bufsize)
        if flags & socket.MSG_PEEK:
            rest.seek(at)
        if data or not bufsize or not exchange.output.upgraded():
            return data
        connection = exchange.connection
        if connection.early:
            early, connection.early = connection.early, b""
            rest.write(early)
            rest.seek(-len(early), io.SEEK_CUR)
            return self.recv(bufsize, flags)
        return self._live(lambda: exchange.output.receive(bufsize, flags))

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0, /) -> int:
        """Read into `buffer`, like :meth:`recv`."""
        view = memoryview(buffer).cast("B")
        data = self.recv(min(nbytes, len(view)) if nbytes else len(view), flags)
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        """Read like :meth:`recv`; the address is the peer's."""
        return self.recv(bufsize, flags), self._peer

    def recvfrom_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0, /) -> tuple[int, Any]:
        """Read like :meth:`recv_into`; the address is the peer's."""
        return self.recv_into(buffer, nbytes, flags), self._peer

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> tuple[bytes, list[Any], int, Any]:  # noqa: ARG002 (standard)
        """Read like :meth:`recv`; no ancillary data ever comes."""
        return self.recv(bufsize, flags), [], 0, self._peer

    def recvmsg_into(
        self,
        buffers: Iterable[WriteableBuffer],
        ancbufsize: int = 0,  # noqa: ARG002 (the standard signature)
        flags: int = 0,
        /,
    ) -> tuple[int, list[Any], int, Any]:
        """Read into the first of `buffers` that has room, like :meth:`recv_into`."""
        for buffer in buffers:
            if memoryview(buffer).nbytes:
                return self.recv_into(buffer, 0, flags), [], 0, self._peer
        return 0, [], 0, self._peer

    # --- writing ---------------------------------------------------------------------------------------------------

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:  # noqa: ARG002 (the standard signature)
        """Append to the response; at once on the wire after a 101."""
        return self.exchange.output.write(bytes(memoryview(data)))

    def sendall(self, data: ReadableBuffer, flags: int = 0, /) -> None:
        """Append to the response, like :meth:`send`."""
        self.send(data, flags)

    def sendmsg(self, buffers: Iterable[ReadableBuffer], *_: Any) -> int:
        """Append all of `buffers`, like :meth:`send`."""
        return self.send(b"".join(bytes(memoryview(data)) for data in buffers))

    def sendto(self, data: ReadableBuffer, *_: Any) -> int:
        """Append to the response, like :meth:`send`: a stream goes to its peer alone."""
        return self.send(data)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a file: by its descriptor where it is a regular file, else by reading it."""
        if offset:
            file.seek(offset)
        taken = self.exchange.output.send_file(file, count)
        if taken is not None:
            return taken
        data = file.read() if count is None else file.read(count)
        self.sendall(data)
        return len(data)

    # --- the rest of a socket --------------------------------------------------------------------------------------

    def makefile(self, mode: str = "r", buffering: int | None = None, **text: Any) -> Any:
        """Return a file over the request (``"rb"``: a :class:`RequestReader`, unless the request asks to upgrade)."""
        exchange = self.exchange
        if mode == "rb" and exchange.request.get("upgrade") is None:
            return RequestReader(self._rest(exchange).read(), self._log)
        return super().makefile(mode, buffering, **text)  # type: ignore[call-overload]

    def fileno(self) -> int:
        """Return a duplicate of the live descriptor, made blocking, once everything written so far has left.

        For programs that hand it to a child process, or wait for it. After this the response is the program's own.
        """
        exchange = self._exchange
        if exchange is None:
            return -1
        exchange.output.flush(self._timeout)
        return exchange.output.share()

    def settimeout(self, value: float | None, /) -> None:
        """Set the timeout of live reads and writes in seconds. The replayed request never waits."""
        self._timeout = value

    def gettimeout(self) -> float | None:
        """Return what :meth:`settimeout` set."""
        return self._timeout

    @property
    def timeout(self) -> float | None:
        """What :meth:`settimeout` set."""
        return self._timeout

    def setblocking(self, flag: bool, /) -> None:  # noqa: FBT001 (the standard signature)
        """Like ``settimeout(None)`` or ``settimeout(0)``."""
        self._timeout = None if flag else 0.0

    def getblocking(self) -> bool:
        """Say whether live reads wait."""
        return self._timeout != 0.0

    def shutdown(self, how: int, /) -> None:
        """Nothing: the response is half-closed when it is complete. After a 101, what `shutdown` does."""
        exchange = self.exchange
        if not exchange.output.upgraded():
            return
        exchange.output.flush(self._timeout)
        with exchange.output.in_use() as sock:
            if isinstance(sock, ssl.SSLSocket) and how != socket.SHUT_RD:
                tls.notify_close(sock)
            socket.socket.shutdown(sock, how)  # an SSLSocket's own would end its reading too

    def close(self) -> None:
        """End the handler's use of the connection; the response still goes out."""
        if self._exchange is not None:
            self.retire()
            self._closed_by_handler = True

    def detach(self) -> NoReturn:
        """Refuse: the connection belongs to the server.

        :raises OSError: always.
        """
        raise OSError(errno.EPERM, "a handler cannot take the connection over")

    def dup(self) -> NoReturn:
        """Refuse, like :meth:`detach`."""
        self.detach()

    @property
    def family(self) -> Any:
        """The connection's."""
        return self._sock.family

    @property
    def type(self) -> Any:
        """The connection's."""
        return self._sock.type

    @property
    def proto(self) -> int:
        """The connection's."""
        return self._sock.proto

    def getsockname(self) -> Any:
        """Return the server's own address on this connection."""
        return self._while_running().getsockname()

    def getsockopt(self, *arguments: Any) -> Any:
        """Return an option of the connection."""
        return self._while_running().getsockopt(*arguments)

    def setsockopt(self, *arguments: Any) -> None:
        """Set an option of the connection."""
        self._while_running().setsockopt(*arguments)

    def _while_running(self) -> socket.socket:
        """Return the connection's socket.

        :raises OSError: the handler has ended.
        """
        if self._exchange is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._sock

    def getpeername(self) -> Any:
        """Return the peer's address, known since accept."""
        return self._peer

    def __repr__(self) -> str:
        """Show the peer. The standard one asks for the descriptor, which is not for a log line to do."""
        return f"<{type(self).__name__} of {self._peer!r}{' (ended)' if self._exchange is None else ''}>"

    def __getattr__(self, name: str) -> Any:
        """Give what tells of a TLS connection. What would read or write past this object is not to be had."""
        if name not in _TLS_FACTS:
            raise AttributeError(f"a handler's socket has no {name!r}")
        sock = self.exchange.connection.sock
        if isinstance(sock, ssl.SSLSocket):
            return getattr(sock, name)
        raise AttributeError(f"a plain socket has no {name!r}")

    def _live(self, attempt: Callable[[], T]) -> T:
        """Repeat a non-blocking call until it succeeds or the handler's timeout has passed."""
        while True:
            try:
                return attempt()
            except (BlockingIOError, ssl.SSLWantReadError):
                poll = select.poll()
                poll.register(self.exchange.connection.sock, select.POLLIN)
                if not poll.poll(None if self._timeout is None else self._timeout * 1000):
                    raise TimeoutError("timed out") from None


class RequestReader(io.BytesIO):
    """``rfile`` of a handler: what is left of the request, all of it there already."""

    def __init__(self, data: bytes, log: LineLog) -> None:
        """Read `data`, then end."""
        super().__init__(data)
        self._log = log
        self._file: Any = None

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes. Less than asked for is the end of the declared body, never a wait."""
        data = super().read(size)
        if size is not None and len(data) < size and self._file is None:
            self._log.once(
                "read-past-body",
                "a handler read past the end of its request's body: it gets what was declared and no more",
            )
        return data

    def peek(self, size: int = 0, /) -> bytes:  # noqa: ARG002 (the signature of BufferedReader)
        """Return what is left without taking it, as `BufferedReader.peek` does."""
        return self.getvalue()[self.tell() :]

    def fileno(self) -> int:
        """Return the descriptor of an anonymous file with the rest of the request, for a child process to read."""
        if self._file is None:
            self._file = _anonymous_file()
            self._file.write(super().read())
            self._file.seek(0)
        return int(self._file.fileno())

    def close(self) -> None:
        """Close the reader and the anonymous file."""
        if self._file is not None:
            self._file.close()
        super().close()


def head_of(request: Request) -> bytes:
    """Return the head as a handler is to read it: without `Expect`, which the front has honoured."""
    return request.head if request.get("expect") is None else _remove_expect(b"", request.head)


def _anonymous_file() -> Any:
    """Return a file without a name, in memory where the system has such."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("request"), "w+b", buffering=0)  # noqa: PTH123 (closed with the reader)
    return tempfile.TemporaryFile(buffering=0)


def _output_in_hand() -> Output | None:
    """Return the output of the handler that this thread runs."""
    exchange = current_exchange.get()
    return exchange.output if exchange is not None else None


def _before_fork() -> None:
    """Let leave what a handler wrote before it forks, so that a child writes after it: ``wfile`` is unbuffered."""
    output = _output_in_hand()
    if output is not None:
        with contextlib.suppress(OSError):  # the handler learns of it when it writes
            output.flush()


def _after_fork_in_parent() -> None:
    output = _output_in_hand()
    if output is not None:
        output.note_fork()


def _after_fork_in_child() -> None:
    Lineage.forks += 1
    output = _output_in_hand()
    if output is not None:
        output.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
