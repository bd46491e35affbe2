"""What a supervisor says, of names and reasons that are anybody's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from idkmesh.events.envelope import Event
from idkmesh.workloads.acting import Restarter
from idkmesh.workloads.changes import COULD_NOT_RUN, INSTANCE_UNHEALTHY, check_trouble, restart_change
from idkmesh.workloads.ledger import Ledger
from idkmesh.workloads.record import Key
from idkmesh.workloads.voice import Voice
from tests.workloads.support import Game, declaration, module

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.changes import Change

WRONG = ["web\u202e1", "web\n1", "web\x1b[2J", "web\ud800", "web\u2028", "w" * 1000]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event_of(change: Change) -> Event:
    return Event(type=change.what, source="/s", time=NOW, subject=change.subject, data=dict(change.facts))


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_is_none(name: str) -> None:
    """AR-7.1, AR-7.3: whatever a name is, its event is recorded, and its line is one that a terminal can show."""
    events: list[Event] = []
    lines: list[str] = []
    voice = Voice(lambda change: events.append(event_of(change)), lambda line, _level: lines.append(line))
    voice.tell(check_trouble(COULD_NOT_RUN, Key("web", name), f"port check {name}", f"because of {name}"))
    voice.ill("store", f"{name} is ill", f"so {name}")
    voice.well("store", f"{name} is well")
    assert len(events) == 1
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("name", WRONG)
def test_a_restart_of_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    """AR-5.5: the event before a restart is recorded, whatever the instance is called."""
    recorded: list[Event] = []
    game = Game(tmp_path, declaration(module(instances=(name,))))

    def record(change: Change) -> bool:
        recorded.append(event_of(change))
        return True

    voice = Voice(lambda _change: None, lambda _line, _level: None)
    restarter = Restarter(game.lease, Ledger(()), None, voice, record=record, boot=lambda: 0.0)  # type: ignore[arg-type]
    change = restart_change(INSTANCE_UNHEALTHY, Key("web", name), detail="", unhealthy_seconds=1.0)
    assert restarter._recorded(change)
    assert len(recorded) == 1


def test_who_takes_changes_has_a_fault() -> None:
    """AR-7.3: an event that is lost is told, with what it was about."""
    lines: list[str] = []

    def refuse(_change: Change) -> None:
        raise ValueError("no")

    voice = Voice(refuse, lambda line, _level: lines.append(line))
    voice.tell(check_trouble(COULD_NOT_RUN, Key("web", "web-1"), "port check", "no route"))
    assert lines[-1] == "a taker of changes has a fault: idkmesh.check.could_not_run of web/web-1: ValueError"
