"""What is kept of a dependency's runs: the last results (HL-5.3), and what is counted of all of them (HL-5.5). Pure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh.events.envelope import time_text
from idkmesh.health.model import Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from idkmesh.health.model import Result

KEPT: Final = 60
"""Results that are kept of each dependency (HL-5.3)."""

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of probe seconds; one more bucket has no bound."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A result, and the wall clock when it began: a label, taken once and never computed with."""

    result: Result
    time: datetime

    def document(self) -> dict[str, Any]:
        """Return it as one of the ``results`` of HL-5.3."""
        return {
            "time": time_text(self.time),
            "outcome": self.result.outcome.value,
            "latency_ms": round(self.result.latency * 1000, 3),
            "detail": self.result.detail,
        }


@dataclass(frozen=True, slots=True)
class History:
    """The newest results, the oldest of them first, and counts since the dependency was declared as it is.

    ``buckets`` are counts for each of :data:`BUCKETS` and beyond, not summed up; they and ``seconds`` count runs that
    could be made alone.
    """

    entries: tuple[Entry, ...] = ()
    outcomes: tuple[int, ...] = (0,) * len(Outcome)
    buckets: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)
    seconds: float = 0.0

    def with_entry(self, entry: Entry) -> History:
        """Return the history with one result more, and without the oldest where there are too many."""
        result = entry.result
        ran = result.outcome is not Outcome.COULD_NOT_RUN
        place = bisect_left(BUCKETS, result.latency)
        return History(
            (*self.entries, entry)[-KEPT:],
            tuple(count + (result.outcome is outcome) for outcome, count in zip(Outcome, self.outcomes, strict=True)),
            tuple(count + (index == place) for index, count in enumerate(self.buckets)) if ran else self.buckets,
            self.seconds + result.latency if ran else self.seconds,
        )

    def documents(self) -> list[dict[str, Any]]:
        """Return the results as HL-5.3 lists them."""
        return [entry.document() for entry in self.entries]

    def outcome_counts(self) -> dict[str, int]:
        """Return how many runs came to each outcome."""
        return {outcome.value: count for outcome, count in zip(Outcome, self.outcomes, strict=True)}
