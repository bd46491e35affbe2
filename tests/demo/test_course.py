"""The course of a demo, on a clock that is an argument."""

from __future__ import annotations

import pytest

from idkmesh.demo.course import CALM_SECONDS, TRANSITIONS, Course, Do, Phase, Said, Step, Tone
from tests.demo.support import FIRST, SECOND, course, done, failing, fault, seen_at, texts


def test_the_machine() -> None:
    """DM-2.3: one fault at a time: nothing but calm leads to one, and nothing but its undoing out of it."""
    assert {phase: after for (phase, step), after in TRANSITIONS.items() if step is Step.BEGIN} == {
        Phase.CALM: Phase.FAULT
    }
    assert {after for (phase, _), after in TRANSITIONS.items() if phase is Phase.FAULT} == {Phase.RECOVERY}
    assert len({phase for phase, _ in TRANSITIONS}) == len(Phase)


def test_an_announcement_comes_before_the_fault() -> None:
    """DM-3.1: what is done, what to see and why are said before anything is done."""
    going = course()
    *said, begin = going.ask_for(FIRST, 101.0, seen_at(101.0))
    assert begin == Do(FIRST, undo=False)
    assert [(each.tone, each.text) for each in said if isinstance(each, Said)] == [
        (Tone.FAULT, "slow the cache: this is done"),
        (Tone.SEE, "this is to be seen"),
        (Tone.WHY, "for this reason"),
    ]


def test_one_at_a_time() -> None:
    """DM-2.3: another fault is refused while one is on or recovered from, with the key that ends it."""
    going = course()
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    assert texts(going.ask_for(SECOND, 102.0, seen_at(102.0))) == ["one at a time: slow the cache is on; u ends it"]
    list(going.end_fault(103.0))
    (said,) = going.ask_for(SECOND, 104.0, seen_at(104.0))
    assert isinstance(said, Said)
    assert said.text == "one at a time: slow the cache is on; it is being recovered from"
    assert going.fault is FIRST


def test_no_fault_before_all_is_well() -> None:
    """DM-2.3: while the parts start there is nothing to break."""
    going = Course(faults=(FIRST,), began=0.0)
    assert texts(going.ask_for(FIRST, 1.0, seen_at(1.0))) == ["not yet: the parts are starting"]
    assert list(going.tick(500.0, seen_at(500.0))) == []


def test_the_schedule() -> None:
    """DM-2.4: the first after 10 s, each further one 10 s after the end of the one before, then from the beginning."""
    going = course()
    begun: list[tuple[float, str]] = []
    now = 100.0
    while len(begun) < 3:
        look = failing(now, "cache") if going.phase is Phase.FAULT else seen_at(now)
        begun += [(now, name) for name, undo in done(going.tick(now, look)) if not undo]
        now += 0.5
    assert CALM_SECONDS == 10.0
    # Each lasts 5 s, is over with the next look, and is followed by 10 s.
    assert begun == [(110.0, "slow the cache"), (125.5, "the second"), (141.0, "slow the cache")]


def test_the_schedule_can_be_stopped() -> None:
    """DM-4.1: `s` stops it, and starts it again with a whole calm before the next fault."""
    going = course()
    assert texts(going.switch(101.0)) == ["the schedule is off"]
    assert list(going.tick(200.0, seen_at(200.0))) == []
    assert going.countdown(200.0) is None
    assert texts(going.switch(201.0)) == ["the schedule is on", "next: slow the cache in 10 s"]
    assert done(going.tick(210.9, seen_at(210.9))) == []
    assert done(going.tick(211.0, seen_at(211.0))) == [("slow the cache", False)]


def test_no_fault_that_could_not_be_over() -> None:
    """DM-2.4: with an end in sight the next one that fits is begun, and none where none does."""
    long = fault("1", "the long one", seconds=60.0)
    assert (long.longest, SECOND.longest) == (63.0, 8.0)
    assert done(course(long, SECOND, until=118.0).tick(110.0, seen_at(110.0))) == [("the second", False)]
    assert done(course(long, SECOND, until=117.9).tick(110.0, seen_at(110.0))) == []
    assert course(long, SECOND, until=117.9).countdown(105.0) is None
    told = [texts(Course(faults=(SECOND,), began=100.0, until=end).well(100.0))[1] for end in (118.0, 117.9)]
    assert told == ["next: the second in 10 s", "no fault could be over by the end"]
    assert course(long, SECOND, until=118.0).countdown(105.0) == ("next: the second in", 5.0)


