"""What a provider that follows its source over a connection knows of that: whether it is usable, and still trusted.

Laws of this module:

1. What was known when a connection ended is trusted for :data:`TRUST_SECONDS`, and the boundary is usable as long: a
   connection that is made anew by then was no failure, to nobody (RT-5.6).
2. A line is written where something begins and where it ends, not each time (RT-6.5, RT-7.5, RT-8.6): a source that is
   silent at one attempt and unreachable at the next one is told as each of them once, until it is well again.
3. One thread uses it, and passes the instant: monotonic seconds. Any thread may read ``usability`` and ``counted``.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from idkmesh.topology.provider import Counted, Usability
from idkmesh.topology.providers.crossings import Crossings

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.topology.model import Cause
    from idkmesh.topology.providers.crossings import Changed

TRUST_SECONDS: Final = 2.0
"""After the end of a connection, until when another one must have begun."""

AGAIN_SECONDS: Final = 0.1
"""Between two attempts while something is trusted."""

PAUSE_SECONDS: Final = 1.0
"""Between two attempts when all has failed; shortened by chance, by at most half."""


@dataclass(frozen=True, slots=True)
class Words:
    """How lines call a provider, its source, and records of instances; ``mend`` says how these are to be written."""

    provider: str
    source: str
    records: str
    mend: str = ""


class Boundary:
    """The boundary of one provider. ``cause`` is why the source cannot be followed, None while it can.

    ``changed`` takes each crossing (RT-10.2) in that one thread, and must not wait.
    """

    def __init__(self, words: Words, line: Callable[[str, int], None], changed: Changed) -> None:
        self.usability = Usability(usable=False)
        self.cause: Cause | None = None
        self.counted = Counted()
        self._words = words
        self._line = line
        self._trusted_until: float | None = None
        self._interrupted = False
        """Whether there was a connection, and there is none now."""
        self._told: set[Cause | str] = set()
        self._told_unreadable = False
        self._crossings = Crossings(words.provider, changed, line)

    def well(self) -> None:
        """Write down that the source is followed: by a new connection, where one has ended."""
        if self._interrupted:
            self._interrupted = False
            self.counted = replace(self.counted, reconnects=self.counted.reconnects + 1)
        self.usability = Usability(usable=True)
        self.cause = None
        self._crossings.see(self.usability)
        if self._told:
            self._tell("it can be followed again", logging.INFO)
            self._told.clear()

    def ended(self, now: float) -> float:
        """Write down that a connection has ended. Returns until when what it has said is trusted."""
        self._trusted_until = now + TRUST_SECONDS
        self._interrupted = True
        return self._trusted_until

    def left(self, now: float) -> float | None:
        """Return how long what is known is trusted; 0 once that is over and was not written down, None after it."""
        return None if self._trusted_until is None else max(0.0, self._trusted_until - now)

    def lost(self, cause: Cause, now: float) -> bool:
        """Write down that the source cannot be followed. Returns whether what is known is trusted all the same."""
        self.cause = cause
        self._interrupted = self._interrupted or self.usability.usable
        if self.left(now):
            return True
        self._trusted_until = None
        self.usability = Usability(usable=False, cause=cause)
        self.counted = Counted(self.counted.reconnects)
        self._crossings.see(self.usability)
        if cause not in self._told:
            self._tell(f"{cause.value}; its releases are unavailable; look at {self._words.source}", logging.ERROR)
            self._told.add(cause)
        return False

    def fault(self, kind: str) -> None:
        """Tell of an exception of this program's. ``kind`` is its type: what it says may be what nobody is to see."""
        self._tell(f"it has a fault: {kind}", logging.ERROR)

    def beyond(self, bound: str) -> None:
        """Tell once, until it is well again, which bound of this program's its source is beyond."""
        if bound not in self._told:
            self._tell(bound, logging.ERROR)
            self._told.add(bound)

    def ignored(self, count: int) -> None:
        """Write down how much there is that is neither a release nor an instance: others may keep it there."""
        if count != self.counted.ignored:
            self.counted = replace(self.counted, ignored=count)

    def unreadable(self, count: int) -> None:
        """Tell once that there are records of instances that nobody can read, and once that there are none any more."""
        if count != self.counted.unreadable:
            self.counted = replace(self.counted, unreadable=count)
        if bool(count) is self._told_unreadable:
            return
        self._told_unreadable = bool(count)
        if count:
            mend = f"; {self._words.mend}" if self._words.mend else ""
            self._tell(f"{count} {self._words.records} are no endpoint and are not used{mend}", logging.WARNING)
        else:
            self._tell(f"all {self._words.records} can be read again", logging.INFO)

    def forget_unreadable(self) -> None:
        """Begin to tell of such records anew: with the source, what there was of them is not known any more."""
        self._told_unreadable = False

    def _tell(self, text: str, level: int) -> None:
        self._line(f"provider {self._words.provider}: {text}", level)


def pause() -> float:
    """Return the seconds until the next attempt when all has failed."""
    return PAUSE_SECONDS * (1 - random.random() / 2)  # noqa: S311  a pause is no secret
