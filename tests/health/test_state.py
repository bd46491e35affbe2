"""A verdict changes when the table says so, is told once, and ends with its result."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.health.model import Outcome, Verdict
from idkmesh.health.state import (
    TRANSITIONS,
    VERDICTS,
    DependencyState,
    Standing,
    VerdictChange,
    Word,
    age_at,
    expire,
    step,
    verdict_at,
)
from tests.health.support import COULD_NOT_RUN, FAILED, LETTERS, OK, START, dependency, result

SHOWN = {Verdict.OK: "o", Verdict.FAILING: "f", Verdict.UNKNOWN: "?"}

letters = st.text(st.sampled_from("SFNE"), max_size=60)
thresholds = st.integers(1, 4)


def play(words: str, failure: int, success: int) -> tuple[str, list[VerdictChange]]:
    """Feed one result a second; E is the expiry of what is there. Return the verdict after each, and the changes."""
    declared = dependency(failure_threshold=failure, success_threshold=success, cache_ms=10_000)
    state = DependencyState(since=START)
    shown, changes = "", []
    now = START
    for word in words:
        change: VerdictChange | None
        if word == "E":
            now += 11
            state, change = expire(state, now)
        else:
            now += 1
            state, change = step(state, result(LETTERS[word], began=now), declared)
        shown += SHOWN[verdict_at(state, now)]
        changes += [change] if change else []
    return shown, changes


@pytest.mark.parametrize(
    ("failure", "success", "words", "verdicts", "changes"),
    [
        # A flapping dependency stays what it was.
        (3, 2, "FSFSFSFS", "ffffffff", 1),
        (3, 2, "SFSFSFSF", "oooooooo", 1),
        # The count begins anew with a counter-result.
        (3, 2, "SFFSFFF", "oooooof", 2),
        (3, 2, "FFSFFF", "ffffff", 1),
        # One lucky success in a long outage changes nothing; two in a row do.
        (3, 2, "F" * 50 + "S" + "F", "f" * 52, 1),
        (3, 2, "F" * 50 + "SS", "f" * 51 + "o", 2),
        (3, 2, "FSFSS", "ffffo", 2),
        # Thresholds of 1 follow each result.
        (1, 1, "FSFSS", "fofoo", 4),
        (1, 1, "SSFFS", "ooffo", 3),
        # A probe that could not be run: unknown at once, and the row is broken.
        (3, 2, "SN", "o?", 2),
        (3, 2, "NN", "??", 0),
        (3, 2, "NF", "?f", 1),
        (3, 2, "FSNSS", "ff??o", 3),
        (3, 2, "SFFNFFF", "ooo???f", 3),
        # A gap is no short cut: the old verdict comes back at once, the contrary needs its threshold.
        (3, 2, "SES", "o?o", 3),
        (3, 2, "FES", "f??", 2),
        (3, 2, "FESS", "f??o", 3),
        (3, 2, "FEF", "f?f", 3),
        (3, 2, "SEF", "o??", 2),
        (3, 2, "SEFFF", "o???f", 3),
        # Results that do not live until the next one reach a threshold all the same.
        (1, 3, "FESESES", "f?????o", 3),
        (2, 1, "SEFEF", "o???f", 3),
    ],
)
def test_sequences(failure: int, success: int, words: str, verdicts: str, changes: int) -> None:
    """HL-4.2, HL-4.5, HL-4.7, PROBE-07: the verdict after each step, and as many changes told as there are."""
    shown, told = play(words, failure, success)
    assert shown == verdicts
    assert len(told) == changes


def test_a_change_carries_its_reason() -> None:
    """HL-4.7, HL-4.12: from, to, and the word of the result that did it; of an expiry, that it is stale."""
    declared = dependency()
    state, change = step(DependencyState(since=START), result(OK), declared)
    assert change == VerdictChange(Verdict.UNKNOWN, Verdict.OK, "ok")
    state, change = step(state, result(FAILED, START + 1, 0.5, "refused"), declared)
    assert change == VerdictChange(Verdict.OK, Verdict.FAILING, "refused")
    assert state.since == START + 1.5
    state, change = expire(state, START + 4.0)
    assert change == VerdictChange(Verdict.FAILING, Verdict.UNKNOWN, "stale")
    assert state.since == START + 4.0
    assert expire(state, START + 9.0) == (state, None)


def test_the_table_is_complete() -> None:
    """HL-4.7: each standing knows each word; every way to ok goes by a success, from failing by enough of them."""
    assert set(TRANSITIONS) == set(Standing) == set(VERDICTS)
    for standing, row in TRANSITIONS.items():
        assert set(row) == set(Word)
        assert VERDICTS[row[Word.NOTHING]] is Verdict.UNKNOWN
        assert VERDICTS[row[Word.FAILURES]] is Verdict.FAILING
        assert VERDICTS[row[Word.SUCCESSES]] is Verdict.OK
        if VERDICTS[standing] is not Verdict.OK:
            assert VERDICTS[row[Word.FAILURE]] is not Verdict.OK
    for standing in (Standing.FAILING, Standing.FAILING_LOST):
        assert VERDICTS[TRANSITIONS[standing][Word.SUCCESS]] is not Verdict.OK


def test_a_result_lives_its_time() -> None:
    """HL-1.4, HL-4.5: from its end, for cache_ms; then the dependency is unknown whether anybody has looked or not."""
    state, _ = step(DependencyState(since=START), result(OK, START, 0.25), dependency())
    assert verdict_at(state, START + 2.749) is Verdict.OK
    assert verdict_at(state, START + 2.75) is Verdict.UNKNOWN
    assert age_at(state, START + 2.75) == 2.5
    assert age_at(state, START) == 0.0
    assert age_at(DependencyState(since=START), START) is None
    assert expire(state, START + 2.749) == (state, None)


def test_unknown_from_the_beginning() -> None:
    """HL-1.4: what was never probed is unknown, and that is no change."""
    state = DependencyState(since=START)
    assert verdict_at(state, START) is Verdict.UNKNOWN
    assert expire(state, START + 9) == (state, None)


@given(letters, thresholds, thresholds)
def test_nothing_is_told_that_did_not_change(words: str, failure: int, success: int) -> None:
    """HL-4.7: each change leads on from the one before, and together they are the verdicts that were shown."""
    shown, changes = play(words, failure, success)
    told = [SHOWN[Verdict.UNKNOWN], *(SHOWN[change.after] for change in changes)]
    assert all(change.before is not change.after for change in changes)
    assert [SHOWN[change.before] for change in changes] == told[:-1]
    seen = [verdict for before, verdict in zip("?" + shown, shown, strict=False) if before != verdict]
    assert seen == told[1:]


@given(letters, thresholds, thresholds)
def test_nothing_changes_below_a_threshold(words: str, failure: int, success: int) -> None:
    """HL-4.7: from ok to failing and back it takes the set number in a row, whatever lies between."""
    shown, _ = play(words, failure, success)
    settled = ""
    for index, verdict in enumerate(shown):
        row = words[: index + 1].replace("E", "")
        if verdict in "of" and settled and verdict != settled:
            assert row.endswith("S" * success if verdict == "o" else "F" * failure)
        if verdict in "of":
            settled = verdict
        if words[index] == "F":
            assert verdict != "o" or settled == "o"


@given(letters, thresholds, thresholds)
def test_a_long_enough_row_decides(words: str, failure: int, success: int) -> None:
    """HL-4.7: whatever was before, the threshold's number in a row is enough, in each direction."""
    assert play(words + "F" * failure, failure, success)[0][-1] == "f"
    assert play(words + "S" * success, failure, success)[0][-1] == "o"
    assert play(words + "N", failure, success)[0][-1] == "?"


