"""What the ledger keeps of an invocation, once."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from idkmesh.histogram import Timing
from idkmesh.router.ledger import INVOKED, Ledger, Outcome
from idkmesh.topology.model import State, Target

if TYPE_CHECKING:
    import datetime as dt

    from idkmesh.changes import Change

ECHO = Target("echo", "1.0.0", "r1")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> dt.datetime:
        raise AssertionError("no label is needed")


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.kept = True
        self.changes: list[Change] = []
        self.lines: list[tuple[str, int]] = []
        self.told: list[Change] = []
        self.ledger = Ledger(
            self.clock, self.record, self.told.append, lambda line, level: self.lines.append((line, level))
        )

    def record(self, change: Change) -> bool:
        self.changes.append(change)
        return self.kept


def test_an_entry_is_one_event() -> None:
    """RT-10.1: exactly these members, of the selection and of the answer, with the target as subject."""
    world = World()
    entry = world.ledger.open(ECHO, "control-plane")
    entry.state, entry.revision = State.POPULATED, 7
    world.clock.now += 0.25
    world.ledger.close(entry, Outcome.ANSWERED, 201)
    (change,) = world.changes
    assert (change.what, change.subject) == (INVOKED, "echo/1.0.0/r1")
    assert change.facts == {
        "agentId": "echo", "agentCardVersion": "1.0.0", "releaseId": "r1", "credential": "control-plane",
        "outcome": "answered", "state": "populated", "localRevision": 7, "status": 201, "seconds": 0.25,
    }  # fmt: skip


def test_a_failed_transport_has_its_word() -> None:
    """RT-10.1: and nothing else does."""
    world = World()
    world.ledger.close(world.ledger.open(ECHO, "a"), Outcome.AGENT_TRANSPORT_FAILED, 502, "timeout")
    world.ledger.close(world.ledger.open(ECHO, "a"), Outcome.TOO_MANY_OBSERVATIONS, 503)
    assert [change.facts.get("reason") for change in world.changes] == ["timeout", None]
    assert [change.facts["state"] for change in world.changes] == [None, None]


def test_an_entry_is_closed_once() -> None:
    """RT-10.1: by whoever answers, or by the end, which waits for none, whichever comes first."""
    world = World()
    ended, going = world.ledger.open(ECHO, "a"), world.ledger.open(ECHO, "b")
    world.ledger.close(ended, Outcome.ANSWERED, 200)
    world.ledger.abandon_all()
    world.ledger.close(going, Outcome.ANSWERED, 200)
    world.ledger.abandon_all()
    assert len(world.changes) == len(world.told) == 1
    told = [
        (change.facts["credential"], change.facts["outcome"], change.facts["status"])
        for change in (*world.changes, *world.told)
    ]
    assert told == [("a", "answered", 200), ("b", "abandoned", None)]
    assert {outcome: timing.count for outcome, timing in world.ledger.timings().items()} == {
        outcome: int(outcome in {Outcome.ANSWERED, Outcome.ABANDONED}) for outcome in Outcome
    }


def test_how_long_invocations_took() -> None:
    """RT-10.6: the seconds of the ledger, by outcome, each once; what goes on is not in it."""
    world = World()
    for seconds, outcome in ((0.25, Outcome.ANSWERED), (4.0, Outcome.ANSWERED), (30.0, Outcome.ABANDONED)):
        entry = world.ledger.open(ECHO, "a")
        world.clock.now += seconds
        world.ledger.close(entry, outcome, 200)
        world.ledger.close(entry, outcome, 200)
    world.ledger.open(ECHO, "a")
    timings = world.ledger.timings()
    assert list(timings) == list(Outcome)
    assert timings[Outcome.ANSWERED] == Timing().with_one(0.25).with_one(4.0)
    assert timings[Outcome.ABANDONED].seconds == pytest.approx(30.0)
    assert timings[Outcome.FAULT] == Timing()
    told = sum(change.facts["seconds"] for change in world.changes)
    assert told == pytest.approx(sum(timing.seconds for timing in timings.values()))


def test_what_is_not_kept_is_counted_and_told_once() -> None:
    """RT-10.1: a line when that begins and one when it ends, not one for each."""
    world = World()
    for kept in (True, False, False, True, True):
        world.kept = kept
        world.ledger.close(world.ledger.open(ECHO, "a"), Outcome.ANSWERED, 200)
    assert world.ledger.missing == 2
    assert [level for _, level in world.lines] == [logging.ERROR, logging.INFO]
    assert "not known to be in the ledger" in world.lines[0][0]


@pytest.mark.parametrize("threads", [8])
def test_many_at_once(threads: int) -> None:
    """RT-10.1: each invocation has one event, whoever writes at the same time."""
    world = World()

    def many() -> None:
        for _ in range(50):
            world.ledger.close(world.ledger.open(ECHO, "a"), Outcome.ANSWERED, 200)

    running = [threading.Thread(target=many) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(world.changes) == threads * 50 == world.ledger.timings()[Outcome.ANSWERED].count
