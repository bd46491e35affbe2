"""One instance of the service: its container's decisions, done (HL-8.2, HL-8.4). For the loop's thread alone."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.rehearsal import orchestrator
from idkmesh.rehearsal.orchestrator import Answer, Container, Do, Kind, Phase
from idkmesh.rehearsal.prober import Said, ask
from idkmesh.rehearsal.process import Process
from idkmesh.rehearsal.timeline import Entry, What

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.rehearsal.orchestrator import Decision, Settings, Step

JOIN_SECONDS: Final = 0.5
"""What a question may take beyond its deadline to be over: the name of the target is looked up without one."""

_ENTRIES: Final = {
    Do.START: What.LAUNCHED,
    Do.STARTED: What.STARTED,
    Do.ENTER: What.ENTERED,
    Do.LEAVE: What.LEFT,
    Do.TERMINATE: What.TERMINATED,
    Do.KILL: What.KILLED,
    Do.WAIT: What.EXITED,
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A question has been answered, or has timed out."""

    instance: Instance
    kind: Kind
    launch: int
    said: Said


@dataclass(frozen=True, slots=True)
class Ended:
    """A process has ended."""

    instance: Instance
    launch: int
    how: str


class Instance:
    """One instance. ``say`` takes messages from threads; they come back by :meth:`spoken` and :meth:`ended`."""

    def __init__(  # noqa: PLR0913  who it is, what it runs, and whom it speaks to
        self,
        name: str,
        target: str,
        argv: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        settings: Settings,
        note: Callable[[Entry], None],
        say: Callable[[Spoken | Ended], None],
        line: Callable[[str, bytes], None],
    ) -> None:
        self.name = name
        self.container = Container()
        self._target = target.rstrip("/")
        self._argv = argv
        self._environ = environ
        self._settings = settings
        self._note = note
        self._say = say
        self._line = line
        self.warnings: tuple[str, ...] = ()
        """What the last success of readiness named."""
        self.fault: str | None = None
        """Why the command could not be started, the last time that it was to be."""
        self._process: Process | None = None
        self._processes: list[Process] = []
        self._askers: list[threading.Thread] = []
        self._said: dict[Kind, str] = {}

    def next_instant(self) -> float:
        """Return when it is to be looked at next, in seconds since the start."""
        return orchestrator.next_instant(self.container)

    def tick(self, now: float) -> None:
        """Take in that it is now so late."""
        self._take(orchestrator.passed(self.container, now, self._settings), now)

    def ask(self, now: float) -> None:
        """Ask what is due, each question in a thread of its own."""
        self._askers = [thread for thread in self._askers if thread.is_alive()]
        for kind in orchestrator.due(self.container, now):
            self.container = orchestrator.asked(self.container, kind, now, self._settings)
            asker = threading.Thread(target=self._ask, args=(kind, self.container.launches), daemon=True)
            asker.name = f"rehearsal-{kind.value}"
            self._askers.append(asker)
            asker.start()

    def spoken(self, message: Spoken, now: float) -> None:
        """Take an answer in."""
        kind, said = message.kind, message.said
        if message.launch != self.container.launches:
            return
        if self._said.get(kind) != said.detail and kind in orchestrator.ASKED.get(self.container.phase, ()):
            self._said[kind] = said.detail
            self._note(Entry(now, What.ANSWERED, self.name, f"{kind.path}: {said.detail}"))
        if kind is Kind.READINESS and said.ok and said.warnings != self.warnings:
            self.warnings = said.warnings
            self._note(Entry(now, What.WARNED, self.name, ", ".join(said.warnings) or "none", said.warnings))
        answer = Answer(kind, message.launch, said.ok, said.detail)
        self._take(orchestrator.answered(self.container, answer, now, self._settings), now, kind.value)

    def ended(self, message: Ended, now: float) -> None:
        """Take in that its process has ended."""
        last = self.container.phase is Phase.LEAVING
        self._take(orchestrator.exited(self.container, now, self._settings, message.how), now)
        if last:
            self._note(Entry(now, What.EXITED, self.name, message.how))

    def delete(self, now: float) -> None:
        """End it for good."""
        self._take(orchestrator.deleted(self.container, now, self._settings), now)

    def signal(self, number: signal.Signals) -> None:
        """Signal its process's group, if there is one."""
        if self._process is not None:
            self._process.signal(number)

    def join(self) -> None:
        """Wait for its threads."""
        for process in self._processes:
            process.join()
        longest = max(self._settings.of(kind).timeout_ms for kind in Kind) / 1000
        for thread in self._askers:
            thread.join(longest + JOIN_SECONDS)

    def _take(self, step: Step, now: float, cause: str = "") -> None:
        self.container, decisions = step
        for decision in decisions:
            self._do(decision, now, cause)

    def _do(self, decision: Decision, now: float, cause: str) -> None:
        # The cause, a kind of question, tells a restart from an end that was asked for.
        names = (cause,) if decision.do is Do.TERMINATE and cause else ()
        self._note(Entry(now, _ENTRIES[decision.do], self.name, decision.why, names))
        if decision.do is Do.START:
            self._start()
        elif decision.do is Do.TERMINATE:
            self.signal(signal.SIGTERM)
        elif decision.do is Do.KILL:
            self.signal(signal.SIGKILL)

    def _start(self) -> None:
        launch = self.container.launches
        self._said.clear()
        self.warnings = ()
        self.fault = None
        try:
            self._process = Process(
                self._argv,
                self._environ,
                line=lambda line: self._line(self.name, line),
                ended=lambda how: self._say(Ended(self, launch, how)),
            )
            self._processes.append(self._process)
        except (OSError, ValueError) as error:  # ValueError: a NUL
            self._process = None
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.fault = f"cannot be started: {reason}"
            self._say(Ended(self, launch, self.fault))

    def _ask(self, kind: Kind, launch: int) -> None:
        said = ask(self._target + kind.path, self._settings.of(kind).timeout_ms / 1000)
        self._say(Spoken(self, kind, launch, said))
