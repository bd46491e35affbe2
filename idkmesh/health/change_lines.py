"""Changes as lines of a log: what an operator wants to find there without an event store (HL-5.4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from idkmesh.health.changes import (
    DEPENDENCY_CHANGED,
    DEPENDENCY_NOT_RUN,
    LIVENESS_FAILED,
    LIVENESS_RECOVERED,
    MATRIX_RELOADED,
    READINESS_CHANGED,
    SLOT_HELD,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.changes import Change


NAMES_IN_A_LINE: Final = 10
"""Of 63 characters at most: the line stays within what a terminal and a log take whole."""


class ChangeLog:
    """Writes changes as lines to ``log``, which takes a line and a level of :mod:`logging`.

    That a dependency is well of which nothing else was told is no line: a thousand of them start at once. One thread
    writes the changes of dependencies, the scheduler; others may write the rest meanwhile.
    """

    def __init__(self, log: Callable[[str, int], None]) -> None:
        self._log = log
        self._told: set[str | None] = set()
        """Dependencies whose last line says that they are not ok."""

    def write(self, change: Change) -> None:
        """Write a change, if it is a line."""
        line = line_of(change)
        if line is not None and not self._is_first_ok(change):
            self._log(*line)

    def _is_first_ok(self, change: Change) -> bool:
        if change.what not in {DEPENDENCY_CHANGED, DEPENDENCY_NOT_RUN}:
            return False
        if change.facts.get("to") != "ok":
            self._told.add(change.subject)
            return False
        told = change.subject in self._told
        self._told.discard(change.subject)
        return not told


def line_of(change: Change) -> tuple[str, int] | None:
    """Return the line for a change and its level of :mod:`logging`, None for what is no line here."""
    line = _LINES.get(change.what)
    return None if line is None else line(change)


def _dependency(change: Change) -> tuple[str, int]:
    facts = change.facts
    if facts["to"] != "ok":
        kind = "critical" if facts["critical"] else "noncritical"
        return f"dependency {change.subject} ({kind}) is {facts['to']}: {facts['detail']}", logging.WARNING
    return f"dependency {change.subject} is ok again", logging.INFO


def _not_run(change: Change) -> tuple[str, int]:
    kind = "critical" if change.facts["critical"] else "noncritical"
    return f"the probe of {change.subject} ({kind}) cannot be run: {change.facts['detail']}", logging.WARNING


def _readiness(change: Change) -> tuple[str, int] | None:
    facts = change.facts
    if facts["to"] == "not_ready":
        return f"not ready: {_names(facts, 'failing')}", logging.WARNING
    return ("ready again", logging.INFO) if facts["from"] == "not_ready" else None


def _stalled(change: Change) -> tuple[str, int]:
    return f"stalled: {_names(change.facts, 'components')} silent for too long", logging.ERROR


def _recovered(change: Change) -> tuple[str, int]:
    return f"no longer stalled: {_names(change.facts, 'components')}", logging.WARNING


def _held(change: Change) -> tuple[str, int]:
    return f"a worker slot has been held for {change.facts['seconds']:g} s: its handler may wait", logging.WARNING


def _reloaded(change: Change) -> tuple[str, int]:
    facts = change.facts
    counts = ", ".join(f"{facts[word]} {word}" for word in ("kept", "changed", "added", "removed"))
    return f"the probe matrix was read again: {counts}", logging.INFO


def _names(facts: Mapping[str, Any], member: str) -> str:
    shown = facts[member][:NAMES_IN_A_LINE]
    more = facts[f"{member}_total"] - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


_LINES: Final[Mapping[str, Callable[[Change], tuple[str, int] | None]]] = {
    DEPENDENCY_CHANGED: _dependency,
    DEPENDENCY_NOT_RUN: _not_run,
    READINESS_CHANGED: _readiness,
    LIVENESS_FAILED: _stalled,
    LIVENESS_RECOVERED: _recovered,
    SLOT_HELD: _held,
    MATRIX_RELOADED: _reloaded,
}
"""What tells of each type; the others are no lines here."""
