"""When a node is looked at, and what came of a look (RA-7). One state machine; pure: ``now`` is monotonic seconds.

Laws:

1. The table below is the whole machine. At most one look is under way: from RUNNING and ENDING no way leads to RUNNING
   but through the end of that look.
2. The deadline is judged before anything else that a turn has brought: what came while this program was stopped came
   late, however old it is.
3. A failure is known at once, a success when its look is complete.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from idkmesh.adapter.observation import MAX_DOCUMENT_BYTES, Failure, ObservationError, parse_observation
from idkmesh.adapter.verdict import Held, NotStarted, after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.adapter.observation import Observation

CHILD_SECONDS: Final = 1.5
"""How long a child may take, its start included. It does not cover how long the system takes to end a killed one."""

INTERVAL_SECONDS: Final = 1.0
"""Between the completion of a look and the beginning of the next one."""


class Phase(enum.Enum):
    """What becomes of the present look."""

    WAITING = "waiting"
    """There is none; the next one begins when it is due."""
    RUNNING = "running"
    """Its child runs."""
    ENDING = "ending"
    """Its child has ended or is to be killed, with its group; it has not been reaped."""


class Event(enum.Enum):
    """What happens to a look."""

    STARTED = "started"
    NOT_STARTED = "not_started"
    REFUSED = "refused"
    FLOODED = "flooded"
    LATE = "late"
    ENDED = "ended"
    REAPED = "reaped"


TRANSITIONS: Final[Mapping[Phase, Mapping[Event, Phase]]] = {
    Phase.WAITING: {
        Event.STARTED: Phase.RUNNING,
        Event.NOT_STARTED: Phase.WAITING,
        Event.REFUSED: Phase.WAITING,
    },
    Phase.RUNNING: {Event.FLOODED: Phase.ENDING, Event.LATE: Phase.ENDING, Event.ENDED: Phase.ENDING},
    Phase.ENDING: {Event.REAPED: Phase.WAITING},
}
"""A missing entry is a fault of the caller."""

FAILURES: Final[Mapping[Event, str]] = {
    Event.LATE: f"the node's command did not end within {CHILD_SECONDS:g} s",
    Event.FLOODED: f"the node's command printed more than {MAX_DOCUMENT_BYTES} bytes",
}


class Sampler:
    """The looks at one node, one after the other. The first is due at once.

    One thread calls the methods. ``held`` and ``not_begun`` are for any thread to read: each is replaced whole.
    """

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id
        self._phase = Phase.WAITING
        self._until: float | None = None
        self._output = bytearray()
        self._failure: Failure | None = None
        self.held = Held()
        self.not_begun: str | None = None
        """Why the last look could not be begun; None where it was."""
        self.complete = 0
        """How many looks are over, those that could not be begun among them."""

    @property
    def phase(self) -> Phase:
        """What becomes of the present look."""
        return self._phase

    def due(self, now: float) -> bool:
        """Say whether a look is to begin."""
        return self._phase is Phase.WAITING and (self._until is None or now >= self._until)

    def wait(self, now: float) -> float | None:
        """Return in how many seconds something is to be done if nothing happens; None for never."""
        if self._phase is Phase.ENDING:
            return None
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def started(self, now: float) -> None:
        """Take note of a child; ``now`` is from before its start."""
        self._advance(Event.STARTED)
        self._until = now + CHILD_SECONDS
        self._output = bytearray()
        self._failure = None
        self.not_begun = None

    def not_started(self, reason: str, now: float) -> None:
        """Take note of a look that could not be begun (RA-3.4)."""
        self._advance(Event.NOT_STARTED)
        self.not_begun = reason
        self._completed(NotStarted(reason), now)

    def refused(self, reason: str, now: float) -> None:
        """Take note of a look that has failed before a child was started: what it needs is not as it must be."""
        self._advance(Event.REFUSED)
        self._completed(Failure(reason), now)

    def printed(self, data: bytes, now: float) -> None:
        """Take in some of the output."""
        if self._phase is not Phase.RUNNING:
            return
        self._output += data
        if len(self._output) > MAX_DOCUMENT_BYTES:
            self._give_up(Event.FLOODED, now)

    def expire(self, now: float) -> None:
        """End a look that has taken too long. At the top of each turn, before what the turn has brought."""
        if self._phase is Phase.RUNNING and self._until is not None and now >= self._until:
            self._give_up(Event.LATE, now)

    def ended(self) -> None:
        """Take note that the child has ended, and that all it has printed was taken in."""
        if self._phase is Phase.RUNNING:
            self._advance(Event.ENDED)

    def reaped(self, code: int | None, now: float) -> None:
        """Take note that the look is complete. ``code`` is the exit code, None where it was lost."""
        self._advance(Event.REAPED)
        self._completed(self._failure or outcome_of(code, bytes(self._output)), now)
        self._output = bytearray()

    def _give_up(self, event: Event, now: float) -> None:
        self._advance(event)
        self._output = bytearray()
        self._failure = Failure(FAILURES[event])
        self.held = after(self.held, self._failure, self._node_id, now)

    def _completed(self, outcome: Observation | Failure | NotStarted, now: float) -> None:
        self.held = after(self.held, outcome, self._node_id, now)
        self._until = now + INTERVAL_SECONDS
        self.complete += 1

    def _advance(self, event: Event) -> None:
        self._phase = TRANSITIONS[self._phase][event]


def outcome_of(code: int | None, output: bytes) -> Observation | Failure:
    """Return what a child has told that ended in time with the exit code ``code``, negative for a signal's number."""
    if code == 0 and not output.strip():
        return Failure("the node's command printed nothing")
    try:
        told = parse_observation(output)
    except ObservationError as error:
        return Failure(str(error) if code == 0 else _ending(code))
    return told if code == 0 or isinstance(told, Failure) else Failure(_ending(code))


def _ending(code: int | None) -> str:
    """Return what an end other than exit code 0 says."""
    if code is None:
        return "the exit status of the node's command is lost: somebody else waits for any child of the adapter"
    if code < 0:
        return f"the node's command was ended by signal {-code}"
    return f"the node's command ended with exit code {code}"
