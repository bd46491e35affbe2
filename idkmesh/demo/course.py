"""The course of a demo: which fault is on, what was announced, and whether it was seen (DM-2.3, DM-2.4, DM-3). Pure.

Laws of this module:

1. :data:`TRANSITIONS` is the one machine of phases. What a phase does not allow is asked of no transition, and said.
2. ``now`` and what was seen are arguments; nothing here reads a clock, does a fault, or prints.
3. What was asked before a fault began says nothing of it.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from idkmesh.demo.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from idkmesh.demo.faults import Expectation, Fault

CALM_SECONDS: Final = 10.0
"""Before the first fault of the schedule, and between two (DM-2.4)."""


class Phase(enum.Enum):
    """Where a demo is."""

    STARTING = "starting"
    CALM = "calm"
    FAULT = "fault"
    RECOVERY = "recovery"


class Step(enum.Enum):
    """What moves it on."""

    WELL = enum.auto()
    BEGIN = enum.auto()
    UNDO = enum.auto()
    DONE = enum.auto()


TRANSITIONS: Final = {
    (Phase.STARTING, Step.WELL): Phase.CALM,
    (Phase.CALM, Step.BEGIN): Phase.FAULT,
    (Phase.FAULT, Step.UNDO): Phase.RECOVERY,
    (Phase.RECOVERY, Step.DONE): Phase.CALM,
}


class Tone(enum.Enum):
    """What a line is about."""

    NOTE = "note"
    FAULT = "fault"
    SEE = "see"
    WHY = "why"
    SEEN = "seen"
    LATE = "late"
    MISSED = "missed"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Said:
    """A line for people, at ``at`` seconds since the start."""

    at: float
    tone: Tone
    text: str

    def __str__(self) -> str:
        return f"{self.at:7.1f} s  {self.tone.value:<6}  {self.text}"


@dataclass(frozen=True, slots=True)
class Do:
    """What is to be done now: begin a fault, or undo it."""

    fault: Fault
    undo: bool


@dataclass(slots=True)
class Tally:
    """How many expectations came to what."""

    seen: int = 0
    late: int = 0
    missed: int = 0

    def __str__(self) -> str:
        return f"{self.seen} seen in time, {self.late} late, {self.missed} not as announced"


@dataclass(slots=True)
class Course:
    """The state. ``until`` is when the demo ends by itself, in the same seconds as ``now``; infinity for never."""

    faults: Sequence[Fault]
    began: float
    until: float = math.inf
    calm: float = CALM_SECONDS
    scheduled: bool = True
    phase: Phase = Phase.STARTING
    fault: Fault | None = None
    since: float = 0.0
    """When the phase began."""
    tally: Tally = field(default_factory=Tally)
    _next: int = 0
    _before: Seen = field(default_factory=Seen)
    _open: list[Expectation] = field(default_factory=list)
    _broken: set[str] = field(default_factory=set)

    def well(self, now: float) -> Iterator[Said]:
        """Begin: all parts are there."""
        if self._moves(Step.WELL, now):
            yield self._said(now, Tone.NOTE, f"all parts are well after {now - self.began:.1f} s")
            yield from self._coming(now)

    def ask_for(self, fault: Fault, now: float, seen: Seen) -> Iterator[Said | Do]:
        """Begin a fault that somebody wants, or say why not (DM-2.3)."""
        if self.phase is Phase.STARTING:
            yield self._said(now, Tone.NOTE, "not yet: the parts are starting")
        elif self.phase is not Phase.CALM and self.fault is not None:
            ends = "u ends it" if self.phase is Phase.FAULT else "it is being recovered from"
            yield self._said(now, Tone.NOTE, f"one at a time: {self.fault.name} is on; {ends}")
        else:
            yield from self._begin(fault, now, seen)

    def end_fault(self, now: float) -> Iterator[Said | Do]:
        """End the fault that is on, before its time if need be."""
        if self.phase is not Phase.FAULT or self.fault is None:
            yield self._said(now, Tone.NOTE, "no fault is on")
            return
        if self._open:
            left = ", ".join(each.what for each in self._open)
            yield self._said(now, Tone.NOTE, f"ended early; not waited for: {left}")
        yield from self._undo(now)

    def switch(self, now: float) -> Iterator[Said]:
        """Stop the schedule, or start it again."""
        self.scheduled = not self.scheduled
        if self.phase is Phase.CALM:
            self.since = now
        yield self._said(now, Tone.NOTE, f"the schedule is {'on' if self.scheduled else 'off'}")
        if self.phase is Phase.CALM:
            yield from self._coming(now)

    def missed_time(self, now: float, seconds: float) -> Iterator[Said]:
        """Leave out seconds in which nobody looked: Ctrl-Z has stopped this process, or Ctrl-S its terminal."""
        self.began += seconds
        self.since += seconds
        self.until += seconds
        yield self._said(now, Tone.NOTE, f"on again: {seconds:.0f} s without a look, which count for nothing")

    def tick(self, now: float, seen: Seen) -> Iterator[Said | Do]:
        """Judge what was seen, and do what is due."""
        if self.phase is Phase.CALM:
            if self.scheduled and now >= self.since + self.calm and (fault := self._following(now)) is not None:
                yield from self._begin(fault, now, seen)
            return
        if self.fault is None:
            return
        yield from self._judged(now, seen.since(self.since))
        if self.phase is Phase.FAULT and not self._open and now >= self.since + self.fault.seconds:
            yield from self._undo(now)
        elif self.phase is Phase.RECOVERY and not self._open:
            yield self._said(now, Tone.OVER, f"{self.fault.name}: over")
            self.fault = None
            self._moves(Step.DONE, now)
            yield from self._coming(now)

    def countdown(self, now: float) -> tuple[str, float] | None:
        """Return what comes next, in words that end with "in" or "within", and the seconds; None where nobody knows."""
        if self.phase is Phase.CALM and self.scheduled:
            fault = self._following(now)
            return None if fault is None else (f"next: {fault.name} in", max(0.0, self.since + self.calm - now))
        if self.fault is None:
            return None
        if self._open:
            first = min(self._open, key=lambda each: each.bound)
            return f"{first.what} within", max(0.0, self.since + first.bound - now)
        return "undone in", max(0.0, self.since + self.fault.seconds - now)

    def _coming(self, now: float) -> Iterator[Said]:
        if self.scheduled:
            fault = self._following(now)
            none = "no fault could be over by the end"
            text = none if fault is None else f"next: {fault.name} in {self.calm:.0f} s"
            yield self._said(now, Tone.NOTE, text)

    def _following(self, now: float) -> Fault | None:
        """Return the next fault of the schedule, passing over those that could not be over in time."""
        for step in range(len(self.faults)):
            fault = self.faults[(self._next + step) % len(self.faults)]
            begins = max(now, self.since + self.calm) if self.phase is Phase.CALM else now
            if begins + fault.longest <= self.until:
                return fault
        return None

    def _begin(self, fault: Fault, now: float, seen: Seen) -> Iterator[Said | Do]:
        self._moves(Step.BEGIN, now)
        self.fault, self._before = fault, seen
        self._next = (self.faults.index(fault) + 1) % len(self.faults)
        self._open, self._broken = list(fault.then), set()
        yield self._said(now, Tone.FAULT, f"{fault.name}: {fault.does}")
        yield self._said(now, Tone.SEE, fault.see)
        yield self._said(now, Tone.WHY, fault.why)
        yield Do(fault, undo=False)

    def _undo(self, now: float) -> Iterator[Said | Do]:
        if self.fault is None:
            return
        self._moves(Step.UNDO, now)
        self._open = list(self.fault.after)
        yield self._said(now, Tone.NOTE, f"{self.fault.name}: undone")
        yield Do(self.fault, undo=True)

    def _judged(self, now: float, seen: Seen) -> Iterator[Said]:
        took = now - self.since
        for each in list(self._open):
            if each.holds(seen, self._before):
                self._open.remove(each)
                yield self._counted(now, each, took)
            elif took > each.given_up:
                self._open.remove(each)
                self.tally.missed += 1
                yield self._said(now, Tone.MISSED, f"{each.what}: not seen in {took:.0f} s (bound {each.bound:.1f} s)")
        if self.phase is Phase.FAULT and self.fault is not None:
            for each in self.fault.stays:
                if each.what not in self._broken and not each.holds(seen, self._before):
                    self._broken.add(each.what)
                    self.tally.missed += 1
                    yield self._said(now, Tone.MISSED, f"{each.what}: it does not, after {took:.1f} s")

    def _counted(self, now: float, each: Expectation, took: float) -> Said:
        if took <= each.bound:
            self.tally.seen += 1
            return self._said(now, Tone.SEEN, f"{each.what}: seen after {took:.1f} s (bound {each.bound:.1f} s)")
        self.tally.late += 1
        return self._said(now, Tone.LATE, f"{each.what}: seen late, after {took:.1f} s (bound {each.bound:.1f} s)")

    def _moves(self, step: Step, now: float) -> bool:
        following = TRANSITIONS.get((self.phase, step))
        if following is None:
            return False
        self.phase, self.since = following, now
        return True

    def _said(self, now: float, tone: Tone, text: str) -> Said:
        return Said(now - self.began, tone, text)