@pytest.mark.parametrize(
    ("after", "tone", "words"),
    [
        (1.9, Tone.SEEN, "the cache is failing: seen after 1.9 s (bound 2.0 s)"),
        (2.1, Tone.LATE, "the cache is failing: seen late, after 2.1 s (bound 2.0 s)"),
        (12.1, Tone.MISSED, "the cache is failing: not seen in 12 s (bound 2.0 s)"),
    ],
)
def test_what_was_announced_is_looked_for(after: float, tone: Tone, words: str) -> None:
    """DM-3.2: seen within its bound, late, or given up when the bound is over by as much, and 10 s at least."""
    going = course()
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    assert list(going.tick(101.0 + min(after, 12.0) - 0.1, seen_at(102.0))) == []
    now = 101.0 + after
    first, *_ = going.tick(now, seen_at(now) if tone is Tone.MISSED else failing(now, "cache"))
    assert isinstance(first, Said)
    assert (first.tone, first.text) == (tone, words)
    assert (going.tally.seen, going.tally.late, going.tally.missed) == tuple(
        int(tone is each) for each in (Tone.SEEN, Tone.LATE, Tone.MISSED)
    )


def test_a_look_from_before_says_nothing() -> None:
    """DM-3.2: what was asked before the fault began is no evidence of it."""
    going = course()
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    assert list(going.tick(101.5, failing(100.9, "cache"))) == []
    assert len(list(going.tick(101.6, failing(101.0, "cache")))) == 1


def test_what_is_to_hold_is_told_once_where_it_does_not() -> None:
    """DM-3.2: the node stays alive, unless it says that it does not; no answer in time is not that."""
    going = course()
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    assert list(going.tick(101.5, seen_at(101.5, alive=None))) == []
    assert texts(going.tick(102.0, seen_at(102.0, alive=False))) == ["the node stays alive: it does not, after 1.0 s"]
    assert list(going.tick(102.5, seen_at(102.5, alive=False))) == []
    assert going.tally.missed == 1


def test_the_recovery_is_looked_for_too() -> None:
    """DM-3.3: a fault is undone when its time is over and all was seen, and over when it is recovered from."""
    going = course()
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    list(going.tick(102.0, failing(102.0, "cache")))
    assert list(going.tick(105.9, failing(105.9, "cache"))) == []
    assert done(going.tick(106.0, failing(106.0, "cache"))) == [("slow the cache", True)]
    assert list(going.tick(107.0, failing(107.0, "cache"))) == []
    said = texts(going.tick(108.0, seen_at(108.0)))
    assert said == [
        "the cache is ok: seen after 2.0 s (bound 3.0 s)", "slow the cache: over", "next: the second in 10 s",
    ]  # fmt: skip
    assert going.phase is Phase.CALM


def test_a_fault_waits_for_what_was_not_seen() -> None:
    """DM-3.2: it lasts beyond its time until each thing was seen or is given up."""
    going = course()
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    assert list(going.tick(110.0, seen_at(110.0))) == []
    assert done(going.tick(110.5, failing(110.5, "cache"))) == [("slow the cache", True)]


def test_a_fault_that_is_ended_early() -> None:
    """DM-4.1: `u` undoes it, and says what was not waited for: that counts as nothing."""
    going = course()
    assert texts(going.end_fault(100.5)) == ["no fault is on"]
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    things = list(going.end_fault(101.5))
    assert texts(things) == ["ended early; not waited for: the cache is failing", "slow the cache: undone"]
    assert done(things) == [("slow the cache", True)]
    assert str(going.tally) == "0 seen in time, 0 late, 0 not as announced"


def test_time_without_a_look_counts_for_nothing() -> None:
    """DM-4.1: while it was suspended nothing was late, nothing was missed, and the end came no nearer."""
    going = course(until=200.0)
    list(going.ask_for(FIRST, 101.0, seen_at(101.0)))
    (said,) = going.missed_time(151.0, 49.0)
    assert str(said) == "    2.0 s  note    on again: 49 s without a look, which count for nothing"
    assert going.until == 249.0
    assert list(going.tick(151.0, failing(149.9, "cache"))) == []
    assert texts(going.tick(151.5, failing(151.0, "cache"))) == ["the cache is failing: seen after 1.5 s (bound 2.0 s)"]


def test_a_countdown() -> None:
    """DM-3.4: to the next fault, to the first bound, to the undoing."""
    going = course()
    assert going.countdown(104.0) == ("next: slow the cache in", 6.0)
    list(going.ask_for(FIRST, 105.0, seen_at(105.0)))
    assert going.countdown(105.5) == ("the cache is failing within", 1.5)
    list(going.tick(106.0, failing(106.0, "cache")))
    assert going.countdown(106.0) == ("undone in", 4.0)


def test_a_line_has_its_seconds() -> None:
    """DM-3.4: a line says when, since the start, and what it is about."""
    assert str(Said(12.34, Tone.SEEN, "the cache is failing")) == "   12.3 s  seen    the cache is failing"
