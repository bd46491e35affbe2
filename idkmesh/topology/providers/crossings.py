"""Tells where the boundary of a provider becomes unusable, and where it is usable again: once each (RT-10.2)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from idkmesh.topology.changes import back_change, lost_change
from idkmesh.topology.model import Cause
from idkmesh.topology.telling import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.changes import Change
    from idkmesh.topology.provider import Usability

    Changed = Callable[[Change], None]


def nobody(_change: Change) -> None:
    """Take a change, for a provider whose owner wants none."""


class Crossings:
    """Compares what is judged with what was told last. One thread at a time uses it.

    ``changed`` takes each change and must not wait; what it raises is its own fault, and a line. A provider that
    nothing was heard of is neither lost nor back, and its own end is no loss.
    """

    def __init__(self, provider: str, changed: Changed, line: Callable[[str, int], None]) -> None:
        self._provider = provider
        self._changed = changed
        self._line = undisturbed(line)
        self._lost = False

    def see(self, usability: Usability) -> None:
        """Take what the boundary is judged to be now."""
        cause = usability.cause
        if usability.usable:
            if self._lost:
                self._lost = False
                self._tell(back_change(self._provider))
        elif not self._lost and cause is not None and cause is not Cause.CLOSED:
            self._lost = True
            self._tell(lost_change(self._provider, cause))

    def _tell(self, change: Change) -> None:
        try:
            self._changed(change)
        except Exception as error:  # noqa: BLE001  it must not end the provider's thread: no watch would hear more
            kind = type(error).__name__
            self._line(f"provider {self._provider}: a taker of changes has a fault: {kind}", logging.ERROR)
