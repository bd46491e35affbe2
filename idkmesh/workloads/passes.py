"""Which evidence is too old (AR-4.3): older than three passes, or from before a time without a supervisor. Pure.

A pass may take longer than the interval: instances that hang take their whole time limit. So passes are counted as they
were made. A supervisor that was stopped, suspended or not there has made none, however: it beats several times a
second, and a silence longer than three intervals breaks the row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

LIVES_PASSES: Final = 3
"""How many passes a piece of evidence lives."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The beginnings of the last passes, the oldest first, and the last beat. Seconds of the boot clock."""

    interval: float
    starts: tuple[float, ...] = ()
    alive: float = float("-inf")

    @property
    def patience(self) -> float:
        """The longest silence that breaks nothing, in seconds."""
        return LIVES_PASSES * self.interval

    def beat(self, now: float) -> Passes:
        """Return it with a sign of life: after too long a silence no pass counts that began before."""
        broken = not 0 <= now - self.alive <= self.patience
        return replace(self, starts=() if broken else self.starts, alive=now)

    def begin(self, now: float) -> Passes:
        """Return it with one more pass that begins."""
        after = self.beat(now)
        return replace(after, starts=(*after.starts, now)[-LIVES_PASSES - 1 :])

    def fresh_from(self, now: float) -> float:
        """Return the instant that evidence must not be older than.

        What was seen since a start or a pause is fresh for three passes too, however long they take.
        """
        counted = now - self.patience
        if now - self.alive > self.patience:
            return counted
        return min([counted, *self.starts[:1]])
