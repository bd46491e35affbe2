"""Has the connection of a request that is waited for no longer end, and with it the thread that reads from it."""

from __future__ import annotations

import contextlib
import socket
import threading


class Tether:
    """Holds one connection, which another thread may end. Any thread may use it.

    It holds a descriptor of its own: the connection's may be closed by then, and be that of something else.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: socket.socket | None = None
        self._cut = False

    def hold(self, connection: socket.socket) -> None:
        """Hold this one, which ends at once where :meth:`cut` was said before. Raises ``OSError``."""
        held = connection.dup()
        with self._lock:
            before, self._held = self._held, held
            if self._cut:
                _end(held)
        if before is not None:
            before.close()

    def cut(self) -> None:
        """End the connection, now or once there is one: whoever reads from it reads its end."""
        with self._lock:
            self._cut = True
            if self._held is not None:
                _end(self._held)

    def close(self) -> None:
        """Hold none any more; it goes on."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None:
            held.close()


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)
