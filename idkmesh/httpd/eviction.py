"""Who gives way when there are too many connections (HS-8). Pure: sets and `now` in, a connection out."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from idkmesh.httpd.connection import MINIMUM_WRITE_RATE, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.httpd.connection import Connection

RESERVE = 0.05
"""Share of `max_connections` that is kept for new arrivals."""
GRACE_SECONDS = 1.0
"""What is younger is not slow yet. A newcomer's head is on its way; a writer's rate means nothing, so among the young
ones the oldest goes first."""

ORDER = (State.LINGERING, State.HANDSHAKE, State.READING_HEAD, State.READING_BODY)
"""Who goes first. Each set is ordered: the first has waited longest, or, for bodies, was the last to make progress."""


class Evictor:
    """Chooses victims among the connections that the front holds.

    Finding the slowest writer takes a look at every writer; the look is kept for :data:`LOOK_SECONDS`, so that a flood
    does not pay for one with each newcomer.
    """

    LOOK_SECONDS = 0.1
    BATCH = 256

    __slots__ = ("_looked_at", "_slowest")

    def __init__(self) -> None:
        """Start without a look."""
        self._slowest: list[Connection] = []
        self._looked_at = float("-inf")

    def victim(self, held: Mapping[State, dict[Connection, None]], now: float) -> Connection | None:
        """Choose who gives way at the limit; None where nobody may.

        Who has had no time yet is spared while there is somebody else: among slow bodies a healthy newcomer is the only
        one with an incomplete head, and would be the first to go.
        """
        firsts = [next(iter(held[state])) for state in ORDER if held[state]]
        for first in firsts:
            if first.state is State.LINGERING or now - first.progress_at >= GRACE_SECONDS:
                return first
        writer = self._slowest_writer(held[State.WRITING], now)
        if writer is not None and (not firsts or _rate(writer, now) < math.inf):
            return writer
        return min(firsts, key=lambda first: first.progress_at, default=None)

    def laggard(self, held: Mapping[State, dict[Connection, None]], now: float) -> Connection | None:
        """Choose who gives way within the reserve: a lingering connection, or a writer below the minimum rate."""
        if held[State.LINGERING]:
            return next(iter(held[State.LINGERING]))
        writer = self._slowest_writer(held[State.WRITING], now)
        return writer if writer is not None and _rate(writer, now) < MINIMUM_WRITE_RATE else None

    def _slowest_writer(self, writers: dict[Connection, None], now: float) -> Connection | None:
        while self._slowest and now - self._looked_at < self.LOOK_SECONDS:
            if self._slowest[-1].state is State.WRITING:
                return self._slowest[-1]
            self._slowest.pop()
        if not writers:
            return None
        slowest = heapq.nsmallest(self.BATCH, writers, key=lambda writer: _rate(writer, now))
        self._slowest = slowest[::-1]
        self._looked_at = now
        return self._slowest[-1]


def _rate(writer: Connection, now: float) -> float:
    return writer.write_rate(now) if now - writer.writing_since >= GRACE_SECONDS else math.inf
