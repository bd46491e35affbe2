"""When each probe runs next, and who may run now (HL-4.3, HL-4.4). Pure: the time and chance are arguments.

Laws of this module:

1. Jitter only makes a run earlier, and by a little at least: its next result is there before one that lives
   ``interval_ms`` + ``timeout_ms``, the least that HL-3.3 allows, has expired, also where the machine is a little late.
2. A run is due by when the one before it was due, not by when that began: small delays do not add up.
3. After a long delay the rhythm begins anew. Nothing is made up for, so two runs never follow close upon each other.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

JITTER: Final = 0.1
"""How much of an interval a run may be earlier, so that what began together does not stay together (HL-4.3)."""

LEAST_EARLY: Final = 0.02
"""How much of an interval a run is earlier at least. Threads wake up late, and a run that times out ends after its
deadline: without it such a run would find the result before it expired, and tell of two changes or of one too many."""

FIRST_SPREAD_SECONDS: Final = 1.0
"""The longest time over which first runs are spread (HL-4.3)."""

FIRST_STEP_SECONDS: Final = 0.02
"""The longest time between two first runs: few dependencies are no crowd, and the instance waits to be ready."""

CATCH_UP: Final = JITTER
"""How much of an interval a run may be late and the next one still be due by the old rhythm."""


def first_due(now: float, place: int, count: int, interval: float) -> float:
    """Return when the first run of the dependency at ``place`` of ``count`` is due, in monotonic seconds."""
    return now + min(min(interval, FIRST_SPREAD_SECONDS) / count, FIRST_STEP_SECONDS) * place


def next_due(due: float, began: float, interval: float, random: Callable[[], float]) -> float:
    """Return when the run after one that was ``due`` and ``began`` is due. ``random`` gives a number from 0 up to 1.

    Two runs begin at least ``1 - JITTER - CATCH_UP`` of an interval apart.
    """
    base = due if began - due <= CATCH_UP * interval else began
    return base + interval * (1.0 - LEAST_EARLY - (JITTER - LEAST_EARLY) * random())


class Agenda:
    """Who is due when: at most one entry a name. For one thread.

    Entries that were replaced or removed stay in the heap until they come up, so each operation is of logarithmic cost.
    """

    __slots__ = ("_entries", "_heap")

    def __init__(self) -> None:
        self._entries: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def put(self, name: str, due: float) -> None:
        """Set when a name is due; an earlier word on it is forgotten."""
        self._entries[name] = due
        heapq.heappush(self._heap, (due, name))

    def remove(self, name: str) -> None:
        """Forget a name, if it is there."""
        self._entries.pop(name, None)

    def next_due(self) -> float | None:
        """Return when the first one is due, None where there is none."""
        while self._heap:
            due, name = self._heap[0]
            if self._entries.get(name) == due:
                return due
            heapq.heappop(self._heap)
        return None

    def take(self, now: float) -> tuple[float, str] | None:
        """Take out the one that has been due for longest at ``now``, with when it was due, if there is one."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, name = heapq.heappop(self._heap)
        del self._entries[name]
        return due, name
