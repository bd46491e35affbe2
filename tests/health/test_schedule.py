"""Runs are spread, keep their rhythm, and never follow close upon each other."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.health.schedule import CATCH_UP, JITTER, LEAST_EARLY, Agenda, first_due, next_due

chances = st.floats(0, 1, exclude_max=True)
intervals = st.floats(0.1, 3600)


def test_first_runs_are_spread() -> None:
    """HL-4.3: over the first interval or one second, whichever is shorter, evenly, and never more than 20 ms apart."""
    assert [first_due(100.0, place, 4, 10.0) for place in range(4)] == pytest.approx([100.0, 100.02, 100.04, 100.06])
    assert [first_due(100.0, place, 200, 10.0) for place in (0, 100)] == pytest.approx([100.0, 100.5])
    assert [first_due(100.0, place, 200, 0.4) for place in (0, 100)] == pytest.approx([100.0, 100.2])


@given(st.floats(0, 1e6), st.floats(0, 100), intervals, chances)
def test_an_interval_with_jitter(due: float, late: float, interval: float, chance: float) -> None:
    """HL-4.3: no later than an interval after the last run began, nor much sooner; no run is made up for."""
    began = due + late
    after = next_due(due, began, interval, lambda: chance)
    slack = 1e-6 * interval + 1e-6
    assert after <= began + interval + slack
    assert after >= began + interval * (1 - JITTER - CATCH_UP) - slack


@given(intervals, chances, st.floats(0, CATCH_UP * 0.9))
def test_small_delays_do_not_add_up(interval: float, chance: float, late: float) -> None:
    """HL-4.3: a hundred runs that each begin a little late are due as if none had."""
    due = 0.0
    for _ in range(100):
        due = next_due(due, due + late * interval, interval, lambda: chance)
    early = LEAST_EARLY + (JITTER - LEAST_EARLY) * chance
    assert due == pytest.approx(100 * interval * (1 - early))


def test_what_began_together_drifts_apart() -> None:
    """HL-4.3: ten instances that start at once do not ask at once for long."""
    chance = random.Random(1)
    dues = [0.0] * 10
    for _ in range(30):
        dues = [next_due(due, due, 10.0, chance.random) for due in dues]
    assert max(dues) - min(dues) > 2.0


def test_an_agenda_gives_the_longest_due_first() -> None:
    """HL-4.4: who has waited longest runs first; nobody before its time; the newest word on a name counts."""
    agenda = Agenda()
    for name, due in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 0.5), ("a", 9.0)):
        agenda.put(name, due)
    agenda.remove("d")
    agenda.remove("nobody")
    assert agenda.next_due() == 1.0
    taken = []
    while (entry := agenda.take(3.0)) is not None:
        taken.append(entry)
    assert taken == [(1.0, "b"), (2.0, "c")]
    assert agenda.take(9.0) == (9.0, "a")
    assert agenda.next_due() is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=30))
def test_an_agenda_has_one_entry_a_name(words: list[tuple[str, int | None]]) -> None:
    """HL-4.3: however often a name is put and removed, it comes up once, by the last word on it."""
    agenda = Agenda()
    expected: dict[str, float] = {}
    for name, due in words:
        if due is None:
            agenda.remove(name)
            expected.pop(name, None)
        else:
            agenda.put(name, due)
            expected[name] = due
    taken = []
    while (entry := agenda.take(100)) is not None:
        taken.append(entry)
    assert taken == sorted((due, name) for name, due in expected.items())
