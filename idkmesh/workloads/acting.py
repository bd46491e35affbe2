"""The restart of instances, step by step (AR-5.3 to AR-5.5).

For each: the event before, recorded or nothing happens; the claims, in the lease's store; a look at the lease, right
before the call; the call; the event after. What is left open is the time between that look and the daemon's taking the
call: a supervisor that is paused exactly there for longer than a cooldown can restart an instance that another one has
restarted. Without fencing by the daemon nothing here can close that.

Two claims are made. The one of the module is what another host's supervisor, which has no trackers of ours, can know of
a restart that is outstanding (AR-5.2). It is made first: a claim of the instance that is not used would keep that
instance from being restarted by anybody. It counts for the first restart of a module under a lease; after that we know
of all that others could. A refused claim is not made younger, so that a successor on another host knows of the first
restart within a cooldown and not of the last one.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.workloads.calls import Call, Ended
from idkmesh.workloads.changes import RESTART_FAILED, RESTART_REQUESTED, RESTARTED, fit, restart_change
from idkmesh.workloads.checks import shown
from idkmesh.workloads.decision import Due
from idkmesh.workloads.drivers.driver import NOT_OURS, DriverError
from idkmesh.workloads.record import Restart, RestartEnd
from idkmesh.workloads.tracker import anew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from idkmesh.changes import Change
    from idkmesh.workloads.calls import Answer, Calls
    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.lease.store import Grant, LeaseStore
    from idkmesh.workloads.ledger import Ledger
    from idkmesh.workloads.record import Record
    from idkmesh.workloads.voice import Voice

RESTART_SECONDS: Final = 60.0
"""How long a driver may take for a restart, which waits 10 s for a clean stop (AR-5.6). Then it is given up."""

NOT_KNOWN: Final = "the supervisor has ended meanwhile: whether it came about is not known"

RETRY_SECONDS: Final = 60.0
"""How long a restart that got no claim is not tried again: each try is an event."""


class LeaseView(Protocol):
    """What a supervisor sees of its lease."""

    @property
    def store(self) -> LeaseStore:
        """The store that keeps the lease and the claims."""

    def held(self) -> Grant | None:
        """Return the lease, None where the holder must not act any more. Never waits."""

    def holder_name(self) -> str | None:
        """Return who holds it as far as is known. Never waits."""


class Claimed(enum.Enum):
    """What came of the claims; the value is why nothing is restarted."""

    YES = ""
    INSTANCE = "it was claimed within its cooldown already"
    MODULE = "another replica of the module was restarted within the cooldown"
    LOST = NOT_OURS
    NO_ANSWER = "the lease's store did not answer"


_OF_THE_INSTANCE: Final = {Claimed.YES, Claimed.INSTANCE}


def requested(due: Due) -> Change:
    """Return the event before."""
    return restart_change(RESTART_REQUESTED, due.key, detail=due.detail, unhealthy_seconds=due.unhealthy_seconds)


def ended(due: Due, fault: str | None) -> Change:
    """Return the event after; ``fault`` is why the restart did not come about, None where it did."""
    what = RESTARTED if fault is None else RESTART_FAILED
    seconds = due.unhealthy_seconds
    return restart_change(what, due.key, detail=due.detail, unhealthy_seconds=seconds, outcome=fault or "")


def claimed_record(record: Record, claimed: Claimed, now: float) -> Record:
    """Return the record of an instance whose restart was asked for. Pure."""
    match claimed:
        case Claimed.YES:
            return replace(record, restart=Restart(now, RestartEnd.PENDING), withheld=None)
        case Claimed.INSTANCE:
            # When it was claimed is not known here: it counts as now, so that nothing happens too early.
            restart = Restart(now, RestartEnd.FAILED, claimed.value)
            return replace(record, restart=restart, withheld=claimed.value)
        case Claimed.MODULE | Claimed.NO_ANSWER:
            return replace(record, not_before=now + RETRY_SECONDS, withheld=claimed.value)
        case Claimed.LOST:
            return record


def restarted_record(record: Record, fault: str | None, now: float) -> Record:
    """Return the record of an instance whose restart has ended. Pure."""
    at = now if record.restart is None else record.restart.at
    if fault is not None:
        return replace(record, restart=Restart(at, RestartEnd.FAILED, fault))
    restart = Restart(at, RestartEnd.DONE)
    return replace(record, restart=restart, restarts=record.restarts + 1, tracker=anew(record.tracker, now))


def fault_of(answer: Answer[bool]) -> str | None:
    """Return why a restart did not come about, None where it did."""
    match answer.ended:
        case Ended.RETURNED:
            return None if answer.value else Claimed.LOST.value
        case Ended.NOT_BEGUN:
            return Claimed.LOST.value
        case Ended.GIVEN_UP:
            return "its driver has not come back: whether it came about is not known"
        case Ended.REFUSED:
            return "its driver has not come back from earlier calls"
        case Ended.RAISED:
            if isinstance(answer.error, DriverError):
                return shown(str(answer.error))
            return f"its driver has a fault: {type(answer.error).__name__}"


class Restarter:
    """Does the restarts that are due, with ``calls``, on what ``ledger`` knows.

    ``record`` takes the event before a restart and returns whether it is committed. ``boot`` reads the boot clock.
    """

    def __init__(  # noqa: PLR0913  what it acts on, and the parts that it speaks to
        self,
        lease: LeaseView,
        ledger: Ledger,
        calls: Calls,
        voice: Voice,
        *,
        record: Callable[[Change], bool],
        boot: Callable[[], float],
        limit: float = RESTART_SECONDS,
    ) -> None:
        self._lease = lease
        self._ledger = ledger
        self._calls = calls
        self._voice = voice
        self._record = record
        self._boot = boot
        self._limit = limit
        self._known: set[str] = set()
        """Modules that were claimed, or found to be free, since the ledger knows all that is outstanding in them."""

    def forget(self, but: Iterable[str] = ()) -> None:
        """Take nothing to be known of modules but these: the ledger has begun anew, and may know less than before."""
        self._known.intersection_update(but)

    def ask(self, due: Due, grant: Grant, cooldown: float) -> bool:
        """Record and claim a restart, and say whether it is to be done."""
        if not self._recorded(requested(due)):
            self._voice.ill("record", f"the restart of {due.key} cannot be recorded, so nothing is restarted")
            return False
        self._voice.well("record", "restarts can be recorded again")
        module = due.key.module
        claimed = self._claim(due, grant, cooldown)
        if claimed in _OF_THE_INSTANCE:
            self._known.add(module)
        # What holds up one replica, and is not its own, holds up the others as well.
        theirs = [key for key in self._ledger.records if key.module == module]
        for key in [due.key] if claimed in _OF_THE_INSTANCE else theirs:
            self._ledger.update(claimed_record(self._ledger.records[key], claimed, self._boot()))
        if claimed is not Claimed.YES:
            self._voice.tell(ended(due, claimed.value))
        return claimed is Claimed.YES

    def restart(
        self,
        dues: Sequence[Due],
        grant: Grant,
        drivers: Mapping[str, Driver],
        *,
        go: Callable[[], bool],
        beat: Callable[[], None],
    ) -> None:
        """Restart what is claimed, as many at once as calls may be made, and tell what came of each."""
        answers = self._calls.make([self._call(due, grant, drivers) for due in dues], go=go, beat=beat)
        for due in dues:
            group = self._ledger.records[due.key].module.driver
            self._end(due, fault_of(answers[group, ("restart", due.key)]))

    def forgo(self, dues: Sequence[Due]) -> None:
        """Tell that what is claimed is not done, since the lease is no longer ours."""
        for due in dues:
            self._end(due, Claimed.LOST.value)

    def resolve(self) -> None:
        """Tell of the restarts that were begun by a supervisor that has ended since (AR-5.5)."""
        for record in self._ledger.records.values():
            restart, tracker = record.restart, record.tracker
            if restart is not None and restart.end is RestartEnd.PENDING:
                self._end(Due(record.key, tracker.detail, max(0.0, restart.at - tracker.since), alone=False), NOT_KNOWN)

    def _claim(self, due: Due, grant: Grant, cooldown: float) -> Claimed:
        """Claim a restart (AR-5.3). Raises nothing.

        Where what is outstanding in the module is known here, or all other replicas are healthy, a claim of the module
        by somebody tells nothing new.
        """
        store, module = self._lease.store, due.key.module
        # By its platform's name, not by its module's, which a reload may change: it is the same instance then.
        instance = f"{self._ledger.records[due.key].module.driver}/{due.key.name}"
        try:
            if store.claim(grant, module, cooldown):
                self._known.add(module)  # also where the next claim has no answer: this one would hold up ourselves
            elif not (module in self._known or due.alone):
                return Claimed.MODULE if self._lease.held() == grant else Claimed.LOST
            if store.claim(grant, instance, cooldown):
                return Claimed.YES
        except Exception:  # noqa: BLE001  a fault of the store's own too: it may have claimed, or not
            return Claimed.NO_ANSWER
        return Claimed.INSTANCE if self._lease.held() == grant else Claimed.LOST

    def _call(self, due: Due, grant: Grant, drivers: Mapping[str, Driver]) -> Call[bool]:
        record = self._ledger.records[due.key]
        driver, instance = drivers[record.module.driver], record.instance

        def may_act() -> bool:
            return self._lease.held() == grant

        def look_and_restart() -> bool:
            if instance is None or not may_act():
                return False
            driver.restart(instance, may_act)
            return True

        return Call(("restart", due.key), record.module.driver, look_and_restart, self._limit)

    def _end(self, due: Due, fault: str | None) -> None:
        record = self._ledger.records[due.key]
        self._ledger.update(restarted_record(record, fault, self._boot()))
        self._voice.tell(ended(due, fault))

    def _recorded(self, change: Change) -> bool:
        self._voice.say(change)
        try:
            return self._record(fit(change))
        except Exception as error:  # noqa: BLE001  who records has a fault: nothing is restarted
            self._voice.line(f"who records restarts has a fault: {type(error).__name__}", logging.ERROR)
            return False
