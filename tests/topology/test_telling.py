"""Changes that are told: what stands in them, in which order, and how many at most."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from idkmesh.changes import Change
from idkmesh.topology.change_lines import line_of
from idkmesh.topology.changes import closed_change, omitted_change, renewed_change
from idkmesh.topology.errors import TooManyObservationsError
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, Observation, State
from idkmesh.topology.telling import MOST_CHANGES, Meter, Teller
from tests.topology.support import ECHO, EMPTY, UTC, WAIT, HandProvider, ManualClock, Site, at, other

TARGET = {"agentId": "echo", "agentCardVersion": "1.0.0", "releaseId": "r1"}


def change(number: int) -> Change:
    return Change("idkmesh.topology.changed", None, {"number": number})


def test_a_course_as_events() -> None:
    """RT-10.2: one for each other state, with the target, both states and the revision; none for another set."""
    site = Site(HandProvider(at(1)), ManualClock())
    site.selector.select(ECHO)
    for event in (at(2), at(3), EMPTY, NOT_DECLARED, at(4), Failed(Cause.UNREACHABLE)):
        site.watch.say(event)
    assert {each.subject for each in site.told} == {"echo/1.0.0/r1"}
    assert all(each.facts.items() >= TARGET.items() for each in site.told)
    rest = [{name: value for name, value in each.facts.items() if name not in TARGET} for each in site.told]
    assert site.types() == ["opened", *["changed"] * 5]
    assert rest == [
        {},
        {"from": "initializing", "to": "populated", "localRevision": 1},
        {"from": "populated", "to": "empty", "localRevision": 4},
        {"from": "empty", "to": "missing", "localRevision": 5},
        {"from": "missing", "to": "populated", "localRevision": 6},
        {"from": "populated", "to": "unavailable", "localRevision": 6, "cause": "unreachable"},
    ]
    assert "127.0.0.1" not in json.dumps([dict(each.facts) for each in site.told])


def test_changes_as_lines() -> None:
    """RT-10.5, RT-11.5: what an operator reads: one line each, with states and the cause's word, and no place."""
    site = Site(HandProvider(at(1)), ManualClock(), most=1)
    site.selector.select(ECHO)
    for event in (EMPTY, Failed(Cause.UNREACHABLE)):
        site.watch.say(event)
    with pytest.raises(TooManyObservationsError):
        site.selector.select(other(1))
    target, again = site.told[0].facts, Observation(State.EMPTY, 1, UTC)
    told = [*site.told, renewed_change(ECHO, State.UNAVAILABLE, again, 3), closed_change(ECHO, again)]
    assert target == TARGET
    assert [line_of(each) for each in [*told, omitted_change(7, 10.0)]] == [
        None,
        ("release echo/1.0.0/r1: populated, was initializing, local revision 1", logging.INFO),
        ("release echo/1.0.0/r1: empty, was populated, local revision 2", logging.INFO),
        (
            "release echo/1.0.0/r1: unavailable, was empty: unreachable; refused until it is heard of again",
            logging.WARNING,
        ),
        ("1 releases are observed, which is max_observations; others are refused", logging.WARNING),
        ("release echo/1.0.0/r1: empty, was unavailable, local revision 1, in a new session", logging.INFO),
        None,
        ("7 more changes of releases in 10 s are not told", logging.WARNING),
    ]


def test_a_lost_provider_is_not_ten_thousand_events() -> None:
    """RT-10.3: a hundred in ten seconds; how many there were besides is told by itself, when these are over."""
    clock = ManualClock()
    site = Site(HandProvider(at(1)), clock, most=500)
    for number in range(30):
        site.selector.select(other(number))
    clock.now += 10
    for watch in list(site.provider.watches):
        watch.say(EMPTY)
        for _ in range(9):
            watch.say(at(1))
            watch.say(EMPTY)
    before = len(site.told)
    assert before == 60 + MOST_CHANGES
    clock.now += 9.9
    site.selector.keep()
    assert len(site.told) == before
    assert site.selector._sessions.due_at() == pytest.approx(clock.now + 0.1)
    clock.now += 0.1
    site.selector.keep()
    assert [each.what for each in site.told[before:]] == ["idkmesh.topology.omitted"]
    assert site.told[-1].facts == {"omitted": 30 * 19 - MOST_CHANGES, "seconds": 10.0}


def test_what_was_omitted_is_told_at_the_end() -> None:
    """RT-10.3: nothing is lost silently by an end within the ten seconds."""
    site = Site(HandProvider(at(1)), ManualClock())
    site.selector.select(ECHO)
    for number in range(200):
        site.watch.say(at(1) if number % 2 else EMPTY)
    site.selector.stop()
    assert site.told[-1].what == "idkmesh.topology.omitted"
    assert len(site.told) - 1 + site.told[-1].facts["omitted"] == 202


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.11, 20.0])
def test_the_meter_loses_none(gap: float) -> None:
    """RT-10.3: whatever the pace, what is told and what is counted are all there were, at most 100 in ten seconds."""
    meter, now = Meter(), 0.0
    told: list[tuple[float, Change]] = []
    for number in range(1000):
        told += [(now, each) for each in meter.let_through(change(number), now)]
        now += gap
    told += [(now, each) for each in meter.rest()]
    counted = sum(each.facts.get("omitted", 0) for _, each in told)
    events = [(when, each) for when, each in told if "number" in each.facts]
    assert len(events) + counted == 1000
    assert all(sum(1 for when, _ in events if begin <= when < begin + 10) <= 200 for begin, _ in events)
    assert meter.due_at is None


def test_no_change_is_left_behind() -> None:
    """RT-10.2: one that is put while another thread is about to end is told by that one: whoever put it has left."""
    told: list[Change] = []
    teller = Teller(told.append, lambda _: None)

    class Late:
        """A lock, and a thread that comes just before it is free."""

        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.came = False

        def acquire(self, *, blocking: bool) -> bool:
            return self.lock.acquire(blocking=blocking)

        def release(self) -> None:
            if not self.came:
                self.came = True
                teller.put(change(2))
                teller.tell()
            self.lock.release()

    teller._at_it = Late()  # type: ignore[assignment]
    teller.put(change(1))
    teller.tell()
    assert [each.facts["number"] for each in told] == [1, 2]


def test_changes_keep_their_order() -> None:
    """RT-10.2: eight threads tell, one at a time gives away, each once and in the order in which they were put."""
    lock = threading.Lock()
    told: list[Change] = []
    teller = Teller(told.append, lambda _: None)
    put: list[int] = []
    ready = threading.Barrier(8)

    def work(first: int) -> None:
        ready.wait(WAIT)
        for number in range(first, first + 500):
            with lock:
                put.append(number)
                teller.put(change(number))
            teller.tell()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 4000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert [each.facts["number"] for each in told] == put
    assert len(put) == 4000
