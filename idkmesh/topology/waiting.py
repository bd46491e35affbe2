"""Whether what is waited for has come about, from one look at a projection after the other (RT-12.4). Pure.

Laws of this module:

1. A look is a document of the projection, or nothing where it could not be had. What was seen is all that is known.
2. A revision counts within one session. What shows that the session is another one ends the waiting: it could not tell.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from idkmesh.topology.model import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]


class Verdict(enum.Enum):
    """What a look comes to."""

    WAIT = "wait"
    YES = "yes"
    RENEWED = "renewed"
    """The session that was waited on is over."""
    AMBIGUOUS = "ambiguous"
    """A release id alone, of which several observations are."""


class Seen(NamedTuple):
    """A look at the observation that is waited on."""

    release: str
    state: str
    revision: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is waited for, and what was seen last.

    ``release`` is ``AGENT/VERSION/RELEASE`` or a release id alone. ``after`` is the revision to be passed, None where
    any does.
    """

    release: str
    state: str
    after: int | None = None
    seen: Seen | None = None


def rows_of(document: object) -> list[Row] | None:
    """Return the observations of a projection, None where a document is none."""
    rows = document.get("observations") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not isinstance(document, dict) or document.get("schemaVersion") != "1":
        return None
    return rows if all(_is_row(row) for row in rows) else None


def after_look(waiting: Waiting, rows: Sequence[Row]) -> tuple[Waiting, Verdict]:
    """Return what is known after a look, and what it comes to."""
    seen, before = _sought(waiting, rows), waiting.seen
    if isinstance(seen, Verdict):
        return waiting, seen
    if waiting.after is None:  # no revision counts, so no session does
        met = seen is not None and seen.state == waiting.state
        return replace(waiting, seen=seen or before), Verdict.YES if met else Verdict.WAIT
    if seen is None:
        # A revision above 0 was somebody's look at a session that is no more.
        gone = before is not None or waiting.after > 0
        return waiting, Verdict.RENEWED if gone else Verdict.WAIT
    floor = max(waiting.after, 0 if before is None else before.revision)
    revived = before is not None and before.state == State.UNAVAILABLE.value and seen.state != State.UNAVAILABLE.value
    now = replace(waiting, seen=seen)
    if seen.revision < floor or revived:
        return now, Verdict.RENEWED
    least = waiting.after + (waiting.state != State.UNAVAILABLE.value)  # a failure keeps the revision (RT-2.5)
    return now, Verdict.YES if seen.revision >= least and seen.state == waiting.state else Verdict.WAIT


def _sought(waiting: Waiting, rows: Sequence[Row]) -> Seen | Verdict | None:
    """Return the observation that is waited on; once it was seen, that one and no namesake."""
    wanted = waiting.release if waiting.seen is None else waiting.seen.release
    whole = "/" in wanted
    found = [row for row in rows if wanted == (_name(row) if whole else row["releaseId"])]
    if len(found) > 1:
        return Verdict.AMBIGUOUS
    return Seen(_name(found[0]), found[0]["state"], found[0]["localRevision"]) if found else None


def _name(row: Row) -> str:
    return f"{row['agentId']}/{row['agentCardVersion']}/{row['releaseId']}"


def _is_row(row: object) -> bool:
    texts = ("agentId", "agentCardVersion", "releaseId", "state", "observedAt")
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in texts)
        and type(row.get("localRevision")) is int
    )
