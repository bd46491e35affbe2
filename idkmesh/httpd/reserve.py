"""Descriptors that a listener holds so that it can accept while the process has none free (HS-4.9).

Laws
    * A number is free only between its release and the accept that follows at once. Its way back is dup2, which puts
      what holds it in the place of the connection: nobody else can take the number then.
    * In that one moment another thread may be quicker. It keeps the number, the next one is tried, and the reserve
      takes another one as soon as one is free.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

NONE_FREE: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""What a descriptor given up helps against: a full table of the process's, and of the machine's."""


class Reserve:
    """Holds ``size`` descriptors, and none on Windows, where a socket is none. On the front's thread."""

    def __init__(self, size: int) -> None:
        """Hold nothing yet."""
        self._size = 0 if os.name == "nt" else size
        self._anchor = -1
        self._held: list[int] = []
        self.lent: set[int] = set()
        """Those of connections that were accepted with its help."""

    def fill(self) -> None:
        """Take what is missing, as far as there is something to take."""
        try:
            if self._size and self._anchor < 0:
                self._anchor = os.open(os.devnull, os.O_RDONLY)
            while len(self._held) + len(self.lent) < self._size:
                self._held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return  # none is free: the next turn tries again

    def accept(self, accept: Callable[[], tuple[int, Any]]) -> tuple[int, Any] | None:
        """Give one up and accept a connection; None where none is left. Raises what else `accept` raises."""
        while self._held:
            os.close(self._held.pop())
            try:
                descriptor, address = accept()
            except OSError as error:
                if error.errno in NONE_FREE:
                    continue
                self.fill()
                raise
            self.lent.add(descriptor)
            return descriptor, address
        return None

    def socket(self, family: int, kind: int, proto: int, descriptor: int) -> socket.socket:
        """Return a connection's socket, which gives its descriptor back when it is closed."""
        return _Lent(self, family, kind, proto, descriptor)

    def take_back(self, descriptor: int) -> None:
        """Close a connection and hold its descriptor, as if the two were one."""
        self.lent.discard(descriptor)
        if self._anchor < 0:
            os.close(descriptor)
            return
        os.dup2(self._anchor, descriptor, inheritable=False)
        self._held.append(descriptor)

    def close(self) -> None:
        """Give all up that is held; who comes back later is closed."""
        self._size = 0
        held, self._held = self._held, []
        anchor, self._anchor = self._anchor, -1
        for descriptor in (*held, *([anchor] if anchor >= 0 else [])):
            os.close(descriptor)


class _Lent(socket.socket):
    """A connection whose descriptor is the reserve's."""

    def __init__(self, reserve: Reserve, family: int, kind: int, proto: int, descriptor: int) -> None:
        super().__init__(family, kind, proto, fileno=descriptor)
        self._reserve = reserve

    def close(self) -> None:
        """Give the descriptor back."""
        descriptor = self.detach()
        if descriptor >= 0:
            self._reserve.take_back(descriptor)
