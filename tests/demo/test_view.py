"""What a panel shows, and what is printed where there is none."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console, ConsoleDimensions

from idkmesh.demo.clients import Sales
from idkmesh.demo.course import Said, Tone
from idkmesh.demo.faults import table
from idkmesh.demo.output import Plain, output
from idkmesh.demo.panel import ROOM, Panel
from idkmesh.demo.seen import AdapterSeen, Seen
from idkmesh.demo.settings import Figures
from idkmesh.demo.view import NO, UNKNOWN, YES, Row, key_lines, now_line, rows
from tests.demo.support import FIRST, WELL_INSTANCE, WELL_TOWER, course, failing, seen_at

if TYPE_CHECKING:
    from collections.abc import Iterable

FAULTS = table(Figures())


def test_every_part_has_a_row() -> None:
    """DM-3.4: tower, adapter, router and each instance, alive and ready."""
    found = rows(seen_at(1.0), Sales(answered=3))
    assert [row.name for row in found] == ["control tower", "adapter says", "router", *WELL_TOWER.instances]
    assert {(row.alive, row.ready) for row in found} == {(YES, YES)}
    assert found[2].state == "3 sold, 0 failed, populated at revision 1"
    assert rows(seen_at(1.0), Sales(unavailable=2))[2].state == "0 sold, 0 failed, 2 refused, populated at revision 1"
    starting = [Row(name, UNKNOWN, UNKNOWN, "starting") for name in ("control tower", "adapter says")]
    assert rows(Seen(), None) == starting


def test_what_is_not_well() -> None:
    """DM-3.4: who is in the way is named, and a supervisor's next step has its seconds."""
    sick = replace(WELL_INSTANCE, health="unhealthy", progress="3 of 20 s passing", restart_in=41.6, restarts=1)
    seen = failing(1.0, "store", readiness="not_ready", failing=("store",), instances={"store-1": sick})
    found = rows(seen, None)
    assert found[0] == Row("control tower", YES, NO, "because of store")
    warned = rows(failing(1.0, "cache"), None)[0]
    assert warned == Row("control tower", YES, YES, "warning: cache")
    words = "unhealthy, 3 of 20 s passing, restart in 42 s, restarted 1 time"
    assert found[2] == Row("store-1", YES, NO, words)


def test_nothing_is_said_of_what_nobody_tells() -> None:
    """DM-3.4: where the tower does not answer, the instances are unknown and not as they were."""
    seen = replace(seen_at(1.0, alive=None), adapter=None)
    found = rows(seen, Sales())
    assert found[0] == Row("control tower", NO, NO, "it does not answer")
    assert found[1] == Row("adapter says", UNKNOWN, UNKNOWN, "it does not answer")
    assert {(row.alive, row.ready) for row in found[2:]} == {(UNKNOWN, UNKNOWN)}


def test_the_adapters_words_are_of_the_tower() -> None:
    """DM-3.4: where the tower is paused the adapter says no, and nobody takes that for a word about the adapter."""
    paused = rows(replace(seen_at(1.0, alive=None), adapter=AdapterSeen(live=False, ready=False)), Sales())[1]
    assert paused == Row("adapter says", NO, NO, "of the tower: /live 503  /ready 503")


def test_what_is_on() -> None:
    """DM-3.4: the fault with its countdown, or what comes."""
    going = course(FIRST)
    assert now_line(going, 104.0) == "next: slow the cache in 6 s"
    list(going.ask_for(FIRST, 105.0, seen_at(105.0)))
    assert now_line(going, 106.0) == "slow the cache: the cache is failing within 1 s"


