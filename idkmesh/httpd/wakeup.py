"""Ending the front's wait in `select` from another thread or a signal handler."""

from __future__ import annotations

import contextlib
import socket

_READ_BYTES = 64


class WakeUp:
    """A pair of sockets: a byte written to one makes the other readable. At most one byte is on its way."""

    __slots__ = ("_pending", "_sender", "receiver")

    def __init__(self) -> None:
        """Open the pair; watch `receiver` for reading."""
        self.receiver, self._sender = socket.socketpair()
        self.receiver.settimeout(0)
        self._sender.settimeout(0)
        self._pending = False

    def wake(self) -> None:
        """End the wait. What is to be seen must have been put in place before. Takes no lock."""
        if self._pending:
            return
        self._pending = True
        try:
            self._sender.send(b"\0")
        except OSError:
            return  # full of wake-ups already, or the front is gone

    def clear(self) -> None:
        """Take note. Read first, then clear the mark: the other way round a wake-up in between would be lost."""
        with contextlib.suppress(BlockingIOError):
            self.receiver.recv(_READ_BYTES)
        self._pending = False

    def close(self) -> None:
        """Close the pair."""
        self.receiver.close()
        self._sender.close()
