"""Wakes a thread that waits for a socket."""

from __future__ import annotations

import contextlib
import socket
import threading


class Ring:
    """A bell with a descriptor. Any thread may ring; one waits, and silences it before it looks what there is to do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rung = False
        self._heard, self._pulled = socket.socketpair()
        self._heard.settimeout(0)

    def fileno(self) -> int:
        """Return the descriptor that can be read once it has rung."""
        return self._heard.fileno()

    def ring(self) -> None:
        """Wake the thread."""
        with self._lock:
            if not self._rung and self._pulled.fileno() >= 0:
                self._rung = True
                self._pulled.send(b".")

    def silence(self) -> None:
        """Let it ring again."""
        with self._lock:
            self._rung = False
            with contextlib.suppress(BlockingIOError):
                self._heard.recv(1)

    def close(self) -> None:
        """Close both ends. It may be rung afterwards, without effect."""
        with self._lock:
            self._heard.close()
            self._pulled.close()
