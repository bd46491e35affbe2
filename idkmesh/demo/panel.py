"""Draws the panel with ``rich``: lines scroll above it, and it fits the terminal, whatever its size (DM-3.4)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from idkmesh.demo.view import NO, NO_KEYS, YES, key_lines, short_keys, view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from idkmesh.demo.clients import Sales
    from idkmesh.demo.course import Course, Said
    from idkmesh.demo.faults import Fault
    from idkmesh.demo.seen import Seen
    from idkmesh.demo.view import View

ROOM: Final = 8
"""Rows that stay free for lines: the longest announcement at 80 columns."""

KEPT_LINES: Final = 100
LABEL: Final = 5
"""Columns before the keys."""

STYLES: Final = {
    "fault": "bold red", "see": "cyan", "why": "dim", "seen": "green", "late": "yellow", "missed": "bold red",
    "over": "bold green", "note": "",
}  # fmt: skip
SIGNS: Final = {YES: ("yes", "green"), NO: ("no", "bold red")}


def terminal() -> Console:
    """Return standard output as a terminal, on which texts stand as they are."""
    return Console(highlight=False, markup=False, emoji=False)


class Panel:
    """Lines that scroll, and a panel below them that stays. It is drawn where something in it has changed."""

    def __init__(self, screen: Console, link: str, faults: Sequence[Fault], *, keyed: bool) -> None:
        self._screen = screen
        self._link = link
        self._faults = faults
        self._keyed = keyed
        self._live: Live | None = None
        self._shown: View | None = None
        self._size = screen.size
        self._said: deque[Said] = deque(maxlen=KEPT_LINES)

    def say(self, said: Said) -> None:
        """Print it above the panel."""
        self._said.append(said)
        self._screen.print(_line(said))

    def begin(self, at: float, calm: float) -> None:
        """Say nothing: the panel has the keys."""

    def show(self, course: Course, seen: Seen, sales: Sales | None, now: float) -> None:
        """Draw the panel where it is another one, or the terminal."""
        now_shown = view(course, seen, sales, now)
        if self._live is not None and self._screen.size != self._size:
            self._draw_all(now_shown)
        elif self._live is None or now_shown != self._shown:
            self._draw(now_shown)

    def hide(self) -> None:
        """Take the panel away, and give the cursor back."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _draw(self, shown: View) -> None:
        if self._live is None:
            self._live = Live(
                console=self._screen, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        self._size, self._shown = self._screen.size, shown
        self._live.update(self._fitting(shown), refresh=True)

    def _draw_all(self, shown: View) -> None:
        """Begin with an empty screen: where a terminal has put the rows of another width, nobody knows."""
        self.hide()
        self._screen.clear()
        room = self._screen.height - self._height(self._fitting(shown)) - 1
        last: deque[Table] = deque()
        for said in reversed(self._said):
            line = _line(said)
            room -= self._height(line)
            if room < 0:
                break
            last.appendleft(line)
        for line in last:
            self._screen.print(line)
        self._draw(shown)

    def _height(self, drawn: RenderableType) -> int:
        return len(self._screen.render_lines(drawn))

    def _fitting(self, shown: View) -> RenderableType:
        """Return as much as leaves room for lines: without the link if need be, then without the table."""
        link = Text.assemble(("open ", "bold"), (self._link, "underline"), overflow="fold")
        now = Text.assemble(("now  ", "bold"), shown.now)
        keys = self._keys(key_lines(self._faults, self._screen.width - LABEL))
        short = self._keys(short_keys(self._faults))
        table = _table(shown)
        candidates = (
            Group(Text(), link, table, now, keys),
            Group(Text(), link, table, now, short),
            Group(table, now, short),
            Group(now, short),
        )
        most = self._screen.height - ROOM
        return next((each for each in candidates if self._height(each) <= most), candidates[-1])

    def _keys(self, lines: list[str]) -> Text:
        text = "\n     ".join(lines if self._keyed else [NO_KEYS])
        return Text.assemble(("keys ", "bold"), (text, "dim"), overflow="fold")


def _line(said: Said) -> Table:
    style = STYLES[said.tone.value]
    line = Table.grid(padding=(0, 2))
    for width in (8, 6):
        line.add_column(min_width=width)
    line.add_column(overflow="fold")
    line.add_row(Text(f"{said.at:6.1f} s", "dim"), Text(said.tone.value, style), Text(said.text, style))
    return line


def _table(shown: View) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1), show_edge=False)
    for title in ("part", "alive", "ready", "state"):
        table.add_column(title, no_wrap=True, ratio=1 if title == "state" else None)
    for row in shown.rows:
        signs = [Text(*SIGNS.get(word, (word, "dim"))) for word in (row.alive, row.ready)]
        table.add_row(Text(row.name), *signs, Text(row.state))
    return table
