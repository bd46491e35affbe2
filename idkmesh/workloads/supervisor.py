"""The supervisor: one pass after another, and only as the holder of the lease (AR-3, AR-5, AR-6.3, AR-6.4).

Laws of this module:

1. One thread makes passes, one at a time, and owns the ledger. Others read a snapshot, which is replaced as a whole.
2. A pass has one instant, that of its beginning: evidence, hysteresis and decisions go by it.
3. Whoever does not hold the lease asks nothing, writes nothing and restarts nothing. The lease is looked at before each
   call of a driver. Who comes to hold it begins with what the store has, not with what it remembers.
4. What is decided is saved before anything is done, and a claim before the call that it is for.
5. Nothing that drivers, stores or takers of changes do ends the thread.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from idkmesh.service_runtime import log_line
from idkmesh.workloads.acting import RESTART_SECONDS, Restarter
from idkmesh.workloads.ages import system_stamp
from idkmesh.workloads.calls import Calls
from idkmesh.workloads.change_lines import healthy_line
from idkmesh.workloads.changes import reload_change
from idkmesh.workloads.checks import shown
from idkmesh.workloads.decision import due_restarts
from idkmesh.workloads.ledger import Ledger
from idkmesh.workloads.passes import Passes
from idkmesh.workloads.snapshot import Role, Snapshot
from idkmesh.workloads.survey import Surveyor
from idkmesh.workloads.tracker_store import TrackerStoreError
from idkmesh.workloads.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from idkmesh.changes import Change
    from idkmesh.workloads.acting import LeaseView
    from idkmesh.workloads.ages import Stamp
    from idkmesh.workloads.decision import Due
    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.lease.store import Grant
    from idkmesh.workloads.model import Declaration, DesiredModule
    from idkmesh.workloads.record import Kept
    from idkmesh.workloads.survey import Patience
    from idkmesh.workloads.tracker_store import TrackerStore

STEP_SECONDS: Final = 0.25
"""The longest time between two beats of a supervisor that waits for its next pass."""


class Supervisor:
    """Supervises the instances of a declaration with ``drivers``, by name.

    ``lease`` says whether it may act. ``store`` keeps trackers. Commands run as the user ``uid``. ``changed`` takes
    each change and must not wait; ``record`` takes the one before a restart and returns whether it is committed.
    ``log`` takes a line and a level of :mod:`logging`, and must not wait. ``alive`` is called several times a second by
    the thread that makes passes, and must not wait either. The drivers, the lease and the stores stay the caller's to
    close: ``released`` takes the drivers that no pass uses any more after a reload, and must not wait.
    """

    def __init__(  # noqa: PLR0913  what it supervises, and the parts that it speaks to
        self,
        declaration: Declaration,
        drivers: Mapping[str, Driver],
        lease: LeaseView,
        store: TrackerStore,
        *,
        uid: int,
        changed: Callable[[Change], None],
        record: Callable[[Change], bool],
        log: Callable[[str, int], None] = log_line,
        alive: Callable[[], None] = lambda: None,
        stamp: Callable[[], Stamp] = system_stamp,
        patience: Patience | None = None,
        restart_seconds: float = RESTART_SECONDS,
        released: Callable[[Sequence[Driver]], None] = lambda _drivers: None,
    ) -> None:
        self._spec = declaration.supervisor
        self._drivers = drivers
        self._lease = lease
        self._store = store
        self._uid = uid
        self._voice = Voice(changed, log)
        self._alive = alive
        self._stamp = stamp
        self._patience = patience
        self._released = released
        self._calls = Calls()
        self._surveyor = Surveyor(drivers, self._calls, uid=uid, patience=patience)
        self._ledger = Ledger(declaration.modules)
        self._restarter = Restarter(
            lease,
            self._ledger,
            self._calls,
            self._voice,
            record=record,
            boot=lambda: stamp().boot,
            limit=restart_seconds,
        )
        self._passes = Passes(float(self._spec.interval_s))
        self._token: str | None = None
        self._stood_by = False
        """Whether the last pass began without the lease."""
        self._owner = ""
        """The name to save under. One under which adopting has failed is never saved under: that may be done by now."""
        self._asking = threading.Lock()
        self._latest: tuple[tuple[DesiredModule, ...], Mapping[str, Driver]] = (declaration.modules, drivers)
        self._reloading: deque[tuple[Declaration, Mapping[str, Driver] | None]] = deque()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._snapshot = Snapshot(role=Role.STARTING, modules=declaration.modules, spec=self._spec, passes=self._passes)

    # --- for any thread -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to make passes, once. Raises ``RuntimeError`` the second time."""
        if self._thread is not None:
            raise RuntimeError("a supervisor is started once")
        if self._uid == 0:
            self._voice.line("readiness commands run as root (IDKMESH_PROBE_UID is 0)", logging.WARNING)
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Begin nothing more, wait for what runs, at most ``timeout`` seconds, and say whether that was enough."""
        self._ended.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._voice.line("the supervisor has not ended in time: its thread is left to the process", logging.WARNING)
        return not self._thread.is_alive()

    def reload(self, declaration: Declaration, drivers: Mapping[str, Driver] | None = None) -> None:
        """Take another declaration, and other drivers if they are given, with the next pass.

        Instances of which the same is asked as before keep what is known of them. The lease stays as it is. It is told
        here and not by the pass: what is refused after it is told at once too.
        """
        with self._asking:
            old, was = self._latest
            self._latest = new, now = declaration.modules, was if drivers is None else drivers
            others = [name for name in now if name in was and now[name] is not was[name]]
            self._reloading.append((declaration, drivers))
            self._voice.tell(reload_change(old, new, others))

    def snapshot(self) -> Snapshot:
        """Return what is known. Waits for nothing."""
        return replace(self._snapshot, passes=self._passes)

    # --- the supervising thread's ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.is_set():
            stamp = self._stamp()
            try:
                self.make_pass(stamp)
                self._voice.well("pass", "the supervisor is well again")
            except Exception as error:  # noqa: BLE001  a fault of ours: it is told once, and the next pass follows
                self._voice.ill(
                    "pass",
                    f"a pass of the supervisor has a fault, it goes on: {type(error).__name__}: {shown(str(error))}",
                )
            self._wait_until(stamp.boot + self._spec.interval_s)

    def _wait_until(self, instant: float) -> None:
        """Wait for the time of the next pass, or until a lease that was waited for is there (AR-6.4)."""
        while (left := instant - self._stamp().boot) > 0 and not self._ended.wait(min(left, STEP_SECONDS)):
            self._beat()
            if self._stood_by and self._lease.held() is not None:
                return

    def make_pass(self, stamp: Stamp) -> None:
        """Make one pass, which begins at ``stamp``. One thread's."""
        self._take_reload(stamp)
        self._alive()
        self._passes = self._passes.begin(stamp.boot)
        grant = self._lease.held()
        self._stood_by = grant is None
        if grant is None:
            self._token = None
            self._show(Role.STANDBY)
            return
        if grant.token != self._token:
            self._take_over(grant, stamp)
        fresh_from = self._passes.fresh_from(stamp.boot)
        survey = self._surveyor.survey(
            self._ledger.modules,
            opened=self._ledger.opened,
            go=functools.partial(self._may_act, grant),
            beat=self._beat,
        )
        if not survey.complete:
            self._show(Role.HOLDER if self._lease.held() == grant else Role.STANDBY)
            return
        cooldown = float(self._spec.cooldown_s)
        spent = cooldown + self._lease.store.claim_slack
        changes = self._ledger.fold(survey, stamp.boot, fresh_from, keep_seconds=spent)
        for change in changes:
            self._voice.tell(change)
        if (line := healthy_line(changes)) is not None:
            self._voice.line(line, logging.INFO)
        tallies = self._snapshot.tallies.with_observations(survey.observations)
        # After a pause in the middle of the pass its beginning is too old to decide by.
        if self._save() and self._passes.fresh_from(self._stamp().boot) <= stamp.boot:
            dues = due_restarts(self._ledger.records.values(), stamp.boot, fresh_from, spent)
            self._restart(dues, grant, cooldown)
        seconds = max(0.0, self._stamp().boot - stamp.boot)
        self._show(Role.HOLDER, tallies=tallies.with_pass(seconds), pass_seconds=seconds)

    def _take_reload(self, stamp: Stamp) -> None:
        declaration: Declaration | None = None
        before = [self._drivers]
        while self._reloading:  # of several that came during a pass the last one counts
            declaration, drivers = self._reloading.popleft()
            self._drivers = self._drivers if drivers is None else drivers
            before.append(self._drivers)
        if declaration is None:
            return
        self._spec = declaration.supervisor
        self._passes = replace(self._passes, interval=float(self._spec.interval_s))
        self._surveyor = Surveyor(self._drivers, self._calls, uid=self._uid, patience=self._patience)
        self._ledger.reload(declaration.modules, stamp.boot)
        names = [module.name for module in declaration.modules]
        self._restarter.forget(but=names)
        self._snapshot = replace(
            self._snapshot, modules=declaration.modules, spec=self._spec, tallies=self._snapshot.tallies.of(names)
        )
        used = {id(driver) for driver in self._drivers.values()}
        gone = {id(each): each for drivers in before for each in drivers.values() if id(each) not in used}
        if gone:
            self._released(list(gone.values()))

    def _take_over(self, grant: Grant, stamp: Stamp) -> None:
        """Begin with what the store has: another supervisor has acted meanwhile, perhaps."""
        kept: Sequence[Kept]
        try:
            kept = self._store.adopt(grant.token, stamp)
            self._voice.well("store", "the tracker store can be used again")
        except TrackerStoreError as error:
            self._voice.ill("store", f"{error}; trackers are kept in memory alone")
            self._owner = f"{grant.token}, not adopted"
        else:
            self._owner = grant.token
            self._ledger.begin(kept, stamp.boot)
        self._restarter.forget()
        self._token = grant.token
        self._restarter.resolve()

    def _restart(self, dues: Sequence[Due], grant: Grant, cooldown: float) -> None:
        """Do what is due: ask and claim one after another, keep that, then restart."""
        claimed = []
        for due in dues:
            self._beat()
            if self._may_act(grant) and self._restarter.ask(due, grant, cooldown):
                claimed.append(due)
        if not claimed:
            return
        if self._save():
            go = functools.partial(self._may_act, grant)
            self._restarter.restart(claimed, grant, self._drivers, go=go, beat=self._beat)
        else:
            self._restarter.forgo(claimed)
        self._save()

    def _may_act(self, grant: Grant) -> bool:
        return not self._ended.is_set() and self._lease.held() == grant

    def _beat(self) -> None:
        self._alive()
        self._passes = self._passes.beat(self._stamp().boot)

    def _save(self) -> bool:
        """Keep the ledger, and say whether the store is still ours. One that cannot be used hinders nothing."""
        try:
            ours = self._store.save(self._owner, self._ledger.records.values(), self._stamp())
            self._voice.well("store", "the tracker store can be used again")
        except TrackerStoreError as error:
            self._voice.ill("store", f"{error}; trackers are kept in memory alone")
            return True
        if not ours:
            self._token = None  # somebody else has taken over: the next pass looks what it has left
        return ours

    def _show(self, role: Role, **more: object) -> None:
        ledger, holder = self._ledger, self._lease.holder_name()
        facts = {"store_fault": self._voice.fault("store"), **more}
        if role is Role.HOLDER:
            facts |= {"role": role, "holder": holder, "records": ledger.records}
            facts |= {"platforms": ledger.platforms, "unmatched": ledger.unmatched}
        shown = replace(self._snapshot, **facts)  # type: ignore[arg-type]
        self._snapshot = shown if role is Role.HOLDER else shown.standing_by(holder)
