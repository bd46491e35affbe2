"""When the crossing of a limit begins and when it is over (HS-13.2): two log lines, however many hits lie between them.

Pure; `now` is an argument, in monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

QUIET_SECONDS = 5.0
"""A crossing is over when its limit has not been hit for so long: a limit that is hit each second is one crossing."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A crossing that is over: how often the limit was hit, and the seconds from the first hit to the last."""

    hits: int
    seconds: float


class Crossing:
    """The hits of one limit. One thread's."""

    __slots__ = ("_began", "_hits", "_last")

    def __init__(self) -> None:
        """Start below the limit."""
        self._hits = 0
        self._began = 0.0
        self._last = 0.0

    @property
    def active(self) -> bool:
        """Whether it goes on, as far as has been looked: see :meth:`end`."""
        return self._hits > 0

    def hit(self, now: float) -> bool:
        """Note that the limit was hit; say whether a crossing begins with it."""
        begins = self._hits == 0
        if begins:
            self._began = now
        self._hits += 1
        self._last = now
        return begins

    def end(self, now: float) -> Passed | None:
        """Return the crossing that is over by `now`, once; None while there is none, or while it goes on."""
        if not self._hits or now - self._last < QUIET_SECONDS:
            return None
        passed = Passed(self._hits, self._last - self._began)
        self._hits = 0
        return passed
