"""The table of states, and that nothing but a change moves a revision."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, Observation, ProviderEvent, Snapshot, State, snapshot_of
from idkmesh.topology.transitions import TRANSITIONS, Word, accept, heard, opened
from tests.topology.support import EMPTY, UTC, at

LATER = UTC + dt.timedelta(seconds=1)
EVENTS: dict[Word, ProviderEvent] = {
    Word.MISSING: NOT_DECLARED,
    Word.EMPTY: EMPTY,
    Word.POPULATED: at(1),
    Word.FAILED: Failed(Cause.LOST),
}
OBSERVATIONS = {
    State.INITIALIZING: opened(UTC),
    State.MISSING: Observation(State.MISSING, 3, UTC),
    State.EMPTY: Observation(State.EMPTY, 3, UTC),
    State.POPULATED: Observation(State.POPULATED, 3, UTC, at(7).endpoints),
    State.UNAVAILABLE: Observation(State.UNAVAILABLE, 3, UTC, (), Cause.LOST),
}

events = st.one_of(
    st.just(NOT_DECLARED),
    st.builds(Failed, st.sampled_from(Cause)),
    st.builds(
        lambda ports, unreadable: Snapshot(declared=True, endpoints=at(*ports).endpoints, unreadable=unreadable),
        st.lists(st.integers(1, 3), max_size=3),
        st.integers(0, 1),
    ),
)


def test_the_table_is_that_of_the_specification() -> None:
    """RT-2.1: each state hears four words, but for the last one, which is over."""
    row = {
        Word.MISSING: State.MISSING,
        Word.EMPTY: State.EMPTY,
        Word.POPULATED: State.POPULATED,
        Word.FAILED: State.UNAVAILABLE,
    }
    assert {state: {} if state is State.UNAVAILABLE else row for state in State} == TRANSITIONS
    assert {state.value for state in State} == {"initializing", "missing", "empty", "populated", "unavailable"}


@pytest.mark.parametrize(("state", "word"), list(product(State, Word)), ids=lambda each: each.name.lower())
def test_each_cell(state: State, word: Word) -> None:
    """RT-2.1, RT-2.2, RT-2.4, RT-2.5: state, revision, instant and endpoints after each word in each state."""
    before, event = OBSERVATIONS[state], EVENTS[word]
    after = accept(before, event, LATER)
    if state is State.UNAVAILABLE:
        assert after is before
        return
    assert after.state is TRANSITIONS[state][word]
    if word is Word.FAILED:
        assert after == Observation(State.UNAVAILABLE, before.revision, LATER, (), Cause.LOST)
    elif after.state is state and word is not Word.POPULATED:
        assert after is before
    else:
        endpoints = at(1).endpoints if word is Word.POPULATED else ()
        assert after == Observation(after.state, before.revision + 1, LATER, endpoints)


def test_it_begins_with_nothing() -> None:
    """RT-2.2, RT-2.4: revision 0, and the instant of the opening."""
    assert opened(UTC) == Observation(State.INITIALIZING, 0, UTC)


@pytest.mark.parametrize("event", [NOT_DECLARED, EMPTY, at(1, 2)])
def test_the_same_again_changes_nothing(event: Snapshot) -> None:
    """RT-2.3: a hundred equal snapshots, in whatever order, are one change."""
    first = accept(opened(UTC), event, UTC)
    observation = first
    for _ in range(100):
        again = snapshot_of(reversed(event.endpoints), declared=event.declared)
        observation = accept(observation, again, LATER)
    assert observation is first
    assert observation.revision == 1


def test_another_set_is_a_change() -> None:
    """RT-2.2: another set of endpoints is one, also of the same size; what could not be read beside them is none."""
    observation = accept(opened(UTC), at(1), UTC)
    moved = accept(observation, at(2), LATER)
    assert (moved.revision, moved.observed_at) == (2, LATER)
    assert accept(moved, Snapshot(declared=True, endpoints=at(2).endpoints, unreadable=5), LATER) is moved


def test_empty_is_evidence() -> None:
    """RT-2.6: where a record could not be read and none is an endpoint, nobody knows that none is left."""
    assert heard(Snapshot(declared=True, unreadable=1)) == (Word.FAILED, Cause.MALFORMED)
    assert heard(Snapshot(declared=True, endpoints=at(1).endpoints, unreadable=1)) == (Word.POPULATED, None)
    assert heard(EMPTY) == (Word.EMPTY, None)


def test_a_thousand_endpoints_and_no_more() -> None:
    """RT-1.3: more than that is refused as a whole; a part of a set would be another set."""
    assert heard(at(*range(1, 1001))) == (Word.POPULATED, None)
    assert heard(at(*range(1, 1002))) == (Word.FAILED, Cause.MALFORMED)


@given(st.lists(st.tuples(events, st.integers(0, 1000))))
def test_any_order_of_events(said: list[tuple[ProviderEvent, int]]) -> None:
    """RT-13.4, RT-2.7: whatever comes, and whatever the wall clock does, states follow the table and revisions grow."""
    course = [opened(UTC)]
    for event, seconds in said:
        course.append(accept(course[-1], event, UTC + dt.timedelta(seconds=seconds)))
    for before, after in pairwise(course):
        assert after is before or after.state in TRANSITIONS[before.state].values()
        same = (before.state, before.endpoints) == (after.state, after.endpoints)
        assert after.revision - before.revision == (0 if same or after.state is State.UNAVAILABLE else 1)
        assert bool(after.endpoints) is (after.state is State.POPULATED)
        assert (after.cause is not None) is (after.state is State.UNAVAILABLE)
        assert same is (after is before)
