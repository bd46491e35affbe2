"""What is held of all targets, and what becomes of it (RT-3): decided here, without a lock, a clock or a provider.

Laws of this module:

1. Whoever calls holds the selector's lock, and passes the instant: monotonic seconds, and the wall clock as a label.
2. What is to be done with a provider is returned: sessions whose watch is to begin, watches that are to be closed.
3. What an observation becomes is decided by :func:`~idkmesh.topology.transitions.accept` alone, and written by
   :meth:`Sessions._write` alone.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.topology import changes
from idkmesh.topology.backoff import attempt_delay, failures_after
from idkmesh.topology.errors import TooManyObservationsError
from idkmesh.topology.held import Held, Session
from idkmesh.topology.model import Cause, Failed, State
from idkmesh.topology.tallies import Tallies
from idkmesh.topology.telling import Meter
from idkmesh.topology.transitions import accept, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from idkmesh.changes import Change
    from idkmesh.topology.model import Observation, ProviderEvent, Target
    from idkmesh.topology.provider import Watch

SILENT_SECONDS: Final = 10.0
"""From an opening, when a watch that has said nothing has failed (RT-3.3)."""

UNUSED_SECONDS: Final = 3_600.0
"""Since its last use, when an observation is closed (RT-3.6)."""

LOOK_SECONDS: Final = 60.0
"""How often it is looked for such observations."""

AT_ONCE: Final = 256
"""Attempts, ends of silent sessions and closings of one look together: it holds the lock that selections wait for. The
next look follows at once."""


class Now(NamedTuple):
    """An instant: monotonic seconds that decide, and the wall clock in UTC, which only labels."""

    seconds: float
    utc: datetime


class _Time(NamedTuple):
    """What is looked at, at an instant: a session that may be silent, or, without one, whether an attempt is due."""

    at: float
    number: int
    held: Held
    session: Session | None


class Sessions:
    """The observations of one selector.

    ``take`` is what a session does with what its provider says; ``tell`` takes each change that is told, and only keeps
    it; ``chance`` gives numbers from 0 to 1.
    """

    def __init__(
        self,
        most: int,
        began: float,
        *,
        take: Callable[[Session, ProviderEvent], None],
        tell: Callable[[Change], None],
        chance: Callable[[], float],
    ) -> None:
        self.held: dict[Target, Held] = {}
        self.tallies = Tallies()
        self.version = 0
        """Grows with each opening and closing, and with each observation that is another one (RT-11.6)."""
        self._most = most
        self._take = take
        self._put = tell
        self._chance = chance
        self._meter = Meter()
        self._times: list[_Time] = []
        self._numbers = itertools.count()
        self._look_at = began + LOOK_SECONDS
        self._unused: list[Held] = []
        """What was unused at the last look for such and is to be closed, the oldest last."""
        self._full = False

    # --- uses -----------------------------------------------------------------------------------------------------

    def used(self, target: Target, now: Now) -> tuple[Held, Session | None]:
        """Return what is held of a target; where that is new, with the session whose watch is to begin (RT-3.1).

        Raises :class:`TooManyObservationsError` (RT-3.2).
        """
        held = self.held.get(target)
        if held is not None:
            held.used_at = now.seconds
            return held, None
        if len(self.held) >= self._most:
            self._refuse(target, now)
        held = Held(target, now.seconds, now.utc)
        held.session = Session(held, now.seconds, now.utc, self._take)
        self.held[target] = held
        self.version += 1
        self.tallies.sessions["opened"] += 1
        self._tell(changes.opened_change(target), now)
        self._remember(now.seconds + SILENT_SECONDS, held, held.session)
        return held, held.session

    def _refuse(self, target: Target, now: Now) -> None:
        self.tallies.sessions["refused"] += 1
        self.tallies.selections["refused"] += 1
        if not self._full:
            self._full = True
            self._tell(changes.refused_change(self._most), now)
        raise TooManyObservationsError(target, self._most)

    # --- what providers say ---------------------------------------------------------------------------------------

    def hear(self, session: Session, event: ProviderEvent, now: Now) -> list[Watch]:
        """Let a session hear an event. Returns the watches that are over because of it."""
        if session.over:  # RT-3.7
            self.tallies.dropped += 1
            return []
        held = session.held
        before = opened(session.opened_utc) if session is held.attempt else held.observation
        after = accept(before, event, now.utc)
        if after is before:
            return []
        if after.state is State.UNAVAILABLE:
            return self._fail(session, after, now)
        self._write(session, after, now)
        return []

    def _write(self, session: Session, after: Observation, now: Now) -> None:
        """Write what is known of a target, and tell what has changed."""
        held = session.held
        before = held.observation.state
        held.see(after)
        self.version += 1
        if before is not after.state:
            self.tallies.transitions[before, after.state] += 1
        if session is held.attempt:
            held.session, held.attempt = session, None
            self.tallies.sessions["renewed"] += 1
            self._tell(changes.renewed_change(held.target, before, after, held.attempts), now)
            held.attempts = 0
        elif before is not after.state:
            self._tell(changes.state_change(held.target, before, after), now)
        held.wake()

    def _fail(self, session: Session, after: Observation, now: Now) -> list[Watch]:
        """End a session or an attempt, and remember when the next attempt is due (RT-3.4)."""
        held = session.held
        held.failures = failures_after(held.failures, now.seconds - session.opened_at)
        if session is held.attempt:
            held.attempt = None
        else:
            self.tallies.sessions["failed"] += 1
            self._write(session, after, now)
            held.session = None
        self._remember(now.seconds + attempt_delay(held.failures, self._chance()), held, None)
        return session.end()

    # --- times ----------------------------------------------------------------------------------------------------

    def due_at(self) -> float:
        """Return the instant at which :meth:`look` has something to do."""
        if self._unused:
            return float("-inf")
        due = [self._look_at, *(each.at for each in self._times[:1])]
        omitted = self._meter.due_at
        return min(due if omitted is None else [*due, omitted])

    def look(self, now: Now) -> tuple[list[Session], list[Watch]]:
        """Do what is due, :data:`AT_ONCE` of it at most.

        Returns attempts whose watch is to begin, and watches that are over.
        """
        attempts: list[Session] = []
        over: list[Watch] = []
        if now.seconds >= self._look_at:
            self._look_at = now.seconds + LOOK_SECONDS
            self._unused = [held for held in reversed(self.held.values()) if _is_unused(held, now)]
        left = AT_ONCE
        while left and self._unused:  # first: for what is closed nothing is attempted
            left -= 1
            over += self._close(self._unused.pop(), now)
        while left and self._times and self._times[0].at <= now.seconds:
            left -= 1
            time = heapq.heappop(self._times)
            if time.session is not None:
                over += self._silent(time.held, time.session, now)
            elif self.held.get(time.held.target) is time.held:  # else it was closed meanwhile
                attempts.append(self._attempt(time.held, now))
        self._put_all(self._meter.over(now.seconds))
        return attempts, over

    def _silent(self, held: Held, session: Session, now: Now) -> list[Watch]:
        """End a session, or an attempt, of which nothing was heard (RT-3.3)."""
        heard = session is held.session and held.observation.state is not State.INITIALIZING
        return [] if heard or session.over else self.hear(session, Failed(Cause.SILENT), now)

    def _attempt(self, held: Held, now: Now) -> Session:
        held.attempts += 1
        held.attempt = Session(held, now.seconds, now.utc, self._take)
        self._remember(now.seconds + SILENT_SECONDS, held, held.attempt)
        return held.attempt

    def _close(self, held: Held, now: Now) -> list[Watch]:
        """Close what was unused when it was looked for, unless it was used since."""
        if not _is_unused(held, now):
            return []
        del self.held[held.target]
        self.version += 1
        self.tallies.sessions["closed"] += 1
        self._tell(changes.closed_change(held.target, held.observation), now)
        self._full = self._full and len(self.held) >= self._most
        return held.end()

    def end(self) -> list[Watch]:
        """End all of them, without a word but of what was omitted. Returns the watches that are over."""
        over = [watch for held in self.held.values() for watch in held.end()]
        self.held.clear()
        self.version += 1
        self._times.clear()
        self._unused.clear()
        self._put_all(self._meter.rest())
        return over

    def _remember(self, at: float, held: Held, session: Session | None) -> None:
        heapq.heappush(self._times, _Time(at, next(self._numbers), held, session))

    def _tell(self, change: Change, now: Now) -> None:
        self._put_all(self._meter.let_through(change, now.seconds))

    def _put_all(self, told: Iterable[Change]) -> None:
        for change in told:
            self._put(change)


def _is_unused(held: Held, now: Now) -> bool:
    return now.seconds - held.used_at >= UNUSED_SECONDS
