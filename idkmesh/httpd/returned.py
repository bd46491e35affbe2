"""The connections that workers have given back, until the front takes them.

Giving back is: append, then wake. Taking is the front's alone, until it ends; what comes later is closed by its worker.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from idkmesh.httpd.connection import State
from idkmesh.httpd.exchange import close

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.answers import Answers
    from idkmesh.httpd.connection import Connection
    from idkmesh.httpd.core import Core
    from idkmesh.httpd.keeper import Keeper


class Returned:
    """A queue with many givers, the workers, and one taker. ``wake`` ends the front's wait."""

    __slots__ = ("_answers", "_closed", "_core", "_keeper", "_waiting", "_wake")

    def __init__(self, core: Core, keeper: Keeper, answers: Answers, wake: Callable[[], None]) -> None:
        """Begin empty."""
        self._core = core
        self._keeper = keeper
        self._answers = answers
        self._wake = wake
        self._waiting: collections.deque[Connection] = collections.deque()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def give_back(self, connection: Connection) -> None:
        """Worker: return a connection; one that is closed needs no hurry unless somebody waits for it."""
        self._waiting.append(connection)
        if self._closed:  # the drain has abandoned it, and nobody takes it back
            self._discard()
            return
        if connection.state is not State.CLOSED or self._core.attentive:
            self._wake()

    def take(self, now: float) -> None:
        """Take what is there: write on, end, or count no more."""
        while self._waiting:
            connection = self._waiting.popleft()
            connection.output = None
            self._keeper.held[State.HANDLING].pop(connection, None)
            if connection.state is State.CLOSED:
                self._core.log_access(connection, None if connection.cut else connection.progress_at)
                self._core.budget.hold(connection, 0)
                self._core.connections -= 1
            elif connection.outbox is None:
                self._answers.written(connection, now)
            else:
                self._answers.wait_to_write(connection, now)

    def close(self) -> None:
        """Take no more: there is no loop any more."""
        self._closed = True
        self._discard()

    def _discard(self) -> None:
        """Close what comes back. By whichever thread: popping is atomic."""
        while True:
            try:
                connection = self._waiting.popleft()
            except IndexError:
                return
            if connection.outbox is not None:
                connection.outbox.close()
                connection.cut = True
            self._core.budget.hold(connection, 0)
            self._core.connections -= 1
            if connection.state is not State.CLOSED:
                close(connection)
