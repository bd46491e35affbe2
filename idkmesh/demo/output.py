"""What a demo prints: lines, or a panel under lines where ``rich`` and a terminal are there (DM-3.4)."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Protocol

from idkmesh import console
from idkmesh.demo.view import NO, YES, key_lines, now_line, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, Group
    from rich.live import Live

    from idkmesh.demo.clients import Sales
    from idkmesh.demo.course import Course, Said
    from idkmesh.demo.faults import Fault
    from idkmesh.demo.seen import Seen


class Output(Protocol):
    """Where lines go. Raises ``OSError`` or :class:`~idkmesh.console.CommandError` where nobody takes them."""

    def say(self, said: Said) -> None:
        """Print a line."""

    def show(self, course: Course, seen: Seen, sales: Sales | None, now: float) -> None:
        """Show how everything is."""


class Plain:
    """A line for each thing that happens."""

    def say(self, said: Said) -> None:
        """Print it."""
        console.say(str(said))

    def show(self, course: Course, seen: Seen, sales: Sales | None, now: float) -> None:
        """Show nothing: lines tell what happens."""


_STYLES = {
    "fault": "bold red", "see": "cyan", "why": "dim", "seen": "green", "late": "yellow", "missed": "bold red",
    "over": "bold green", "note": "",
}  # fmt: skip
_SIGNS = {YES: ("yes", "green"), NO: ("no", "bold red")}


class Panel:
    """Lines that scroll, and a panel below them that stays."""

    def __init__(self, live: Live, screen: Console, link: str, faults: Sequence[Fault]) -> None:
        self._live = live
        self._screen = screen
        self._link = link
        self._faults = faults

    def say(self, said: Said) -> None:
        """Print it above the panel."""
        from rich.table import Table  # noqa: PLC0415  an extra brings it
        from rich.text import Text  # noqa: PLC0415  as above

        style = _STYLES[said.tone.value]
        line = Table.grid(padding=(0, 2))
        for width in (8, 6):
            line.add_column(min_width=width)
        line.add_column(overflow="fold")
        line.add_row(Text(f"{said.at:6.1f} s", "dim"), Text(said.tone.value, style), Text(said.text, style))
        self._screen.print(line)

    def show(self, course: Course, seen: Seen, sales: Sales | None, now: float) -> None:
        """Draw the panel anew."""
        self._live.update(self._drawn(course, seen, sales, now), refresh=True)

    def _drawn(self, course: Course, seen: Seen, sales: Sales | None, now: float) -> Group:
        from rich import box  # noqa: PLC0415  an extra brings it
        from rich.console import Group  # noqa: PLC0415  as above
        from rich.table import Table  # noqa: PLC0415  as above
        from rich.text import Text  # noqa: PLC0415  as above

        table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1), show_edge=False)
        for title in ("part", "alive", "ready", "state"):
            table.add_column(title, no_wrap=True, ratio=1 if title == "state" else None)
        for row in rows(seen, sales):
            signs = [Text(*_SIGNS.get(word, (word, "dim"))) for word in (row.alive, row.ready)]
            table.add_row(Text(row.name), *signs, Text(row.state))
        return Group(
            Text(),
            Text.assemble(("open ", "bold"), (self._link, "underline"), overflow="fold"),
            table,
            Text.assemble(("now  ", "bold"), now_line(course, now)),
            Text.assemble(("keys ", "bold"), ("\n     ".join(key_lines(self._faults)), "dim"), overflow="fold"),
        )


@contextlib.contextmanager
def output(link: str, faults: Sequence[Fault]) -> Iterator[Output]:
    """Give what fits standard output."""
    if not is_terminal():
        yield Plain()
        return
    try:
        from rich.console import Console  # noqa: PLC0415  an extra brings it
        from rich.live import Live  # noqa: PLC0415  as above
    except ModuleNotFoundError:
        yield Plain()
        return
    screen = Console(highlight=False, markup=False, emoji=False)
    if screen.is_dumb_terminal:
        yield Plain()
        return
    live = Live(console=screen, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
    live.start()
    try:
        yield Panel(live, screen, link, faults)
    finally:
        with contextlib.suppress(OSError):  # the terminal is gone
            live.stop()


def is_terminal() -> bool:
    """Say whether standard output is a terminal, which the link is for (DM-3.5)."""
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False
