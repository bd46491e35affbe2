"""What has happened in a rehearsal, and for how long it was so (HL-8.6). Pure. Times are seconds since its start."""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class What(enum.Enum):
    """What an entry is about; the value is its name in the document."""

    LAUNCHED = "launched"
    STARTED = "started"
    ENTERED = "entered_rotation"
    LEFT = "left_rotation"
    TERMINATED = "terminated"
    KILLED = "killed"
    EXITED = "exited"
    FAULT_BEGAN = "fault_began"
    FAULT_ENDED = "fault_ended"
    ANSWERED = "answer_changed"
    WARNED = "warnings_changed"


_TEXTS: Final = {
    What.LAUNCHED: "launched",
    What.STARTED: "startup has succeeded",
    What.ENTERED: "in rotation",
    What.LEFT: "out of rotation",
    What.TERMINATED: "TERM",
    What.KILLED: "KILL",
    What.EXITED: "ended",
    What.FAULT_BEGAN: "fault begins",
    What.FAULT_ENDED: "fault ends",
    What.ANSWERED: "",
    What.WARNED: "warnings",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened to ``subject``, an instance (``app``, ``app-2``) or a fault's dependency."""

    at: float
    what: What
    subject: str
    detail: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = ": ".join(filter(None, (_TEXTS[self.what], self.detail)))
        return f"{self.at:8.2f} s  {self.subject:<12} {said}"


@dataclass(frozen=True, slots=True)
class Span:
    """For how long a track was in a state."""

    begin: float
    end: float
    state: str


_PROCESS: Final = {
    What.LAUNCHED: "starting",
    What.STARTED: "running",
    What.TERMINATED: "stopping",
    What.EXITED: "down",
}
_ROTATION: Final = {What.ENTERED: "in", What.LEFT: "out"}


def tracks(entries: Sequence[Entry], end: float) -> dict[str, tuple[Span, ...]]:
    """Return each track with its spans, from 0 to ``end`` without a gap: faults first, then two an instance."""
    found: dict[str, tuple[Span, ...]] = {}
    for subject in _subjects(entries, What.FAULT_BEGAN):
        faults = {What.FAULT_BEGAN: "fault", What.FAULT_ENDED: "well"}
        found[subject] = _spans([entry for entry in entries if entry.subject == subject], faults, "well", end)
    for subject in _subjects(entries, What.LAUNCHED):
        ours = [entry for entry in entries if entry.subject == subject]
        found[f"{subject} process"] = _spans(ours, _PROCESS, "down", end)
        found[f"{subject} rotation"] = _spans(ours, _ROTATION, "out", end)
    return found


def _subjects(entries: Iterable[Entry], what: What) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.subject for entry in entries if entry.what is what))


def _spans(entries: Iterable[Entry], states: Mapping[What, str], first: str, end: float) -> tuple[Span, ...]:
    spans: list[Span] = []
    began, state = 0.0, first
    for entry in entries:
        following = states.get(entry.what)
        if following is None or following == state or entry.at >= end:
            continue
        if entry.at > began:
            spans.append(Span(began, entry.at, state))
        began, state = entry.at, following
    return (*spans, Span(began, end, state))


def served(entries: Iterable[Entry], end: float) -> tuple[Span, ...]:
    """Return the spans since the first time in rotation, ``in`` while any instance is and ``out`` while none is."""
    members: set[str] = set()
    changes: list[tuple[float, bool]] = []
    for entry in entries:
        if entry.what is What.ENTERED:
            members.add(entry.subject)
        elif entry.what is What.LEFT:
            members.discard(entry.subject)
        else:
            continue
        if entry.at < end and (not changes or changes[-1][1] is not bool(members)):
            changes.append((entry.at, bool(members)))
    return tuple(
        Span(at, following, "in" if any_in else "out")
        for (at, any_in), (following, _) in itertools.pairwise([*changes, (end, False)])
    )


def out_of_rotation(entries: Iterable[Entry], end: float) -> float:
    """Return for how many seconds no instance was in rotation, since the first that was."""
    return sum(span.end - span.begin for span in served(entries, end) if span.state == "out")


# --- drawn -----------------------------------------------------------------------------------------------------------

WIDTH: Final = 60

_RANK: Final = ("well", "in", "running", "starting", "stopping", "down", "out", "fault")
"""The later one is shown where a column has several: what is short must not be lost."""

ASCII: Final = dict(zip(_RANK, "##" + "#-~. x", strict=True)) | {"out": ".", "down": " "}
UNICODE: Final = {
    "well": "█", "in": "█", "running": "█", "starting": "▒", "stopping": "▓", "down": " ", "out": "·", "fault": "x",
}  # fmt: skip
LEGEND: Final = (
    ("running", "running, in rotation, well"),
    ("starting", "starting"),
    ("stopping", "stopping"),
    ("out", "out of rotation"),
    ("fault", "fault"),
)


def drawn(found: Mapping[str, Sequence[Span]], end: float, *, ascii_only: bool) -> list[str]:
    """Return a strip for each track, a scale and a legend, each a line."""
    signs = ASCII if ascii_only else UNICODE
    name_width = max((len(name) for name in found), default=0)
    lines = [f"{name:<{name_width}} |{_strip(spans, end, signs)}|" for name, spans in found.items()]
    last = f"{end:.0f} s"
    lines.append(f"{'':<{name_width}}  0{last:>{WIDTH - 1}}")
    return [*lines, "  ".join(f"{signs[state]} {meaning}" for state, meaning in LEGEND)]


def _strip(spans: Sequence[Span], end: float, signs: Mapping[str, str]) -> str:
    width = end / WIDTH
    columns = [
        [span.state for span in spans if span.begin < (number + 1) * width and span.end > number * width]
        for number in range(WIDTH)
    ]
    return "".join(signs[max(states, key=_RANK.index)] if states else " " for states in columns)