@pytest.mark.parametrize(("width", "count"), [(115, 3), (75, 3), (55, 5), (20, 10), (5, 10)])
def test_the_keys_fit_a_small_terminal(width: int, count: int) -> None:
    """DM-3.4, DM-4.1: each key is named, in as few lines as fit, and with one key in each where none does."""
    lines = key_lines(FAULTS, width)
    assert len(lines) == count
    assert [key for key in "123456usoq" if not any(key in line.split() for line in lines)] == []
    assert width < 20 or max(map(len, lines)) <= width


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """DM-3.4: plain lines, whole, and nothing that moves a cursor; how it ends, and what comes, is said at once."""
    with output("http://127.0.0.1:1/#token=secret", FAULTS, keyed=False) as out:
        assert isinstance(out, Plain)
        out.say(Said(1.0, Tone.SEEN, "the cache is failing"))
        out.show(course(), seen_at(1.0), None, 101.0)
        out.begin(2.0, 10.0)
        out.hide()
    first, order, end = capsys.readouterr().out.splitlines()
    assert first == "    1.0 s  seen    the cache is failing"
    names = ", ".join(f"{fault.name} (up to {fault.longest:.0f} s)" for fault in FAULTS)
    assert order == f"    2.0 s  note    by itself, 10 s from the end of one to the next: {names}; then again"
    assert end == "    2.0 s  note    Ctrl-C ends it, as SIGTERM does"


def test_lines_that_name_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """DM-3.4, DM-4.1: where keys are read and no panel is drawn, a line names each of them."""
    with output("link", FAULTS, keyed=True) as out:
        out.begin(2.0, 10.0)
    (line,) = capsys.readouterr().out.splitlines()
    for words in (*(f"{fault.key} {fault.name}" for fault in FAULTS), "u ends", "s stops", "o opens", "q quits"):
        assert words in line


def test_lines_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """DM-3.4: on a terminal without the package too."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delitem(sys.modules, "idkmesh.demo.panel")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with output("link", FAULTS, keyed=True) as out:
        assert isinstance(out, Plain)


LINK = "http://127.0.0.1:12345/#token=" + "s" * 43


def drawn(width: int, height: int, *, keyed: bool = True) -> str:
    """Return what a panel on such a terminal looks like, without what moves its cursor."""
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=width, height=height, highlight=False, markup=False)
    panel = Panel(screen, LINK, FAULTS, keyed=keyed)
    panel.show(course(FIRST), seen_at(1.0), Sales(), 104.0)
    shown = file.getvalue()
    panel.hide()
    return re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize(
    ("width", "height", "wanted", "missing"),
    [
        (120, 40, (LINK, "web-2", "6 wedge a replica", "q quit"), ()),
        (80, 24, (LINK, "web-2", "6 wedge a replica", "q quit"), ()),
        (60, 24, ("web-2", "1-6 faults", "q quit"), ("6 wedge a replica",)),
        (80, 20, ("web-2", "1-6 faults", "q quit"), (LINK, "6 wedge a replica")),
        (80, 12, ("1-6 faults", "q quit"), (LINK, "web-2")),
    ],
)
def test_a_panel_fits_its_terminal(width: int, height: int, wanted: Iterable[str], missing: Iterable[str]) -> None:
    """DM-3.4: link, parts, fault, keys, and of these what leaves room for lines; never less than fault and keys."""
    text = drawn(width, height)
    lines = text.split("\n")
    assert len(lines) <= max(height - ROOM, 2)
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "next: slow the cache in 6 s" in text
    assert [words for words in wanted if words not in text] == []
    assert [words for words in missing if words in text] == []


def test_a_panel_without_keys() -> None:
    """DM-3.4, DM-4.1: where standard input is no terminal no key is promised."""
    text = drawn(80, 40, keyed=False)
    assert "Ctrl-C ends it" in text
    assert "q quit" not in text


def test_a_panel_is_drawn_where_something_has_changed() -> None:
    """DM-3.4: nothing is written for nothing; a line stands above it, with its brackets as they are."""
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=80, height=40, highlight=False, markup=False)
    panel = Panel(screen, LINK, FAULTS, keyed=True)
    going = course(FIRST)
    panel.show(going, seen_at(1.0), None, 104.0)
    size = len(file.getvalue())
    panel.show(going, seen_at(1.2), None, 104.1)
    assert len(file.getvalue()) == size
    panel.say(Said(1.0, Tone.FAULT, "[bold]as it is[/bold]"))
    assert "[bold]as it is[/bold]" in file.getvalue()
    screen.size = ConsoleDimensions(60, 30)
    panel.show(going, seen_at(1.2), None, 104.1)
    *_, after = file.getvalue().split("\x1b[2J")
    assert after.index("[bold]as it is[/bold]") < after.index("now ")
    panel.hide()
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")  # the cursor is there again
