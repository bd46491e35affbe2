"""What :mod:`http.client` reads a response from: a connection under a total deadline, up to a bound of bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class BoundedStream(io.RawIOBase):
    """The bytes of a connection. It does not own the connection.

    At most ``most`` bytes are read; the next read raises what ``enough`` makes. ``wait`` returns the seconds that are
    left, or raises where there are none: before each step, so that progress extends nothing.
    """

    def __init__(
        self, connection: socket.socket, most: int, *, wait: Callable[[], float], enough: Callable[[], Exception]
    ) -> None:
        self._connection = connection
        self._left = most
        self._wait = wait
        self._enough = enough

    def readable(self) -> bool:
        """Say that it is read from."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # what a BufferedReader gives
        """Read once: what has come, at most what the bound leaves."""
        if not self._left:
            raise self._enough()
        self._connection.settimeout(self._wait())
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count

    def send(self, data: bytes) -> None:
        """Send it all."""
        rest = memoryview(data)
        while rest:
            self._connection.settimeout(self._wait())
            rest = rest[self._connection.send(rest) :]


class ResponseReader(io.BufferedReader):
    """A stream as an ``HTTPResponse`` takes it: for a socket, of which it wants ``makefile`` and nothing else."""

    def makefile(self, _mode: str) -> ResponseReader:
        """Return itself: what follows an informational response may be in its buffer by then."""
        return self

    def close(self) -> None:
        """Stay open: each response would close it, and the connection is closed by whoever opened it."""
