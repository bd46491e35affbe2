"""What every kind of probe shares: a hard deadline, a judged result, no exception that leaves it (HL-4.1, HL-4.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.health.model import Outcome, Result
from idkmesh.health.probes.words import ProbeError, could_not_run, failed, word_of

if TYPE_CHECKING:
    from idkmesh.clock import Clock
    from idkmesh.health.probes.abandonable import Abandonable

MAX_DETAIL_CHARACTERS: Final = 200
"""Bound of a detail (HL-4.12)."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant by which a run has ended, in the clock's monotonic seconds. Nothing extends it."""

    clock: Clock
    at: float

    def left(self) -> float:
        """Return the seconds that are left, never below 0."""
        return max(0.0, self.at - self.clock.monotonic())

    def wait(self) -> float:
        """Return the seconds that are left for one more wait, or raise that the run has timed out."""
        left = self.left()
        if left <= 0:
            raise failed("timeout")
        return left


class Said(NamedTuple):
    """What a run says: its outcome, and a short word on it."""

    outcome: Outcome
    detail: str


def judged(said: Said, latency: float, timeout: float) -> Said:
    """Return what counts (seconds): a success that came after the deadline is none, and a detail is fit to be shown."""
    if said.outcome is Outcome.OK and latency > timeout:
        return Said(Outcome.FAILED, "timeout")
    shown = "".join(character if character.isprintable() else "?" for character in said.detail[:MAX_DETAIL_CHARACTERS])
    return Said(said.outcome, shown)


class DeadlineProbe(ABC):
    """A probe of one kind, as the runner wants it. It says what it does in :meth:`attempt`; the rest is common.

    ``calls`` are its calls that cannot be interrupted, if it makes any.
    """

    def __init__(self, calls: Abandonable | None = None) -> None:
        self._calls = calls

    @abstractmethod
    def attempt(self, deadline: Deadline) -> str:
        """Ask once, and return the word of a success; raise :class:`ProbeError` or :class:`OSError` for all else."""

    def close(self) -> None:  # noqa: B027  most kinds have nothing to end
        """End what a run has started and its deadline has not ended yet. A probe is not run after that."""

    def run(self, timeout: float, clock: Clock) -> Result:
        """Ask once, for at most ``timeout`` seconds in all. Raises for nothing that it or the file does."""
        began = clock.monotonic()
        said = self._said(Deadline(clock, began + timeout))
        latency = clock.monotonic() - began
        return Result(
            began, latency, *judged(said, latency, timeout), hanging=self._calls is not None and self._calls.out
        )

    def _said(self, deadline: Deadline) -> Said:
        # No error is kept beyond its clause: its traceback leads to this frame, and all of a run would wait for the
        # garbage collector.
        try:
            return Said(Outcome.OK, self.attempt(deadline))
        except ProbeError as error:
            return Said(error.outcome, error.detail)
        except OSError as error:
            word = word_of(error)
        except Exception as error:  # noqa: BLE001  a fault of the probe's own says nothing of the dependency (HL-4.2)
            word = could_not_run(f"a fault of the probe: {type(error).__name__}")
        return Said(word.outcome, word.detail)
