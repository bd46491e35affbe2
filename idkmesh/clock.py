"""The two clocks: a monotonic one that decides, and a wall clock that only labels."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What reads time. Decisions take the instant as an argument; only the outermost layer holds a clock."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start, never going back: for ages, deadlines and durations."""

    def utc(self) -> datetime:
        """Return the wall clock, aware, in UTC: for labels. It may jump, so nothing is computed from it."""


class SystemClock:
    """The clocks of the operating system."""

    __slots__ = ()

    def monotonic(self) -> float:
        """Return ``time.monotonic()`` in seconds."""
        return time.monotonic()

    def utc(self) -> datetime:
        """Return the system's wall clock in UTC."""
        return datetime.now(UTC)
