"""A timing wheel: which connections' deadlines have passed. Pure; `now` is an argument.

Adding and removing cost the same for ten connections and for ten thousand, and nothing stays behind for a connection
that has left. The price is the granularity: a deadline is reported up to :data:`GRANULARITY` late, never early.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from idkmesh.httpd.connection import Connection

GRANULARITY = 0.05
"""Seconds. Half of the smallest timeout that can be set (0.1 s)."""


class Deadlines:
    """The connections that wait under a deadline, by the slot of the wheel in which it falls."""

    __slots__ = ("_looked_at", "_slots")

    def __init__(self) -> None:
        """Start empty."""
        self._slots: dict[int, dict[Connection, None]] = {}
        self._looked_at = 0

    def set(self, connection: Connection, deadline: float) -> None:
        """Give `connection` the deadline, in place of the one it had."""
        slot = math.ceil(deadline / GRANULARITY)
        if connection.deadline:
            if math.ceil(connection.deadline / GRANULARITY) == slot:
                connection.deadline = deadline
                return
            self.clear(connection)
        connection.deadline = deadline
        self._slots.setdefault(slot, {})[connection] = None

    def clear(self, connection: Connection) -> None:
        """Take the deadline away; nothing happens where there is none."""
        if not connection.deadline:
            return
        number = math.ceil(connection.deadline / GRANULARITY)
        connection.deadline = 0.0
        slot = self._slots[number]
        del slot[connection]
        if not slot:
            del self._slots[number]

    def due(self, now: float) -> list[Connection]:
        """Take out and return every connection whose deadline has passed."""
        current = math.floor(now / GRANULARITY)
        if current == self._looked_at or not self._slots:
            return []
        self._looked_at = current
        passed = [number for number in self._slots if number <= current]
        due: list[Connection] = []
        for number in sorted(passed):
            for connection in self._slots.pop(number):
                connection.deadline = 0.0
                due.append(connection)
        return due

    def wait(self, now: float) -> float | None:
        """Seconds until the next deadline can be due; None when there is none."""
        if not self._slots:
            return None
        return max(GRANULARITY / 10, min(self._slots) * GRANULARITY - now)
