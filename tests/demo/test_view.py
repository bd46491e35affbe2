"""What a panel shows, and what is printed where there is none."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

from idkmesh.demo.clients import Sales
from idkmesh.demo.course import Said, Tone
from idkmesh.demo.faults import table
from idkmesh.demo.output import Panel, Plain, output
from idkmesh.demo.seen import Seen
from idkmesh.demo.settings import Figures
from idkmesh.demo.view import NO, UNKNOWN, YES, Row, key_lines, now_line, rows
from tests.demo.support import FIRST, WELL_INSTANCE, WELL_TOWER, course, failing, seen_at

if TYPE_CHECKING:
    import pytest

FAULTS = table(Figures())


def test_every_part_has_a_row() -> None:
    """DM-3.4: tower, adapter, router and each instance, alive and ready."""
    found = rows(seen_at(1.0), Sales(answered=3))
    assert [row.name for row in found] == ["control tower", "readiness adapter", "router", *WELL_TOWER.instances]
    assert {(row.alive, row.ready) for row in found} == {(YES, YES)}
    assert found[2].state == "populated at revision 1, 3 sold, 0 refused, 0 failed"
    assert [row.name for row in rows(Seen(), None)] == ["control tower", "readiness adapter"]


def test_what_is_not_well() -> None:
    """DM-3.4: who is in the way is named, and a supervisor's next step has its seconds."""
    sick = replace(WELL_INSTANCE, health="unhealthy", progress="3 of 20 s passing", restart_in=41.6, restarts=1)
    seen = failing(1.0, "store", readiness="not_ready", failing=("store",), instances={"store-1": sick})
    found = rows(seen, None)
    assert found[0] == Row("control tower", YES, NO, "because of store")
    words = "unhealthy, 3 of 20 s passing, restart in 42 s, restarted 1 time"
    assert found[2] == Row("store-1", YES, NO, words)


def test_nothing_is_said_of_what_nobody_tells() -> None:
    """DM-3.4: where the tower does not answer, the instances are unknown and not as they were."""
    seen = replace(seen_at(1.0, alive=None), adapter=None)
    found = rows(seen, Sales())
    assert found[0] == Row("control tower", NO, NO, "it does not answer")
    assert found[1] == Row("readiness adapter", UNKNOWN, UNKNOWN, "it does not answer")
    assert {(row.alive, row.ready) for row in found[2:]} == {(UNKNOWN, UNKNOWN)}


def test_what_is_on() -> None:
    """DM-3.4: the fault with its countdown, or what comes."""
    going = course(FIRST)
    assert now_line(going, 104.0) == "next: slow the cache in 6 s"
    list(going.ask_for(FIRST, 105.0, seen_at(105.0)))
    assert now_line(going, 106.0) == "slow the cache: the cache is failing within 1 s"


def test_the_keys_fit_a_small_terminal() -> None:
    """DM-3.4, DM-4.1: each key is named, in lines of at most 75 columns."""
    lines = key_lines(FAULTS)
    assert [key for key in "123456usoq" if not any(key in line.split() for line in lines)] == []
    assert max(map(len, lines)) <= 75


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """DM-3.4: plain lines, whole, and nothing that moves a cursor."""
    with output("http://127.0.0.1:1/#token=secret", FAULTS) as out:
        assert isinstance(out, Plain)
        out.say(Said(1.0, Tone.SEEN, "the cache is failing"))
        out.show(course(), seen_at(1.0), None, 101.0)
    assert capsys.readouterr().out == "    1.0 s  seen    the cache is failing\n"


def test_lines_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """DM-3.4: on a terminal without the package too."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with output("link", FAULTS) as out:
        assert isinstance(out, Plain)


def test_a_panel() -> None:
    """DM-3.4: link, parts, fault, keys; a line is printed above it, with its brackets as they are."""
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=80, height=40, highlight=False, markup=False)
    with Live(console=screen, auto_refresh=False) as live:
        panel = Panel(live, screen, "http://127.0.0.1:1/#token=secret", FAULTS)
        panel.say(Said(1.0, Tone.FAULT, "[bold]as it is[/bold]"))
        panel.show(course(FIRST), seen_at(1.0), Sales(), 104.0)
    text = file.getvalue()
    for words in ("[bold]as it is[/bold]", "#token=secret", "web-2", "next: slow the cache in 6 s", "q quit"):
        assert words in text
