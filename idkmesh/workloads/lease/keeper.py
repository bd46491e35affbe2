"""Keeps a lease for as long as that can be done, and says at each instant whether its holder may act (AR-6.2, AR-6.3).

Laws of this module:

1. One thread talks to the store. :meth:`LeaseKeeper.held` takes no lock and waits for nothing: it reads one value and
   the clock. So a process that was stopped for longer than its lease knows as soon as it asks that it must not act.
2. A term counts from before its request was sent.
3. What was granted and is not used any more is given back, as soon as the store answers.
4. Nothing that the store or who takes changes does ends the thread: a supervisor whose keeper has ended would be a
   standby for ever, and nobody would know.
"""

from __future__ import annotations

import logging
import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.changes import Change
from idkmesh.service_runtime import log_line
from idkmesh.workloads.boot_clock import boot_seconds
from idkmesh.workloads.changes import LEASE_ACQUIRED, LEASE_LOST
from idkmesh.workloads.lease.lease_times import RETRY_SHARE, Phase, Term, checked_ttl, next_try
from idkmesh.workloads.lease.store import Grant, LeaseStoreError
from idkmesh.workloads.model import DEFAULT_LEASE_NAME
from idkmesh.workloads.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.workloads.lease.store import LeaseStore

_STORE: Final = "lease store"
"""The part that may have a fault, as :class:`Voice` tells of it."""

_WITHOUT_IT: Final = "without the lease nothing is checked, it is asked for again"

_ANOTHER: Final = "another declaration wants a lease of its own: name it as supervisor.lease.name"


@dataclass(frozen=True, slots=True)
class _Holding:
    grant: Grant
    term: Term


class LeaseKeeper:
    """Holds the lease of ``store`` in the name of ``holder``, for ``ttl`` seconds at a time, from :meth:`start` on.

    ``clock`` returns seconds that a sleep of the machine does not stop. ``changed`` is called by the keeper's thread
    with each change, and must not wait. ``log`` takes a line and a level of :mod:`logging`: a store that does not
    answer is told once until it does. Raises ``ValueError`` for a ``ttl`` that is too short
    (:func:`~idkmesh.workloads.lease.lease_times.checked_ttl`).
    """

    def __init__(  # noqa: PLR0913  what it keeps, and the parts that it speaks to
        self,
        store: LeaseStore,
        holder: str,
        ttl: float,
        *,
        clock: Callable[[], float] = boot_seconds,
        changed: Callable[[Change], None],
        log: Callable[[str, int], None] = log_line,
    ) -> None:
        self._store = store
        self._holder = holder
        self._ttl = checked_ttl(ttl)
        self._clock = clock
        self._voice = Voice(changed, log)
        self._holding: _Holding | None = None
        self._unused: Grant | None = None
        self._other: str | None = None
        self._told_other: str | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    # --- for any thread -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, once. Raises ``RuntimeError`` the second time."""
        if self._thread is not None:
            raise RuntimeError("a lease keeper is started once")
        thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self, timeout: float) -> bool:
        """Hold it no longer, give it back, and say whether that was over within ``timeout`` seconds."""
        self._ending.set()
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def held(self) -> Grant | None:
        """Return the grant under which the holder may act now, None where it must not. Waits for nothing."""
        holding = self._holding
        if holding is None or self._ending.is_set() or holding.term.phase(self._clock()) is Phase.STOP:
            return None
        return holding.grant

    @property
    def store(self) -> LeaseStore:
        """The store that keeps the lease, and the claims made under it."""
        return self._store

    def holder_name(self) -> str | None:
        """Return who held it when the store was asked last, None where nobody did or that is not known."""
        grant = self.held()
        return self._other if grant is None else grant.holder

    @property
    def trouble(self) -> str | None:
        """Why the store did not do what it was asked the last time, in one line; None where it did."""
        return self._voice.fault(_STORE)

    # --- the keeper's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            self._ending.wait(self.turn())
        self._give_back()

    def turn(self) -> float:
        """Do what is due, and return the seconds until the next turn. The keeper's thread calls it, again and again."""
        holding = self._holding
        phase = None if holding is None else holding.term.phase(self._clock())
        try:
            if holding is None:
                self._acquire()
            elif phase is Phase.RENEW:
                self._renew(holding)
            else:  # the store is not asked, and has not answered
                if phase is Phase.STOP:
                    self._lose(holding, self.trouble or "it was not renewed in time: the supervisor was stopped")
                return self._until_next(self._clock())
            self._voice.well(_STORE, "the lease's store answers again")
        except Exception as error:  # noqa: BLE001  a fault of the store's own too: it is asked again
            self._voice.ill(_STORE, _line_of(error), _WITHOUT_IT)
        return self._until_next(self._clock())

    def _until_next(self, now: float) -> float:
        holding = self._holding
        if holding is None:
            return next_try(self._ttl, random.random())  # noqa: S311  chance keeps tries apart, and guards nothing
        term = holding.term
        if self.trouble is not None:
            return max(0.0, min(self._ttl * RETRY_SHARE, term.stop_at - now))
        return max(0.0, term.renew_at - now)

    def _acquire(self) -> None:
        if self._unused is not None:
            self._store.release(self._unused)
            self._unused = None
        asked = self._clock()
        grant = self._store.acquire(self._holder, self._ttl)
        if grant is None:
            self._other = self._store.holder()
            self._stand_by()
            return
        self._other = self._told_other = None
        term = Term(asked, self._ttl)
        if term.phase(self._clock()) is Phase.STOP:  # the answer came too late to be of use
            self._unused = grant
            return
        self._holding = _Holding(grant, term)
        self._voice.tell(self._change(LEASE_ACQUIRED, ttl_s=self._ttl))

    def _stand_by(self) -> None:
        """Say who holds it, once until that is somebody else."""
        if self._other is None or self._other == self._told_other:
            return
        self._told_other = self._other
        name = self._store.name
        so = f"; {_ANOTHER}" if name == DEFAULT_LEASE_NAME else ""
        where = f"the lease {name} ({self._store.place})"
        line = f"standby: {self._other} holds {where}: nothing is checked or started here{so}"
        self._voice.line(line, logging.INFO)

    def _change(self, what: str, **facts: object) -> Change:
        return Change(what, None, {"lease": self._store.name, "holder": self._holder, **facts})

    def _renew(self, holding: _Holding) -> None:
        asked = self._clock()
        if self._store.renew(holding.grant, self._ttl):
            self._holding = _Holding(holding.grant, Term(asked, self._ttl))
        else:
            self._lose(holding, "somebody else has it, or it is over")

    def _lose(self, holding: _Holding, reason: str) -> None:
        self._holding = None
        self._unused = holding.grant
        self._voice.tell(self._change(LEASE_LOST, reason=reason))

    def _give_back(self) -> None:
        holding, self._holding = self._holding, None
        grant = self._unused if holding is None else holding.grant
        if grant is None:
            return
        try:
            self._store.release(grant)
        except Exception as error:  # noqa: BLE001  it ends by itself then, with its time
            self._voice.line(f"the lease is not given back: {_line_of(error)}", logging.WARNING)
        if holding is not None:
            self._voice.tell(self._change(LEASE_LOST, reason="given back"))


def _line_of(error: Exception) -> str:
    """Return a store's own words, and of any other fault its kind alone: nobody knows what is in it."""
    return (
        str(error) if isinstance(error, LeaseStoreError) else f"the lease's store has a fault: {type(error).__name__}"
    )
