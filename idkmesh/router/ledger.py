"""The ledger: each invocation that names a target is one event (RT-10.1). Its payload has no way in.

Laws of this module:

1. An entry is closed once: by whoever answers, or by the end of the router, which abandons it.
2. What is answered stands in the ledger before the answer leaves, or is counted and told as missing there.
"""

from __future__ import annotations

import enum
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh.changes import Change
from idkmesh.histogram import Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.clock import Clock
    from idkmesh.topology.model import State, Target

INVOKED: Final = "idkmesh.agent.invoked"


class Outcome(enum.Enum):
    """What came of an invocation."""

    ANSWERED = "answered"
    AGENT_UNAVAILABLE = "AGENT_UNAVAILABLE"
    AGENT_TRANSPORT_FAILED = "AGENT_TRANSPORT_FAILED"
    TOO_MANY_OBSERVATIONS = "too_many_observations"
    ABANDONED = "abandoned"
    """The router ended while the agent was asked."""
    FAULT = "fault"
    """The router's own: the caller was answered 500."""


@dataclass(eq=False, slots=True)
class Entry:
    """One invocation that goes on. ``began`` is monotonic seconds.

    ``state`` and ``revision`` are what the selection found, None before it did or where nothing is observed.
    """

    target: Target
    credential: str
    began: float
    state: State | None = None
    revision: int | None = None


class Ledger:
    """Writes the events of one router. Any thread may call any method.

    ``record`` commits a change as an event and says whether it is kept; it may wait. ``tell`` takes one without that,
    for the end, which is not to wait for each. ``line`` takes a line and a level of :mod:`logging`.
    """

    def __init__(
        self,
        clock: Clock,
        record: Callable[[Change], bool],
        tell: Callable[[Change], None],
        line: Callable[[str, int], None],
    ) -> None:
        self._clock = clock
        self._record = record
        self._tell = tell
        self._line = line
        self._lock = threading.Lock()
        self._open: set[Entry] = set()
        self._timings = dict.fromkeys(Outcome, Timing())
        self._missing = 0
        self._failing = False

    def open(self, target: Target, credential: str) -> Entry:
        """Begin an invocation."""
        entry = Entry(target, credential, self._clock.monotonic())
        with self._lock:
            self._open.add(entry)
        return entry

    def close(self, entry: Entry, outcome: Outcome, status: int | None, reason: str | None = None) -> None:
        """Write what came of it. ``status`` is that of the answer, ``reason`` the word of a transport that failed."""
        now = self._clock.monotonic()
        if self._closed(entry, outcome, now):
            self._keep(_change(entry, outcome, status, reason, now))

    def abandon_all(self) -> None:
        """Write that what goes on is abandoned. For the end."""
        with self._lock:
            left = list(self._open)
        now = self._clock.monotonic()
        for entry in left:
            if self._closed(entry, Outcome.ABANDONED, now):
                self._tell(_change(entry, Outcome.ABANDONED, None, None, now))

    def timings(self) -> dict[Outcome, Timing]:
        """Return how many had which outcome, none included, and how long they took."""
        with self._lock:
            return dict(self._timings)

    @property
    def missing(self) -> int:
        """How many are not known to be kept."""
        return self._missing

    def _closed(self, entry: Entry, outcome: Outcome, now: float) -> bool:
        """Count an entry and take it out; say whether it was still there."""
        with self._lock:
            if entry not in self._open:
                return False
            self._open.remove(entry)
            self._timings[outcome] = self._timings[outcome].with_one(now - entry.began)
            return True

    def _keep(self, change: Change) -> None:
        kept = self._record(change)
        with self._lock:
            self._missing += not kept
            crossed, self._failing = self._failing == kept, not kept
        if crossed and kept:
            self._line("the ledger is kept again", logging.INFO)
        elif crossed:
            self._line(
                "invocations are answered and not known to be in the ledger: the event store does not keep them in "
                "time; idkmesh_router_invocations_missing_total counts them",
                logging.ERROR,
            )


def _change(entry: Entry, outcome: Outcome, status: int | None, reason: str | None, now: float) -> Change:
    target = entry.target
    facts: dict[str, Any] = {
        "agentId": target.agent_id,
        "agentCardVersion": target.agent_card_version,
        "releaseId": target.release_id,
        "credential": entry.credential,
        "outcome": outcome.value,
        "state": None if entry.state is None else entry.state.value,
        "localRevision": entry.revision,
        "status": status,
        "seconds": round(now - entry.began, 6),
    }
    return Change(INVOKED, str(target), facts if reason is None else {**facts, "reason": reason})
