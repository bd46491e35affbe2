"""The most that was used at once, lately: what a look now and then at the level itself does not see.

Laws
    * One thread notes, any thread reads: a second is one tuple, replaced whole. Nobody waits.
    * Reading changes nothing, so every reader is told the same.
    * Pure; `now` (monotonic seconds) is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MINUTE: Final = 60
_KEPT: Final = MINUTE + 2
"""Whole seconds that are kept: the minute, the one that it began in, and one for a reader that is behind the front."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Requests in flight, connections and event streams: how many at once."""

    in_flight: int = 0
    connections: int = 0
    sse_clients: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePeaks:
    """The highest of each level, a momentary one too.

    ``last_second`` is of this second of the monotonic clock and the one before, so that who looks once a second misses
    none; ``last_minute`` is of this one and the 60 before.
    """

    last_second: Levels = Levels()
    last_minute: Levels = Levels()


class Peak:
    """The highest of one level in each of the last seconds."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        """Know of nothing yet."""
        self._seconds = [(-_KEPT, 0)] * _KEPT

    def note(self, level: int, now: float) -> None:
        """Take in a level that there is, or was, in the second of `now`. One thread's."""
        second = int(now)
        at, most = self._seconds[second % _KEPT]
        if at != second or level > most:
            self._seconds[second % _KEPT] = (second, level)

    def most(self, now: float, seconds: int) -> int:
        """Return the highest noted in the second of `now` or in the `seconds` before it, 60 at most."""
        since = int(now) - seconds
        return max((most for at, most in self._seconds if at >= since), default=0)
