"""What a selector holds of one target: its observation, its watches, its times (RT-3).

Touched under the lock of the selector alone.

Laws of this module:

1. A session is one watch and its serial end: who is neither the current session of its target nor its attempt is over,
   and nothing that it says counts (RT-3.7).
2. An attempt becomes the session with its first snapshot, in one step: there is no instant with neither.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from idkmesh.topology.projection import row_text
from idkmesh.topology.transitions import opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from idkmesh.topology.model import Endpoint, Observation, ProviderEvent, Target
    from idkmesh.topology.provider import Watch


class Session:
    """One watch of one target, and the sink that its provider calls.

    ``opened_at`` is monotonic seconds. ``over`` once nothing of it counts any more.
    """

    __slots__ = ("_take", "held", "opened_at", "opened_utc", "over", "watch")

    def __init__(
        self, held: Held, opened_at: float, opened_utc: datetime, take: Callable[[Session, ProviderEvent], None]
    ) -> None:
        self.held = held
        self.opened_at = opened_at
        self.opened_utc = opened_utc
        self.watch: Watch | None = None
        self.over = False
        self._take = take

    def __call__(self, event: ProviderEvent) -> None:
        """Take what the provider says."""
        self._take(self, event)

    def end(self) -> list[Watch]:
        """Let nothing of it count any more. Returns its watch, if it has one, which is to be closed."""
        self.over = True
        watch, self.watch = self.watch, None
        return [] if watch is None else [watch]


class Held:
    """One target. Times are monotonic seconds."""

    __slots__ = (
        "attempt",
        "attempts",
        "failures",
        "first",
        "observation",
        "row",
        "session",
        "target",
        "turn",
        "used_at",
    )

    def __init__(self, target: Target, now: float, utc: datetime) -> None:
        self.target = target
        self.see(opened(utc))
        self.session: Session | None = None
        """The one that :attr:`observation` is of; None before it begins, and after it has failed."""
        self.attempt: Session | None = None
        self.attempts = 0
        """Attempts since the session failed."""
        self.failures = 0
        """Sessions and attempts that failed in a row (RT-3.4)."""
        self.first: threading.Event | None = threading.Event()
        """Set with the first thing that is heard; gone from then on: it would be a third of the memory."""
        self.turn = 0
        self.used_at = now

    def see(self, observation: Observation) -> None:
        """Write what is known, and how it is told."""
        self.observation = observation
        self.row = row_text(self.target, observation)

    def next_endpoint(self) -> Endpoint | None:
        """Return the endpoint whose turn it is (RT-4.3), None where there is none."""
        endpoints = self.observation.endpoints
        if not endpoints:
            return None
        chosen = endpoints[self.turn % len(endpoints)]
        self.turn += 1
        return chosen

    def end(self) -> list[Watch]:
        """End what there is of sessions, and return their watches."""
        return [watch for session in (self.session, self.attempt) if session is not None for watch in session.end()]

    def wake(self) -> None:
        """Let go on who waits for the first thing that is heard."""
        if self.first is not None:
            self.first.set()
            self.first = None


class Status(NamedTuple):
    """One row of the projection, as values."""

    target: Target
    observation: Observation


class Extent(NamedTuple):
    """How many observations there are. While ``version`` is the same, so is all that is shown of them."""

    version: int
    observations: int


class Rows(NamedTuple):
    """All rows of the projection as texts, in the order of their opening, as they were at one version."""

    version: int
    texts: list[str]
