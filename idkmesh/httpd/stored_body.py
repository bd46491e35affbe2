"""A body that many answers share: it is written once, and each answer is sent from there."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from idkmesh.httpd.outbox import Outbox


class StoredBody:
    """Bytes in an anonymous file, which is gone with the last who holds it or still sends it. Any thread may use it.

    A reader costs neither memory nor a copy, however slowly he takes it, but one descriptor as any response that waits
    for its client. ``pieces`` are written one after the other: a whole of many megabytes would be held twice.

    :raises OSError: the temporary directory does not take them.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.length = 0
        self._descriptor = -1
        with tempfile.TemporaryFile(buffering=0) as file:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    written = file.write(view) or 0
                    self.length += written
                    view = view[written:]
            self._descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        """Close the file; who still sends it has a descriptor of his own."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def add_to(self, outbox: Outbox) -> None:
        """Have all of it sent.

        :raises OSError: no descriptor is left.
        """
        outbox.add_file(os.dup(self._descriptor), 0, self.length)

    def read(self) -> bytes:
        """Return all of it."""
        parts = []
        at = 0
        while at < self.length:
            part = os.pread(self._descriptor, self.length - at, at)
            if not part:  # nobody else has the file: the disk has failed
                raise OSError("a stored body is shorter than it was")
            parts.append(part)
            at += len(part)
        return b"".join(parts)
