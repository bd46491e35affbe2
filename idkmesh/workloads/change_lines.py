"""Changes of workloads as lines of a log. Pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from idkmesh.workloads.changes import (
    COULD_NOT_RUN,
    INSTANCE_HEALTHY,
    INSTANCE_UNHEALTHY,
    LEASE_ACQUIRED,
    LEASE_LOST,
    MISDECLARED,
    MODULES_RELOADED,
    RESTART_FAILED,
    RESTART_REQUESTED,
    RESTARTED,
    SELECTOR,
    platform_reason,
)
from idkmesh.workloads.tracker import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from idkmesh.changes import Change

SHOWN_INSTANCES: Final = 5
"""Of those that become healthy in one pass, by name."""


def line_of(change: Change) -> tuple[str, int] | None:
    """Return the line for a change and its level of :mod:`logging`, None for what is no line here."""
    line = _LINES.get(change.what)
    return None if line is None else line(change)


def _healthy(change: Change) -> tuple[str, int] | None:
    # From unknown each instance becomes healthy at every start: one line has them all (see :func:`healthy_line`).
    if change.facts["from"] != Health.UNHEALTHY.value:
        return None
    return f"instance {change.subject} is healthy again", logging.INFO


def _unhealthy(change: Change) -> tuple[str, int]:
    return f"instance {change.subject} is unhealthy: {change.facts['detail']}", logging.WARNING


def _could_not_run(change: Change) -> tuple[str, int]:
    facts = change.facts
    if "driver" in facts:
        line = platform_reason(facts["driver"], facts["reason"])
    elif facts["check"] == SELECTOR:
        return f"module {change.subject}: {facts['reason']}; this is told once until one is there", logging.WARNING
    else:
        line = f"{facts['check']} of {change.subject} says nothing: {facts['reason']}"
    return f"{line}; this is told once until it can", logging.WARNING


def _misdeclared(change: Change) -> tuple[str, int]:
    line = f"the readiness command of {change.subject} is misdeclared, it says nothing: {change.facts['reason']}"
    return f"{line}; declare one that ends with all that it starts", logging.WARNING


def _requested(change: Change) -> tuple[str, int]:
    facts = change.facts
    seconds = f"{facts['unhealthy_seconds']:.0f} s"
    return f"instance {change.subject} is to be restarted: {facts['detail']}, unhealthy for {seconds}", logging.WARNING


def _restarted(change: Change) -> tuple[str, int]:
    return f"instance {change.subject} was restarted", logging.WARNING


def _failed(change: Change) -> tuple[str, int]:
    return f"instance {change.subject} was not restarted: {change.facts['outcome']}", logging.ERROR


def _acquired(change: Change) -> tuple[str, int]:
    facts = change.facts
    return f"the lease is ours ({facts['lease']}): {facts['holder']} supervises from now on", logging.INFO


def _lost(change: Change) -> tuple[str, int]:
    return f"the lease is no longer ours ({change.facts['lease']}): {change.facts['reason']}", logging.WARNING


def _reloaded(change: Change) -> tuple[str, int]:
    facts = change.facts
    counts = ", ".join(f"{facts[word]} {word}" for word in ("kept", "changed", "added", "removed"))
    others = "".join(f"; platform {name} has changed" for name in facts["platforms"])
    return f"the declaration of modules was read again: {counts}{others}; it counts from the next pass", logging.INFO


def healthy_line(changes: Iterable[Change]) -> str | None:
    """Return one line for all instances that are healthy for the first time, None where none is.

    A line for each would be a thousand at a start.
    """
    found = [
        change.subject
        for change in changes
        if change.what == INSTANCE_HEALTHY and change.facts["from"] != Health.UNHEALTHY.value
    ]
    if not found:
        return None
    rest = len(found) - SHOWN_INSTANCES
    names = ", ".join(str(name) for name in found[:SHOWN_INSTANCES]) + (f" and {rest:,} more" if rest > 0 else "")
    noun = "instance" if len(found) == 1 else "instances"
    return f"{noun} {names} {'is' if len(found) == 1 else 'are'} healthy"


_LINES: Final[Mapping[str, Callable[[Change], tuple[str, int] | None]]] = {
    INSTANCE_HEALTHY: _healthy,
    INSTANCE_UNHEALTHY: _unhealthy,
    COULD_NOT_RUN: _could_not_run,
    MISDECLARED: _misdeclared,
    RESTART_REQUESTED: _requested,
    RESTARTED: _restarted,
    RESTART_FAILED: _failed,
    LEASE_ACQUIRED: _acquired,
    LEASE_LOST: _lost,
    MODULES_RELOADED: _reloaded,
}
"""What tells of each type; the others are no lines here."""
