"""The common budget of buffered bytes (HS-6.3): charged as bytes arrive, by the front and by workers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from idkmesh.httpd.connection import FREE_BYTES

if TYPE_CHECKING:
    from idkmesh.httpd.connection import Connection


class ByteBudget:
    """Counts what connections hold beyond the 8 KiB that each may always hold.

    Thread-safe; a connection's own account is touched by its owner alone.
    """

    __slots__ = ("_limit", "_lock", "used")

    def __init__(self, limit: int) -> None:
        """Allow `limit` bytes in all."""
        self._limit = limit
        self._lock = threading.Lock()
        self.used = 0

    def hold(self, connection: Connection, size: int) -> bool:
        """Put `size` bytes in all on the connection's account; False, and nothing changed, where there is no room.

        Holding less always succeeds.
        """
        charge = size - FREE_BYTES if size > FREE_BYTES else 0
        more = charge - connection.charged
        if not more:
            return True
        with self._lock:
            if more > 0 and self.used + more > self._limit:
                return False
            self.used += more
        connection.charged = charge
        return True
