"""The orchestrator's machine on a manual clock: the scenarios of the contract, then what holds whatever happens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.rehearsal import orchestrator as machine
from idkmesh.rehearsal.orchestrator import (
    ASKED,
    BACKOFF_CAP,
    NEVER,
    TRANSITIONS,
    Answer,
    Container,
    Do,
    Event,
    Kind,
    Phase,
    move,
)
from tests.rehearsal.support import SETTINGS, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable


def failing(
    kinds: set[Kind], begin: float, end: float = NEVER, launches: int = 1_000_000
) -> Callable[[Kind, float, int], bool]:
    """Return a service that answers no to some questions within a span, in its first launches."""
    return lambda kind, now, launch: not (kind in kinds and begin <= now < end and launch <= launches)


# --- the scenarios -----------------------------------------------------------------------------------------------


def test_startup_holds_the_others_back() -> None:
    """HL-8.2: while startup has not succeeded nothing else is asked; then it is asked no more."""
    played = Simulation(failing({Kind.STARTUP}, 0, 12)).run(60)
    assert played.asked_at(Kind.STARTUP) == [float(second) for second in range(13)]
    assert played.asked_at(Kind.LIVENESS)[0] == played.asked_at(Kind.READINESS)[0] == 12
    assert played.times(Do.STARTED) == played.times(Do.ENTER) == [12]
    assert played.times(Do.TERMINATE) == []


def test_startup_is_exhausted() -> None:
    """HL-8.2: as many failures of startup as its threshold kill and restart, and the next process is asked anew."""
    played = Simulation(failing({Kind.STARTUP}, 0, launches=1)).run(60)
    assert played.times(Do.TERMINATE) == [29]
    assert played.times(Do.START) == [0, 30]
    assert played.times(Do.ENTER) == [30]
    assert played.asked_at(Kind.LIVENESS)[0] == 30


def test_startup_one_short_of_its_threshold() -> None:
    """HL-8.2: one failure less than the threshold restarts nothing."""
    assert Simulation(failing({Kind.STARTUP}, 0, 28.5)).run(60).times(Do.TERMINATE) == []


def test_readiness_only_moves_in_and_out() -> None:
    """HL-8.2: its threshold takes the instance out, one success puts it back, and nothing is ever restarted."""
    played = Simulation(failing({Kind.READINESS}, 10, 1000)).run(2000)
    assert played.times(Do.LEAVE) == [15]
    assert played.times(Do.ENTER) == [0, 1002]
    assert played.times(Do.TERMINATE) == []


def test_one_failure_of_readiness_is_below_the_threshold() -> None:
    """HL-8.2: what is below the threshold changes nothing."""
    assert Simulation(failing({Kind.READINESS}, 10, 13)).run(60).times(Do.LEAVE) == []


def test_dependency_outage_restarts_nothing() -> None:
    """HL-8.2: with liveness true to itself, an outage of hours is no restart."""
    played = Simulation(failing({Kind.READINESS}, 5)).run(10_000)
    assert played.times(Do.START) == [0]
    assert not played.container.in_rotation


def test_flap_comes_back_with_the_success() -> None:
    """HL-8.2: a service that needs two good runs of its own is asked until it says so, and then one yes is enough."""
    ups = {9.0: False, 12.0: False, 15.0: False, 18.0: True}
    played = Simulation(lambda kind, now, _: kind is not Kind.READINESS or ups.get(now, True)).run(30)
    assert (played.times(Do.LEAVE), played.times(Do.ENTER)) == ([12], [0, 18])


def test_wedge_is_restarted_by_liveness() -> None:
    """HL-8.2: as many failures of liveness as its threshold restart; TERM first, then KILL after grace."""
    stuck = {Kind.LIVENESS, Kind.READINESS}
    played = Simulation(failing(stuck, 15, launches=1), ends=NEVER).run(120)
    assert played.times(Do.TERMINATE) == [40]
    assert played.times(Do.KILL) == [70]
    assert played.times(Do.START) == [0, 70]
    assert played.times(Do.ENTER) == [0, 70]


def test_a_stopping_container_is_asked_for_readiness_alone() -> None:
    """HL-8.2: while a container ends, a drain that it tells takes it out of rotation; liveness is asked no more."""
    sees = failing({Kind.LIVENESS}, 5)
    played = Simulation(lambda kind, now, launch: sees(kind, now, launch) and (kind is not Kind.READINESS or now < 31))
    played.ends = 20.0
    played.run(49)
    assert played.times(Do.TERMINATE) == [30]
    assert played.times(Do.LEAVE) == [36]
    assert played.asked_at(Kind.LIVENESS) == [0, 10, 20, 30]


def test_rolling_update() -> None:
    """HL-8.2: one that is deleted leaves rotation at once, is asked nothing, is killed after grace, and is gone."""
    played = Simulation(ends=NEVER).run(10)
    played.delete()
    asked = len(played.questions)
    played.run(200)
    assert played.times(Do.LEAVE) == played.times(Do.TERMINATE) == [10]
    assert played.times(Do.KILL) == [40]
    assert played.container.phase is Phase.GONE
    assert len(played.questions) == asked
    assert played.times(Do.START) == [0]


def test_backoff() -> None:
    """HL-8.2: the first restart comes at once, then 10 s, doubling to 300 s; ten good minutes begin anew."""
    played = Simulation()
    delays = []
    for _ in range(8):
        played.run(played.now)
        container, decisions = machine.exited(played.container, played.now, SETTINGS, "exit 1")
        assert [decision.do for decision in decisions] == [Do.LEAVE, Do.WAIT]
        delays.append(container.until - played.now)
        played.container = container
        played.run(container.until)
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]
    played.run(played.now + 2 * BACKOFF_CAP * SETTINGS.backoff + 1)
    assert machine.exited(played.container, played.now, SETTINGS, "exit 1")[0].until == played.now


def test_answers_of_another_process_are_nobodys() -> None:
    """HL-8.2: an answer that was asked of an earlier process, or of another phase, moves nothing."""
    container = Simulation().run(1).container
    for answer in (Answer(Kind.LIVENESS, 0, ok=False), Answer(Kind.STARTUP, 1, ok=False)):
        assert machine.answered(container, answer, 2.0, SETTINGS) == (container, ())


def test_small_delays_do_not_add_up() -> None:
    """HL-8.2: a question is due by when the one before was due, and after a long delay at once."""
    container = Simulation().run(0).container
    late = machine.asked(container, Kind.LIVENESS, 10.4, SETTINGS)
    assert late.liveness.due == 20
    assert machine.asked(container, Kind.LIVENESS, 55.0, SETTINGS).liveness.due == 55


# --- whatever happens --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", Event)
def test_the_table_is_all_there_is(phase: Phase, event: Event) -> None:
    """HL-8.2: an event that a phase does not have is refused, any other leads where the table says."""
    container = replace(Container(), phase=phase, launches=1)
    if event in TRANSITIONS[phase]:
        assert move(container, event, 1.0, SETTINGS)[0].phase is TRANSITIONS[phase][event][0]
    else:
        with pytest.raises(KeyError):
            move(container, event, 1.0, SETTINGS)


@given(
    st.lists(st.tuples(st.sampled_from(Kind), st.floats(0, 300), st.floats(0, 100)), max_size=6),
    st.sampled_from([0.5, 5.0, NEVER]),
    st.lists(st.floats(1, 300), max_size=3),
)
def test_laws_of_any_life(spans: list[tuple[Kind, float, float]], ends: float, crashes: list[float]) -> None:
    """HL-8.2: only startup and liveness restart, starts and ends alternate, and rotation needs startup."""

    def answers(kind: Kind, now: float, _launch: int) -> bool:
        return not any(kind is bad and begin <= now < begin + length for bad, begin, length in spans)

    played = Simulation(answers, ends=ends)
    for crash in sorted(crashes):
        played.run(max(crash, played.now))
        if played.container.phase in {Phase.STARTING, Phase.RUNNING}:
            played.crash_at = played.now
    played.run(500)
    lives = [decision.do for _, decision in played.done if decision.do in {Do.START, Do.WAIT}]
    assert lives == [Do.START, Do.WAIT] * (len(lives) // 2) + [Do.START] * (len(lives) % 2)
    rotation = [decision.do for _, decision in played.done if decision.do in {Do.ENTER, Do.LEAVE}]
    assert rotation == [Do.ENTER, Do.LEAVE] * (len(rotation) // 2) + [Do.ENTER] * (len(rotation) % 2)
    whys = [decision.why for _, decision in played.done if decision.do is Do.TERMINATE]
    assert all(why.startswith(("startup failed", "liveness failed")) for why in whys)
    started = False
    for _, decision in played.done:
        started = decision.do is not Do.START and (started or decision.do is Do.STARTED)
        assert started or decision.do is not Do.ENTER
    if not any(kind in {Kind.LIVENESS, Kind.STARTUP} for kind, _, _ in spans):
        assert whys == []


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_run_shorter_than_the_threshold_never_acts(answers: list[bool]) -> None:
    """HL-8.2: liveness restarts at the first full run of failures, and for nothing less."""
    threshold = SETTINGS.figures.liveness.failure_threshold
    told = iter(answers)
    played = Simulation(lambda kind, _now, launch: kind is not Kind.LIVENESS or launch > 1 or next(told, True))
    played.run(10.0 * len(answers) + 100)
    words = "".join("." if answer else "x" for answer in answers)
    place = words.find("x" * threshold)
    assert played.times(Do.TERMINATE) == ([] if place < 0 else [10.0 * (place + threshold - 1)])


def test_gone_and_waiting_are_asked_nothing() -> None:
    """HL-8.2: only a process is asked."""
    assert {phase for phase in Phase if phase in ASKED} == {Phase.STARTING, Phase.RUNNING, Phase.STOPPING}
    assert machine.next_instant(replace(Container(), phase=Phase.GONE, until=NEVER)) == NEVER
