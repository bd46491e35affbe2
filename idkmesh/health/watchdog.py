"""Who promised to beat, and who has been silent for too long (HL-2.1, HL-2.5).

Laws of this module:

1. A beat stores one instant in one attribute, and nothing else: whoever beats can afford it at the top of each pass.
2. Readers take no lock: they read one tuple, which registering replaces as a whole.
3. Silence is measured by the monotonic clock alone.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from idkmesh.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.clock import Clock

_SYSTEM: Final = SystemClock()


class WatchdogError(ValueError):
    """A component cannot be registered so: the program's fault, and a retry does not help."""


class Beat:
    """A component's promise to beat at least once in each ``budget`` seconds. :meth:`Watchdog.register` makes it."""

    __slots__ = ("_former", "_monotonic", "_watchdog", "at", "budget", "name", "own")

    def __init__(self, watchdog: Watchdog, name: str, budget: float, clock: Clock, own: float | None = None) -> None:
        self._watchdog = watchdog
        self._monotonic = clock.monotonic
        self.name = name
        self.budget = budget
        self.own = own
        """The budget that the component asked for, None for the watchdog's."""
        self.at = clock.monotonic()
        self._former = (float("-inf"), budget)
        """When the budget was last changed, and what held until then."""

    @property
    def allowed(self) -> float:
        """The silence that is allowed now, in seconds.

        A budget that was shortened holds from the next beat on: the component may have gone to wait by the former one.
        """
        changed, former = self._former
        return self.budget if self.at > changed else max(former, self.budget)

    def rebudget(self, budget: float, now: float) -> None:
        """Change the budget; ``own`` stays. :meth:`Watchdog.rebudget` calls this, with its lock."""
        self._former = (now, self.allowed)
        self.budget = budget if self.own is None else min(self.own, budget)

    def beat(self) -> None:
        """Say that the component makes progress."""
        self.at = self._monotonic()

    def close(self) -> None:
        """Unregister: the component has ended, and its silence means nothing. A second call changes nothing."""
        self._watchdog.remove(self)


class Watchdog:
    """Knows the components that promised to beat, and for how long each has been silent.

    ``budget`` is the longest silence of any component, in seconds: ``interval_ms`` x ``max_missed_ticks`` of the
    matrix. Any thread may call any method.
    """

    __slots__ = ("_beats", "_clock", "_lock", "budget")

    def __init__(self, budget: float, clock: Clock = _SYSTEM) -> None:
        if not 0 < budget < float("inf"):
            raise WatchdogError(f"watchdog: the budget {budget!r} is refused, it must be a number of seconds above 0")
        self.budget = budget
        self._clock = clock
        self._lock = threading.Lock()
        self._beats: tuple[Beat, ...] = ()

    def register(self, name: str, budget: float | None = None) -> Beat:
        """Take a component in, as one that beats just now. It may have a shorter budget of its own, in seconds.

        :raises WatchdogError: the name is taken (HL-2.5), or the budget is not above 0 or longer than the watchdog's.
        """
        with self._lock:
            own = self.budget if budget is None else budget
            if not 0 < own <= self.budget:
                raise WatchdogError(
                    f"watchdog: {name}: the budget {own!r} is refused, it must be above 0 and at most {self.budget:g} s"
                )
            if any(beat.name == name for beat in self._beats):
                raise WatchdogError(f"watchdog: {name} is registered already: close its beat first")
            beat = Beat(self, name, own, self._clock, budget)
            self._beats = (*self._beats, beat)
        return beat

    def renew(self) -> None:
        """Begin anew in a forked child: its silences are counted from now on, and no lock is held by a lost thread."""
        self._lock = threading.Lock()
        for beat in self._beats:
            beat.beat()

    def rebudget(self, budget: float) -> None:
        """Change the longest silence, in seconds: the matrix was read again (HL-3.5). A shorter one of its own stays.

        :raises WatchdogError: the budget is not above 0.
        """
        if not 0 < budget < float("inf"):
            raise WatchdogError(f"watchdog: the budget {budget!r} is refused, it must be a number of seconds above 0")
        with self._lock:
            self.budget = budget
            now = self._clock.monotonic()
            for beat in self._beats:
                beat.rebudget(budget, now)

    def remove(self, beat: Beat) -> None:
        """Forget a beat; :meth:`Beat.close` calls this."""
        with self._lock:
            self._beats = tuple(other for other in self._beats if other is not beat)

    def overdue(self, now: float) -> tuple[str, ...]:
        """Return the components that have been silent for longer than their budget (HL-2.1), in order of registration.

        ``now`` is in monotonic seconds, as the clock tells them.
        """
        return tuple(beat.name for beat in self._beats if now - beat.at > beat.allowed)

    def silences(self, now: float) -> Mapping[str, float]:
        """Return for how many seconds each component has been silent."""
        # A beat may come between the reading of the clock and this line.
        return {beat.name: max(0.0, now - beat.at) for beat in self._beats}
