"""Log lines without a thread of their own (RA-9.1)."""

from __future__ import annotations

import logging
import os
import select
import threading
from typing import Final

from idkmesh.console import fitted
from idkmesh.service_runtime import LineLog

_ROOM: Final = select.POLLOUT


class PromptLog(LineLog):
    """Lines go to ``descriptor`` (None for nowhere) at once, whichever thread has one, or are dropped and counted.

    Nobody waits: a line is shorter than PIPE_BUF, so that a pipe which takes something takes all of it (POSIX, write).
    What was dropped is said as soon as there is a reader again.
    """

    __slots__ = ("_descriptor", "_lost", "_turn")

    def __init__(self, descriptor: int | None) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._turn = threading.Lock()
        self._lost = 0

    @property
    def lost(self) -> int:
        """How many lines were dropped since the last one that was written."""
        return self._lost

    def write(self, line: str, level: int = logging.INFO) -> None:
        """Write ``line``, or count it; those below INFO are not for this log."""
        if level < logging.INFO or self._descriptor is None:
            return
        with self._turn:
            if self._lost and self._sent(f"{self._lost} log lines lost: nobody has read them", self._descriptor):
                self._lost = 0
            if self._lost or not self._sent(line, self._descriptor):
                self._lost += 1

    def _sent(self, line: str, descriptor: int) -> bool:
        poll = select.poll()
        poll.register(descriptor, _ROOM)
        try:
            if not any(events & _ROOM for _, events in poll.poll(0)):
                return False
            data = fitted(line).encode("ascii", "backslashreplace")  # which makes ten bytes of a character
            os.write(descriptor, data[: select.PIPE_BUF - 1] + b"\n")
        except OSError:  # its reader has gone, or the disk is full
            return False
        return True
