"""Changes of a topology as lines of a log (RT-10.5). Pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from idkmesh.topology import changes
from idkmesh.topology.model import State

if TYPE_CHECKING:
    from idkmesh.changes import Change


def line_of(change: Change) -> tuple[str, int] | None:
    """Return the line for a change and its level of :mod:`logging`, None for what is no line here.

    Those are a beginning, an end, and a crossing of the provider's, which writes lines of its own (RT-10.5).
    """
    facts = change.facts
    match change.what:
        case changes.CHANGED if facts["to"] == State.UNAVAILABLE.value:
            why = f"{facts['cause']}; refused until it is heard of again"
            return f"release {change.subject}: unavailable, was {facts['from']}: {why}", logging.WARNING
        case changes.CHANGED | changes.RENEWED:
            again = "" if change.what == changes.CHANGED else ", in a new session"
            told = f"{facts['to']}, was {facts['from']}, local revision {facts['localRevision']}{again}"
            return f"release {change.subject}: {told}", logging.INFO
        case changes.REFUSED:
            most = facts["max_observations"]
            return f"{most} releases are observed, which is max_observations; others are refused", logging.WARNING
        case changes.OMITTED:
            return (
                f"{facts['omitted']} more changes of releases in {facts['seconds']:g} s are not told",
                logging.WARNING,
            )
    return None
