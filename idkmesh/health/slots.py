"""Worker slots that are held for long: worth a look, and never a reason to restart (HL-2.3). Pure.

A handler may wait for a downstream that is slow. What is told is the crossing of the limit, once a hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from idkmesh.changes import Change
from idkmesh.health.changes import SLOT_HELD

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

WARNING: Final = "worker_slot"
"""The name among the warnings of readiness, while a slot is held for too long."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Who holds a slot, and since when that has been seen (monotonic seconds); ``held`` are those beyond the limit."""

    since: Mapping[Hashable, float] = field(default_factory=dict)
    held: frozenset[Hashable] = frozenset()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What readiness is to warn of."""
        return (WARNING,) if self.held else ()


def look(before: Slots, holders: Iterable[Hashable], now: float, limit: float) -> tuple[Slots, tuple[Change, ...]]:
    """Take in who holds a slot now. ``limit`` is the largest budget of the watchdog, in seconds.

    A holder is told apart by equality, and must differ from hold to hold. Since a hold is noticed when somebody looks,
    it has lasted for at least as long as is said.
    """
    since = {holder: before.since.get(holder, now) for holder in holders}
    held = frozenset(holder for holder, first in since.items() if now - first > limit)
    changes = tuple(
        Change(SLOT_HELD, None, {"seconds": round(now - since[holder], 3), "slots": len(held)})
        for holder in since
        if holder in held and holder not in before.held
    )
    return Slots(since, held), changes
