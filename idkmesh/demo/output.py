"""What a demo prints: lines, or a panel under lines where ``rich`` and a terminal are there (DM-3.4)."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Protocol

from idkmesh import console
from idkmesh.demo.course import Said, Tone
from idkmesh.demo.view import help_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from idkmesh.demo.clients import Sales
    from idkmesh.demo.course import Course
    from idkmesh.demo.faults import Fault
    from idkmesh.demo.seen import Seen


class Output(Protocol):
    """Where lines go. Raises ``OSError`` or :class:`~idkmesh.console.CommandError` where nobody takes them."""

    def say(self, said: Said) -> None:
        """Print a line."""

    def begin(self, at: float, calm: float) -> None:
        """Say what there is to do, ``at`` so many seconds, now that all parts are well."""

    def show(self, course: Course, seen: Seen, sales: Sales | None, now: float) -> None:
        """Show how everything is."""

    def hide(self) -> None:
        """Leave the terminal to others, as it was, until something is shown again."""


class Plain:
    """A line for each thing that happens. ``keyed`` says whether keys are read."""

    def __init__(self, faults: Sequence[Fault], *, keyed: bool) -> None:
        self._faults = faults
        self._keyed = keyed

    def say(self, said: Said) -> None:
        """Print it."""
        console.say(str(said))

    def begin(self, at: float, calm: float) -> None:
        """Name the keys, or what comes without them."""
        for line in help_lines(self._faults, keyed=self._keyed, calm=calm):
            self.say(Said(at, Tone.NOTE, line))

    def show(self, course: Course, seen: Seen, sales: Sales | None, now: float) -> None:
        """Show nothing: lines tell what happens."""

    def hide(self) -> None:
        """Nothing is shown."""


@contextlib.contextmanager
def output(link: str, faults: Sequence[Fault], *, keyed: bool) -> Iterator[Output]:
    """Give what fits standard output. ``keyed`` says whether keys are read."""
    plain = Plain(faults, keyed=keyed)
    if not is_terminal():
        yield plain
        return
    try:
        from idkmesh.demo.panel import Panel, terminal  # noqa: PLC0415  an extra brings what it draws with
    except ModuleNotFoundError:
        yield plain
        return
    screen = terminal()
    if screen.is_dumb_terminal:
        yield plain
        return
    panel = Panel(screen, link, faults, keyed=keyed)
    try:
        yield panel
    finally:
        with contextlib.suppress(OSError):  # the terminal is gone
            panel.hide()


def is_terminal() -> bool:
    """Say whether standard output is a terminal, which the link is for (DM-3.5)."""
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False
