"""What a selector has counted (RT-10.4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from idkmesh.topology.model import State


@dataclass(slots=True)
class Tallies:
    """Counts since the start. Touched under the selector's lock; :meth:`copy` is for everybody else.

    ``transitions`` are by states from and to; ``sessions`` by what became of them: ``opened``, ``renewed``, ``failed``,
    ``closed``, ``refused``. ``selections`` are by outcome: ``selected``, the state that refused, ``refused``.
    ``dropped`` counts what came of watches that were over.
    """

    transitions: Counter[tuple[State, State]] = field(default_factory=Counter)
    sessions: Counter[str] = field(default_factory=Counter)
    selections: Counter[str] = field(default_factory=Counter)
    dropped: int = 0

    def copy(self) -> Tallies:
        """Return one that nobody changes any more."""
        return Tallies(Counter(self.transitions), Counter(self.sessions), Counter(self.selections), self.dropped)
