"""The loop of a rehearsal: it asks, hears, has the orchestrator decide, and does what that says (HL-8.1 to HL-8.4).

Laws of this module:

1. One thread, the caller's, owns every container and writes every entry. Threads that wait (for an answer, for the end
   of a process) put what came of it into the inbox.
2. It decides nothing: what is to be done comes from :mod:`idkmesh.rehearsal.orchestrator` and the plan.
3. However it ends, an interrupt included, no process of the command's groups is left.
"""

from __future__ import annotations

import queue
import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.rehearsal.bounds import ALLOWANCE_SECONDS, patience
from idkmesh.rehearsal.faults import OF_DEPENDENCIES, Fault, How, moves
from idkmesh.rehearsal.instance import Ended, Instance, Spoken
from idkmesh.rehearsal.measure import Happened, Record
from idkmesh.rehearsal.orchestrator import Phase
from idkmesh.rehearsal.plan import PORT_FIELD
from idkmesh.rehearsal.reroute import LOOPBACK
from idkmesh.rehearsal.timeline import Entry, What

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.rehearsal.faults import Move
    from idkmesh.rehearsal.plan import Plan
    from idkmesh.rehearsal.proxy import Proxies

LONGEST_PAUSE_SECONDS: Final = 0.5

VAIN_EXITS: Final = 3
"""A command that has ended so often before it ever answered is not going to."""

SUBJECTS: Final = {How.WEDGE: "service", How.ROLL: "update"}
"""What entries call a fault that is no dependency's."""


class CannotStartError(Exception):
    """The command cannot be started at all. One line."""


class RehearsalInterruptedError(Exception):
    """:meth:`Rehearsal.interrupt` was called. Nothing of the command is left."""


@dataclass(frozen=True, slots=True)
class _Interrupt:
    """Wakes the loop."""


@dataclass(slots=True)
class _Update:
    """A rolling update that is under way; ``number`` is its place in the record."""

    number: int
    old: Instance
    new: Instance
    deleting: bool = False


