"""Changes on their way to who takes them: in order, outside of every lock, and not too many (RT-10.2, RT-10.3)."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from idkmesh.topology.changes import omitted_change

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.changes import Change

MOST_CHANGES: Final = 100
"""Changes that are told within :data:`WINDOW_SECONDS`; an event queue holds ten times as many (EV-3.1)."""

WINDOW_SECONDS: Final = 10.0


def undisturbed(line: Callable[[str, int], None]) -> Callable[[str, int], None]:
    """Return what writes a line to a log: one that cannot be written ends no thread, and fails no selection."""

    def write(text: str, level: int) -> None:
        with contextlib.suppress(Exception):
            line(text, level)

    return write


class Meter:
    """Says which changes are told. Pure in ``now``, monotonic seconds; touched under the owner's lock."""

    __slots__ = ("_began", "_omitted", "_told")

    def __init__(self) -> None:
        self._began = float("-inf")
        self._told = 0
        self._omitted = 0

    @property
    def due_at(self) -> float | None:
        """When what was omitted is told, None where nothing was."""
        return self._began + WINDOW_SECONDS if self._omitted else None

    def let_through(self, change: Change, now: float) -> list[Change]:
        """Return what is told because of a change: usually that."""
        said = self.over(now)
        if now >= self._began + WINDOW_SECONDS:
            self._began, self._told = now, 0
        if self._told >= MOST_CHANGES:
            self._omitted += 1
            return said
        self._told += 1
        return [*said, change]

    def over(self, now: float) -> list[Change]:
        """Return what is to be said at ``now`` of those that were omitted."""
        if not self._omitted or now < self._began + WINDOW_SECONDS:
            return []
        omitted, self._omitted = self._omitted, 0
        return [omitted_change(omitted, WINDOW_SECONDS)]

    def rest(self) -> list[Change]:
        """Return the same for who ends before it is due."""
        omitted, self._omitted = self._omitted, 0
        return [omitted_change(omitted, WINDOW_SECONDS)] if omitted else []


class Teller:
    """Gives changes away in the order in which they were put, each once, to one thread at a time.

    Who finds another thread at it leaves its own to that one: nobody waits, and a taker may call back. ``takes`` must
    not wait; what it raises is its own fault, and is given to ``fault``.
    """

    def __init__(self, takes: Callable[[Change], None], fault: Callable[[Exception], None]) -> None:
        self._takes = takes
        self._fault = fault
        self._waiting: deque[Change] = deque()
        self._at_it = threading.Lock()

    def put(self, change: Change) -> None:
        """Add one, under the lock of whoever knows their order."""
        self._waiting.append(change)

    def tell(self) -> None:
        """Give away what waits, outside of every lock."""
        while self._waiting and self._at_it.acquire(blocking=False):
            try:
                while self._waiting:
                    self._one(self._waiting.popleft())
            finally:
                self._at_it.release()

    def _one(self, change: Change) -> None:
        try:
            self._takes(change)
        except Exception as error:  # noqa: BLE001  a fault of who takes changes is not the topology's
            self._fault(error)
