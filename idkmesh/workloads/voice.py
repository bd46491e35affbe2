"""What a supervisor says: changes to who takes them, lines to the log, each fault once until it is over.

Names, paths and reasons in it may be anybody's: no line has what would end it or turn it round.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from idkmesh.workloads.change_lines import line_of
from idkmesh.workloads.changes import fit
from idkmesh.workloads.checks import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.changes import Change


def printing(log: Callable[[str, int], None]) -> Callable[[str, int], None]:
    """Return ``log`` for lines with whatever in them: what is not printable becomes a question mark."""
    return lambda line, level: log(printable(line), level)


class Voice:
    """``changed`` takes each change; ``line`` takes a line and a level of :mod:`logging`. Neither may wait."""

    def __init__(self, changed: Callable[[Change], None], line: Callable[[str, int], None]) -> None:
        self._changed = changed
        self.line = printing(line)
        self._faults: dict[str, str] = {}

    def tell(self, change: Change) -> None:
        """Say that something has changed, in the log and to who takes changes."""
        self.say(change)
        try:
            self._changed(fit(change))
        except Exception as error:  # noqa: BLE001  a fault of who takes changes is not the supervisor's
            what = f"{change.what} of {change.subject}" if change.subject else change.what
            self.line(f"a taker of changes has a fault: {what}: {type(error).__name__}", logging.ERROR)

    def say(self, change: Change) -> None:
        """Say it in the log alone."""
        line = line_of(change)
        if line is not None:
            self.line(*line)

    def ill(self, part: str, fault: str, so: str = "") -> None:
        """Say that a part has a fault, and what follows from it, once until it is well again."""
        if part not in self._faults:
            self.line(f"{fault}; {so}" if so else fault, logging.ERROR)
        self._faults[part] = fault

    def well(self, part: str, line: str) -> None:
        """Say that a part is well again, if it was not."""
        if self._faults.pop(part, None) is not None:
            self.line(line, logging.INFO)

    def fault(self, part: str) -> str | None:
        """Return the fault of a part, None where it is well."""
        return self._faults.get(part)
