"""Chooses an endpoint of a target from what a watch has said of it last (RT-4), and keeps the times of watches (RT-3).

Laws of this module:

1. One lock guards all that is held. Under it nothing is waited for, no provider is called and nobody is told anything.
2. A reading takes references of frozen values under the lock, and does everything else outside of it (RT-11.2).
3. One thread keeps the times: first snapshots that do not come, attempts, closings.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from typing import TYPE_CHECKING, Final, Self

from idkmesh.topology.errors import AgentUnavailableError
from idkmesh.topology.held import Extent, Rows, Status
from idkmesh.topology.model import Cause, Failed, Selection, State
from idkmesh.topology.projection import document
from idkmesh.topology.provider import ProviderFailureError
from idkmesh.topology.sessions import Now, Sessions
from idkmesh.topology.telling import Teller, undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from idkmesh.changes import Change
    from idkmesh.clock import Clock
    from idkmesh.topology.held import Held, Session
    from idkmesh.topology.model import ProviderEvent, Target
    from idkmesh.topology.provider import Provider, Usability, Watch
    from idkmesh.topology.tallies import Tallies

DEFAULT_OBSERVATIONS: Final = 1_024
MOST_OBSERVATIONS: Final = 65_536

FIRST_USE_SECONDS: Final = 1.0
"""From an opening, how long a use waits for the first snapshot at most (RT-4.2)."""

FAULT_SECONDS: Final = 1.0
"""Until the times are looked at again after a fault in that."""

CLOSE_SECONDS: Final = 2.0
"""How long :meth:`WatchSelector.stop` waits for its thread."""


class WatchSelector:
    """Selects from continuous observations. Any thread may call any method.

    ``changed`` takes each change that is told (RT-10.2), ``line`` a line and a level of :mod:`logging`; neither may
    wait. The provider stays its owner's to close, after :meth:`stop`. Raises ``ValueError`` for ``max_observations``
    out of its range, and for a provider that does not observe continuously.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        clock: Clock,
        changed: Callable[[Change], None],
        line: Callable[[str, int], None],
        max_observations: int = DEFAULT_OBSERVATIONS,
    ) -> None:
        if type(max_observations) is not int or not 1 <= max_observations <= MOST_OBSERVATIONS:
            raise ValueError(f"max_observations: must be a whole number from 1 to {MOST_OBSERVATIONS}")
        if not provider.continuous:
            raise ValueError(f"provider {provider.name}: it observes nothing; select by its snapshots")
        self._provider = provider
        self._clock = clock
        self._line = undisturbed(line)
        self._lock = threading.Lock()
        self._sooner = threading.Condition(self._lock)
        self._teller = Teller(changed, self._taker_failed)
        self._sessions = Sessions(
            max_observations, clock.monotonic(), take=self._take, tell=self._teller.put, chance=random.random
        )
        self._stopped = False
        self._thread: threading.Thread | None = None

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to keep the times. Raises ``RuntimeError`` the second time, and after :meth:`stop`."""
        with self._lock:
            if self._thread is not None or self._stopped:
                raise RuntimeError("a selector is started once")
            thread = threading.Thread(target=self._run, name="topology-keeper", daemon=True)
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """Close every watch. From here on each use fails closed, and readings show nothing."""
        with self._lock:
            self._stopped = True
            waiting = [held.first for held in self._sessions.held.values() if held.first is not None]
            over = self._sessions.end()
            self._sooner.notify_all()
            thread = self._thread
        for first in waiting:
            first.set()
        self._follow_up(over)
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- using ----------------------------------------------------------------------------------------------------

    def select(self, target: Target) -> Selection:
        """Return an endpoint of the newest snapshot, without I/O (RT-4.1). The first use opens the observation.

        Raises :class:`AgentUnavailableError` and :class:`TooManyObservationsError`. Waits where the observation is
        ``initializing``, until 1 s after its opening (RT-4.2).
        """
        held = self._used(target)
        if held.first is not None:
            self._wait(held)
        with self._lock:
            endpoint, observation = held.next_endpoint(), held.observation
            outcome = observation.state.value if endpoint is None else "selected"
            self._sessions.tallies.selections[outcome] += 1
        if endpoint is None:
            raise AgentUnavailableError(target, observation.state, observation.revision)
        return Selection(target, endpoint, observation.revision)

    def usable(self) -> Usability:
        """Say whether the provider's boundary is usable (RT-5.6)."""
        return self._provider.usable()

    def _used(self, target: Target) -> Held:
        """Return what is held of a target, whose watch has begun. Raises as :meth:`select` does."""
        now = self._now()
        try:
            with self._deciding() as sessions:
                if self._stopped:
                    raise AgentUnavailableError(target, State.UNAVAILABLE, None)
                held, session = sessions.used(target, now)
        finally:
            self._teller.tell()
        if session is not None:
            self._observe(session)
        return held

    def _wait(self, held: Held) -> None:
        with self._lock:
            first, session = held.first, held.session
        if first is not None and session is not None:
            first.wait(max(0.0, session.opened_at + FIRST_USE_SECONDS - self._clock.monotonic()))

    # --- reading --------------------------------------------------------------------------------------------------

    def statuses(self) -> list[Status]:
        """Return what is known of each observed target, in the order of their opening. Changes nothing (RT-11.2)."""
        with self._lock:
            return [Status(held.target, held.observation) for held in self._sessions.held.values()]

    def document(self) -> bytes:
        """Return the projection of these, as JSON in UTF-8 (RT-11.1). Changes nothing."""
        return document(self._provider.name, self.rows().texts)

    def rows(self) -> Rows:
        """Return what :meth:`document` is made of, to make it once for many. Changes nothing."""
        with self._lock:
            return Rows(self._sessions.version, [held.row for held in self._sessions.held.values()])

    def extent(self) -> Extent:
        """Return how much there is to be shown, and whether it is what it was. Changes nothing."""
        with self._lock:
            return Extent(self._sessions.version, len(self._sessions.held))

    @property
    def provider_name(self) -> str:
        """What the projection calls the provider."""
        return self._provider.name

    def tallies(self) -> Tallies:
        """Return what was counted."""
        with self._lock:
            return self._sessions.tallies.copy()

    # --- times ----------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Do what is due by now. For the one thread of :meth:`start`, and for who keeps the times without one."""
        now = self._now()
        with self._lock:
            attempts, over = self._sessions.look(now)
        self._follow_up(over)
        for session in attempts:
            self._observe(session)

    def _run(self) -> None:
        while not self._stopped:
            pause = 0.0
            try:
                self.keep()
            except Exception as error:  # noqa: BLE001  whoever keeps the times must not end
                self._line(f"the keeper of the topology has a fault: {type(error).__name__}", logging.ERROR)
                pause = FAULT_SECONDS
            with self._sooner:
                if not self._stopped:
                    self._sooner.wait(max(pause, self._sessions.due_at() - self._clock.monotonic()))

    @contextlib.contextmanager
    def _deciding(self) -> Iterator[Sessions]:
        """Hold the lock, and wake the thread where something is due sooner afterwards."""
        with self._lock:
            due = self._sessions.due_at()
            try:
                yield self._sessions
            finally:
                if self._sessions.due_at() < due:
                    self._sooner.notify_all()

    # --- providers ------------------------------------------------------------------------------------------------

    def _take(self, session: Session, event: ProviderEvent) -> None:
        """Take what a provider says, in a thread of its."""
        now = self._now()
        with self._deciding() as sessions:
            over = sessions.hear(session, event, now)
        self._follow_up(over)

    def _observe(self, session: Session) -> None:
        """Begin a session's watch. A provider that cannot, or has a fault, has failed."""
        try:
            watch = self._provider.observe(session.held.target, session)
        except ProviderFailureError as error:
            self._take(session, Failed(error.cause))
            return
        except Exception as error:  # noqa: BLE001  a provider's fault is an answer too (RT-5.4)
            self._line(f"provider {self._provider.name}: it has a fault: {type(error).__name__}", logging.ERROR)
            self._take(session, Failed(Cause.FAULT))
            return
        with self._lock:
            session.watch = watch
            over = session.end() if session.over else []
        self._follow_up(over)

    def _follow_up(self, over: Iterable[Watch]) -> None:
        """Close watches that are over, and tell what has changed. Outside of the lock."""
        for watch in over:
            try:
                watch.close()
            except Exception as error:  # noqa: BLE001  nothing of it counts any more
                self._line(
                    f"provider {self._provider.name}: a watch does not close: {type(error).__name__}", logging.WARNING
                )
        self._teller.tell()

    def _taker_failed(self, error: Exception) -> None:
        self._line(f"a taker of changes has a fault: {type(error).__name__}", logging.ERROR)

    def _now(self) -> Now:
        return Now(self._clock.monotonic(), self._clock.utc())
