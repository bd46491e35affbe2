"""The socket that a handler sees: it replays the request, then ends (HS-10.4).

Laws
    * It shares the connection's descriptor and never closes it.
    * What is sent through it joins the handler's output, in order with what is written to ``wfile``.
    * After a 101 response it goes on live, with the timeout that the handler set.
"""

from __future__ import annotations

import errno
import io
import os
import select
import socket
import ssl
import tempfile
from typing import TYPE_CHECKING, Any, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer, WriteableBuffer

    from idkmesh.httpd.exchange import Exchange
    from idkmesh.service_runtime import LineLog

SWITCHING_PROTOCOLS = 101

T = TypeVar("T")


class HandlerSocket(socket.socket):
    """``self.request`` of a handler. Blocking, as far as the handler can tell."""

    __slots__ = ("_exchange", "_log", "_replay", "_timeout")

    def __init__(self, exchange: Exchange, replay: bytes, log: LineLog) -> None:
        """Replay `replay` (head and body) to the handler of `exchange`."""
        sock = exchange.connection.sock
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.fileno())
        self._exchange: Exchange | None = exchange
        self._replay = io.BytesIO(replay)
        self._log = log
        self._timeout: float | None = None

    @property
    def exchange(self) -> Exchange:
        """The exchange this socket belongs to.

        :raises OSError: it is over.
        """
        if self._exchange is None:
            self._log.once("socket-kept", "a handler's socket was used after the handler had returned: it has ended")
            raise OSError(errno.EBADF, "this socket ended with its handler: one request a connection")
        return self._exchange

    def retire(self) -> None:
        """End the handler's use of the connection; the descriptor stays open."""
        self._exchange = None
        if socket.socket.fileno(self) >= 0:
            super().detach()

    # --- reading ---------------------------------------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read what is left of the request, then ``b""``; live bytes after a 101."""
        exchange = self.exchange
        if flags & socket.MSG_PEEK:
            at = self._replay.tell()
            data = self._replay.read(bufsize)
            self._replay.seek(at)
        else:
            data = self._replay.read(bufsize)
        if data or not bufsize or not _upgraded(exchange):
            return data
        exchange.output.flush()
        return self._live(select.POLLIN, lambda: exchange.connection.sock.recv(bufsize, flags))

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0, /) -> int:
        """Read into `buffer`, like :meth:`recv`."""
        view = memoryview(buffer).cast("B")
        data = self.recv(min(nbytes, len(view)) if nbytes else len(view), flags)
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        """Read like :meth:`recv`; the address is the peer's."""
        return self.recv(bufsize, flags), self.exchange.client_address

    # --- writing ---------------------------------------------------------------------------------------------------

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:  # noqa: ARG002 (the standard signature)
        """Append to the response; at once on the wire after a 101."""
        exchange = self.exchange
        count = exchange.output.write(bytes(data))
        if _upgraded(exchange):
            self._flush()
        return count

    def sendall(self, data: ReadableBuffer, flags: int = 0, /) -> None:
        """Append to the response, like :meth:`send`."""
        self.send(data, flags)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:  # noqa: ANN401 (as inherited)
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

    def makefile(self, mode: str = "r", buffering: int | None = None, **text: Any) -> Any:  # type: ignore[override]  # noqa: ANN401
        """Return a file over the request (``"rb"``: a :class:`RequestReader`, unless the request asks to upgrade)."""
        if mode == "rb" and self.exchange.request.get("upgrade") is None:
            return RequestReader(self._replay.read(), self._log)
        return super().makefile(mode, buffering, **text)  # type: ignore[call-overload]

    def fileno(self) -> int:
        """Return the live descriptor, made blocking, once everything written so far has left.

        For programs that hand it to a child process. After this the response is the program's own.
        """
        exchange = self._exchange
        if exchange is None:
            return super().fileno()
        self._flush()
        exchange.output.left = True
        exchange.connection.sock.setblocking(True)
        return super().fileno()

    def settimeout(self, value: float | None, /) -> None:
        """Set the timeout of live reads and writes in seconds. The replayed request never waits."""
        self._timeout = value

    def gettimeout(self) -> float | None:
        """Return what :meth:`settimeout` set."""
        return self._timeout

    def setblocking(self, flag: bool, /) -> None:  # noqa: FBT001 (the standard signature)
        """Like ``settimeout(None)`` or ``settimeout(0)``."""
        self._timeout = None if flag else 0.0

    def getblocking(self) -> bool:
        """Say whether live reads wait."""
        return self._timeout != 0.0

    def shutdown(self, how: int, /) -> None:
        """Nothing: the response is half-closed when it is complete."""
        _ = self.exchange, how

    def close(self) -> None:
        """End the handler's use of the connection; the response still goes out."""
        self.retire()

    def detach(self) -> int:
        """Refuse: the connection belongs to the server.

        :raises OSError: always.
        """
        raise OSError(errno.EPERM, "a handler cannot take the connection over")

    def getpeername(self) -> Any:  # noqa: ANN401 (a family's own)
        """Return the peer's address, known since accept."""
        return self.exchange.client_address

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the TLS socket has)
        """Give what only a TLS socket has (`getpeercert`, `cipher`, `version`)."""
        if name.startswith("_"):
            raise AttributeError(name)
        sock = self.exchange.connection.sock
        if not isinstance(sock, ssl.SSLSocket):
            msg = f"a plain socket has no {name!r}"
            raise AttributeError(msg)
        return getattr(sock, name)

    def _flush(self) -> None:
        """Wait until everything written so far has left."""
        output = self.exchange.output
        output.flush()
        while output.waiting:
            self._wait(select.POLLOUT)
            output.flush()

    def _live(self, event: int, attempt: Callable[[], T]) -> T:
        """Repeat a non-blocking call until it succeeds or the handler's timeout has passed."""
        while True:
            try:
                return attempt()
            except (BlockingIOError, ssl.SSLWantReadError):
                self._wait(event)

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self.exchange.connection.sock, event)
        if not poll.poll(None if self._timeout is None else self._timeout * 1000):
            msg = "timed out"
            raise TimeoutError(msg)


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
        if size is not None and len(data) < size:
            self._log.once(
                "read-past-body",
                "a handler read past the end of its request's body: it gets what was declared and no more",
            )
        return data

    def fileno(self) -> int:
        """Return the descriptor of an anonymous file with the rest of the request, for a child process to read."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the reader)
            self._file.write(super().read())
            self._file.flush()
            os.lseek(self._file.fileno(), 0, os.SEEK_SET)
        return int(self._file.fileno())

    def close(self) -> None:
        """Close the reader and the anonymous file."""
        if self._file is not None:
            self._file.close()
        super().close()


def _upgraded(exchange: Exchange) -> bool:
    """Say whether the handler has answered 101: the first bytes it wrote decide."""
    return exchange.output.first_status() == SWITCHING_PROTOCOLS


