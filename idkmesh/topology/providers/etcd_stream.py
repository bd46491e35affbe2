"""The connection of a watch to one member of etcd: opened in a thread that can be left, then read without waiting."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final

from idkmesh.etcd.gateway import EtcdError, in_time
from idkmesh.topology.model import Cause
from idkmesh.topology.providers.etcd_wire import PROGRESS, WatchReader, WireError, create, head

if TYPE_CHECKING:
    from idkmesh.etcd.gateway import Endpoint, Members
    from idkmesh.topology.providers.etcd_wire import WatchMessage

BEAT_SECONDS: Final = 0.5
"""How often the stream is asked whether it goes on."""

SILENT_SECONDS: Final = 2.0
"""After a question that no message has followed, when it has ended: three more were not answered either."""

READ_BYTES: Final = 256 * 1024
"""What is read at a time. Whoever reads looks at its end and its questions in between, however much comes."""

LATE_BYTES: Final = 1024 * 1024
"""Read without a message after it should have been heard of, when it has ended: what had come by then waited in no more
than this, and who sends on and says nothing is silent too."""

_WAITS: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class WatchStream:
    """A watch on its own connection. One thread uses it."""

    def __init__(self, connection: socket.socket, now: float) -> None:
        connection.settimeout(0)
        self._connection = connection
        self._reader = WatchReader()
        self._unsent = bytearray()
        self._beat_at = now + BEAT_SECONDS
        self._asked_at: float | None = None
        """Of the first question that no message has followed."""
        self._came = 0
        """Bytes of the newest reading. More may have come where there were any."""
        self._late = 0
        """Bytes that were read without a message since one was due."""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._connection.fileno()

    def ask(self, request: bytes) -> None:
        """Send as much as can be sent, and the rest at the next beat. Raises :class:`WireError`."""
        self._unsent += request
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except _WAITS:
            return
        except OSError:
            raise WireError(Cause.UNREACHABLE) from None

    def receive(self) -> list[WatchMessage]:
        """Return some of what has come. Raises :class:`WireError`."""
        self._came = 0
        try:
            data = self._connection.recv(READ_BYTES)
        except _WAITS:
            return []
        except OSError:
            raise WireError(Cause.UNREACHABLE) from None
        if not data:
            raise WireError(Cause.UNREACHABLE)
        self._came = len(data)
        messages = self._reader.feed(data)
        if messages:
            self._asked_at, self._late = None, 0
        return messages

    def keep(self, now: float) -> float:
        """Ask whether it goes on, when that is due. Returns the instant at which something is due next.

        Raises :class:`WireError` where it is silent: that is judged where nothing is left to be read that may have come
        in time, and from a question on, so that no time counts in which this program was busy and asked nothing. Called
        after :meth:`receive`.
        """
        if self._asked_at is not None and now - self._asked_at >= SILENT_SECONDS:
            self._late += self._came
            if not self._came or self._late > LATE_BYTES:
                raise WireError(Cause.SILENT)
        if now >= self._beat_at:
            self._beat_at = now + BEAT_SECONDS
            self._asked_at = now if self._asked_at is None else self._asked_at
            self.ask(PROGRESS if len(self._unsent) < len(PROGRESS) else b"")
        if self._came:
            return now
        return self._beat_at if self._asked_at is None else min(self._beat_at, self._asked_at + SILENT_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def open_stream(members: Members, endpoint: Endpoint, prefix: str, revision: int, seconds: float) -> WatchStream:
    """Return a stream that has asked for changes from a revision on. Raises ``EtcdError`` and :class:`WireError`."""
    connection = in_time(members, endpoint, lambda _: _connected(endpoint, seconds), seconds, left=_drop)
    stream = WatchStream(connection, time.monotonic())
    try:
        stream.ask(head(str(endpoint).partition("://")[2]) + create(prefix, revision))
    except WireError:
        stream.close()
        raise
    return stream


def _connected(endpoint: Endpoint, seconds: float) -> socket.socket:
    try:
        connection = socket.create_connection((endpoint.host, endpoint.port), timeout=seconds)
    except TimeoutError:
        raise EtcdError("timeout", silent=True) from None
    except OSError as error:
        raise EtcdError(f"no connection: {error.strerror or type(error).__name__}") from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if endpoint.protocol == "http":
        return connection
    import certifi  # noqa: PLC0415  requests brings it: lists and watches trust the same authorities

    try:
        context = ssl.create_default_context(cafile=certifi.where())
        return context.wrap_socket(connection, server_hostname=endpoint.host)
    except OSError as error:
        connection.close()
        raise EtcdError(f"no TLS: {type(error).__name__}") from None


def _drop(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.close()