@given(st.lists(st.tuples(st.sampled_from(list(Outcome)), st.integers(0, 50)), max_size=30), thresholds, thresholds)
def test_a_late_result_never_overwrites(given_: list[tuple[Outcome, int]], failure: int, success: int) -> None:
    """HL-4.3: what began before the stored result is dropped, and the rest is as if it had never come."""
    declared = dependency(failure_threshold=failure, success_threshold=success)
    state = in_order = DependencyState(since=START)
    newest = -1
    for outcome, began in given_:
        each = result(outcome, START + began)
        before = state
        state, change = step(state, each, declared)
        if began < newest:
            assert (state, change) == (before, None)
        else:
            newest = began
            in_order, _ = step(in_order, each, declared)
    assert state == in_order


def test_the_length_of_rows_is_kept() -> None:
    """HL-5.3: run lengths are counted on beyond the threshold, and one of the two is 0."""
    state = DependencyState(since=START)
    lengths = []
    for second, outcome in enumerate((OK, OK, OK, FAILED, FAILED, COULD_NOT_RUN, OK)):
        state, _ = step(state, result(outcome, START + second), dependency(failure_threshold=3))
        lengths.append((state.successes, state.failures))
    assert lengths == [(1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (0, 0), (1, 0)]


def test_since_never_goes_back() -> None:
    """HL-5.3: a result that ended before the expiry that was noticed meanwhile is no reason to."""
    declared = dependency(cache_ms=1000)
    state, _ = step(DependencyState(since=START), result(OK), declared)
    state, _ = expire(state, START + 1.0)
    state, change = step(state, result(OK, START + 0.5, 0.1), declared)
    assert change is not None
    assert state.since == START + 1.0
    assert dataclasses.replace(state) == state