class Rehearsal:
    """One rehearsal. :meth:`run` is called once.

    ``tell`` gets each entry as it happens, ``line`` each line of the command's output with its instance's name, from
    another thread. ``environ`` is what the command gets.
    """

    def __init__(
        self,
        plan: Plan,
        proxies: Proxies,
        environ: Mapping[str, str],
        *,
        tell: Callable[[Entry], None],
        line: Callable[[str, bytes], None],
    ) -> None:
        self._plan = plan
        self._proxies = proxies
        self._environ = environ
        self._tell = tell
        self._line = line
        self._inbox: queue.SimpleQueue[Spoken | Ended | _Interrupt] = queue.SimpleQueue()
        self._began = time.monotonic()
        self._origin = None if plan.from_rotation else 0.0
        self._moves: list[Move] = list(moves(plan.faults))
        self._instances: list[Instance] = []
        self._updates: list[_Update] = []
        self._entries: list[Entry] = []
        self._faults: list[Happened] = []
        self._wedged: dict[int, list[tuple[Instance, int]]] = {}
        self._vain = 0
        self._told = True
        self._interrupts = 0

    def interrupt(self) -> None:
        """Have the rehearsal end: the first call by TERM and grace, a second one by KILL. A signal handler may call it.

        It raises nothing in the loop's thread: what a handler raises is lost where it meets a callback of the
        interpreter's own, and then nobody would end the command.
        """
        self._interrupts += 1
        self._inbox.put(_Interrupt())

    def run(self) -> Record:
        """Rehearse to the end, and return what happened.

        Raises :class:`CannotStartError`, and :class:`RehearsalInterruptedError` after :meth:`interrupt`.
        """
        self._began = time.monotonic()
        try:
            self._launch(0.0)
            while not self._over():
                self._pass()
                if self._interrupts:
                    raise RehearsalInterruptedError
            end = self._now()
            self._told = False
            return Record(tuple(self._entries), tuple(self._faults), end, self._proxies.silent)
        finally:
            self._told = False
            self._end()

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _over(self) -> bool:
        now, plan = self._now(), self._plan
        if self._origin is None:
            figures = plan.settings.figures
            given_up = patience(figures.startup) + patience(figures.readiness) + ALLOWANCE_SECONDS
            return now >= given_up or self._vain >= VAIN_EXITS
        if now >= self._origin + plan.seconds or self._vain >= VAIN_EXITS:
            return True
        return plan.settle is not None and not self._moves and self._settled(now, plan.settle)

    def _settled(self, now: float, settle: float) -> bool:
        """Say whether the service came back after the last fault had begun, and has been well for so long."""
        if any(update.old.container.phase is not Phase.GONE for update in self._updates) or not self._faults:
            return False
        began, ended = self._faults[-1].began, self._faults[-1].ended or 0.0
        changes = [entry for entry in self._entries if entry.what in {What.ENTERED, What.LEFT, What.WARNED}]
        came_back = any(entry.what is What.ENTERED and entry.at > began for entry in changes)
        well = any(each.container.in_rotation and not each.warnings for each in self._instances)
        return came_back and well and now >= max(ended, changes[-1].at) + settle

    def _pass(self) -> None:
        now = self._now()
        for instance in self._instances:
            instance.tick(now)
        if self._origin is None and any(instance.container.in_rotation for instance in self._instances):
            self._origin = now
        self._move(now)
        self._roll(now)
        for instance in self._instances:
            instance.ask(now)
        self._hear(self._pause())

    def _pause(self) -> float:
        now = self._now()
        instants = [instance.next_instant() for instance in self._instances]
        if self._origin is not None:
            instants += [self._origin + move.at for move in self._moves[:1]]
            instants.append(self._origin + self._plan.seconds)
        return max(0.0, min(LONGEST_PAUSE_SECONDS, *(instant - now for instant in instants)))

    def _hear(self, seconds: float) -> None:
        try:
            message = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return
        now = self._now()
        if isinstance(message, _Interrupt):
            return
        if isinstance(message, Ended):
            answered = any(entry.what is What.STARTED for entry in self._entries)
            self._vain = 0 if answered or message.instance.container.phase is not Phase.STARTING else self._vain + 1
            message.instance.ended(message, now)
        else:
            message.instance.spoken(message, now)

    # --- faults ---------------------------------------------------------------------------------------------------

    def _move(self, now: float) -> None:
        while self._origin is not None and self._moves and self._origin + self._moves[0].at <= now:
            move = self._moves.pop(0)
            subject = move.fault.name or SUBJECTS[move.fault.how]
            if move.begins:
                self._faults.append(Happened(move.fault, now, None))
                self._note(Entry(now, What.FAULT_BEGAN, subject, str(move.fault)))
            else:
                self._finish(self._number(move.fault), now)
            self._apply(move, now)

    def _number(self, fault: Fault) -> int:
        return next(number for number, happened in enumerate(self._faults) if happened.fault is fault)

    def _finish(self, number: int, now: float) -> None:
        happened = self._faults[number]
        self._faults[number] = Happened(happened.fault, happened.began, now)
        subject = happened.fault.name or SUBJECTS[happened.fault.how]
        self._note(Entry(now, What.FAULT_ENDED, subject, str(happened.fault)))

    def _apply(self, move: Move, now: float) -> None:
        fault = move.fault
        if fault.how in OF_DEPENDENCIES:
            self._proxies.set(fault.name, fault.how if move.begins else None, fault.delay if move.begins else 0.0)
        elif fault.how is How.ROLL:
            self._updates.append(_Update(self._number(fault), self._instances[-1], self._launch(now)))
        elif move.begins:
            self._wedged[self._number(fault)] = [(each, each.container.launches) for each in self._instances]
            self._signal(self._number(fault), signal.SIGSTOP)
        else:
            self._signal(self._number(fault), signal.SIGCONT)

    def _signal(self, number: int, what: signal.Signals) -> None:
        for instance, launch in self._wedged[number]:
            # What has taken the place of a process that was stopped is none of this fault's business.
            if instance.container.launches == launch:
                instance.signal(what)

    def _roll(self, now: float) -> None:
        for update in self._updates:
            if not update.deleting and update.new.container.in_rotation:
                update.deleting = True
                update.old.delete(now)
            over = update.deleting and update.old.container.phase is Phase.GONE
            if over and self._faults[update.number].ended is None:
                self._finish(update.number, now)

    # --- instances ------------------------------------------------------------------------------------------------

    def _launch(self, now: float) -> Instance:
        number = len(self._instances) + 1
        port = _free_port() if PORT_FIELD in self._plan.target else ""

        def filled(text: str) -> str:
            return text.replace(PORT_FIELD, str(port))

        name = "app" if number == 1 else f"app-{number}"
        instance = Instance(
            name,
            filled(self._plan.target),
            tuple(map(filled, self._plan.argv)) if port else self._plan.argv,
            environ=self._environ,
            settings=self._plan.settings,
            note=self._note,
            say=self._inbox.put,
            line=self._line,
        )
        self._instances.append(instance)
        instance.tick(now)
        if instance.fault is not None:
            raise CannotStartError(f"{self._plan.argv[0]}: {instance.fault}")
        return instance

    def _note(self, entry: Entry) -> None:
        self._entries.append(entry)
        if self._told:
            self._tell(entry)

    def _end(self) -> None:
        """End every instance: TERM, and KILL after grace. Nothing is left of any (law 3)."""
        try:
            for number in self._wedged:
                self._signal(number, signal.SIGCONT)
            for instance in self._instances:
                instance.delete(self._now())
            while any(instance.container.phase is not Phase.GONE for instance in self._instances):
                for instance in self._instances:
                    instance.tick(self._now())
                    if self._interrupts > 1:
                        instance.signal(signal.SIGKILL)
                self._hear(self._pause())
        finally:  # whatever has happened in there
            for instance in self._instances:
                instance.signal(signal.SIGKILL)
            for instance in self._instances:
                instance.join()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
