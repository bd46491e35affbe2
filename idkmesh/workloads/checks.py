"""What a check says (AR-3.3, AR-3.6): a run of a command as a probe, and two probes as one word. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.workloads.model import Probe, RunEnd, Word

if TYPE_CHECKING:
    from idkmesh.workloads.model import Run

NOT_STARTED_CODES: Final = (126, 127)
"""What a platform answers for a program that is missing or may not be run. The program itself may mean something by
them; since both look alike, neither fails an instance (AR-3.3)."""

SIGNAL_BASE: Final = 128
"""An exit status above this is the number of a signal more."""

NOTHING_KNOWN: Final = "nothing known"
"""The detail where no check says anything (AR-3.6)."""

MAX_REASON_CHARACTERS: Final = 320
"""Bound of a reason: it stands in documents, events and lines of a log. A platform's has two paths, and what to do."""

_PORT: Final = "port check"
_COMMAND: Final = "readiness command"
_ENDINGS: Final = {Word.FAILS: "failing", Word.PASSES: "passing"}


def nothing(reason: str, seconds: float = 0.0) -> Probe:
    """Return the probe of a check that says nothing, and why."""
    return Probe(Word.NOTHING, shown(reason), seconds)


def shown(text: str) -> str:
    """Return a reason as one printable line of bounded length."""
    return printable(text[:MAX_REASON_CHARACTERS])


def printable(text: str) -> str:
    """Return a text with a question mark for what no terminal shows: controls, turns of direction, half a pair."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def probe_of_run(run: Run) -> Probe:
    """Return what a run of a readiness command says (AR-3.3, AR-3.4).

    Exit status 0 passes. Any other one, a signal and the time limit fail. A command that could not be run, or that has
    left something behind, says nothing.
    """
    match run.end:
        case RunEnd.EXITED:
            return _exited(run)
        case RunEnd.TIMED_OUT:
            return Probe(Word.FAILS, "over its time limit", run.seconds)
        case RunEnd.LEFT_BEHIND:
            reason = run.reason or "it left something running that holds its output"
            return Probe(Word.NOTHING, shown(reason), run.seconds, misdeclared=True)
        case RunEnd.COULD_NOT_RUN:
            return nothing(run.reason or "could not run", run.seconds)


def combine(port: Probe | None, command: Probe | None) -> tuple[Word, str]:
    """Return what both checks come to, and the detail that says which of them (AR-3.6). None is a check that is not.

    Any failure fails, otherwise any pass passes: an instance without a port is judged by its command alone.
    """
    for word, ending in _ENDINGS.items():
        which = [name for name, probe in ((_PORT, port), (_COMMAND, command)) if probe and probe.word is word]
        if which:
            return word, f"{' and '.join(which)} {ending}"
    return Word.NOTHING, NOTHING_KNOWN


def _exited(run: Run) -> Probe:
    if run.code is None:
        return nothing(run.reason or "its exit status is not known", run.seconds)
    if run.code == 0:
        return Probe(Word.PASSES, "exit status 0", run.seconds)
    if run.code in NOT_STARTED_CODES:
        return nothing(f"exit status {run.code}: no such program, or it may not be run", run.seconds)
    if run.code > SIGNAL_BASE:
        return Probe(Word.FAILS, f"ended by signal {run.code - SIGNAL_BASE}", run.seconds)
    return Probe(Word.FAILS, f"exit status {run.code}", run.seconds)
