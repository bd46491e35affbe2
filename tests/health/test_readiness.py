"""Worst wins, unknown is not ok, a noncritical dependency takes no traffic away, and what has started stays so."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.health.model import Verdict
from idkmesh.health.readiness import Grade, Known, Readiness, grade, is_ok, judge, statuses_without, worst

OK, FAILING, UNKNOWN = Verdict

rows = st.lists(st.tuples(st.booleans(), st.sampled_from(list(Verdict)), st.booleans()), max_size=8).map(
    lambda found: [Known(f"d{number}", *each) for number, each in enumerate(found)]
)


@pytest.mark.parametrize(
    ("critical", "verdict", "status", "failing", "warnings"),
    [
        (True, OK, "ready", (), ()),
        (True, FAILING, "not_ready", ("db",), ()),
        (True, UNKNOWN, "not_ready", ("db",), ()),
        (False, OK, "ready", (), ()),
        (False, FAILING, "ready", (), ("db",)),
        (False, UNKNOWN, "ready", (), ("db",)),
    ],
)
def test_truth_table(
    critical: bool, verdict: Verdict, status: str, failing: tuple[str, ...], warnings: tuple[str, ...]
) -> None:
    """HL-1.2, HL-1.4, HL-5.1, PROBE-13: a critical dependency that is not ok stands against it, the other is named."""
    found = judge([Known("db", critical, verdict, ran=True)], started=True)
    assert (found.status, found.failing, found.warnings) == (status, failing, warnings)
    # One more that is well changes nothing.
    assert judge([Known("db", critical, verdict, ran=True), Known("x", True, OK, ran=True)], started=True) == found


PAIRS = list(itertools.product(itertools.product([True, False], Verdict), repeat=2))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_worst_wins(first: tuple[bool, Verdict], second: tuple[bool, Verdict]) -> None:
    """HL-1.2: of two dependencies the worse one says what the instance is, in whatever order they stand."""
    known = [Known("a", *first, ran=True), Known("b", *second, ran=True)]
    expected = "not_ready" if any(critical and verdict is not OK for critical, verdict in (first, second)) else "ready"
    assert judge(known, started=True).status == judge(known[::-1], started=True).status == expected
    assert worst(map(grade, known)) is max(grade(known[0]), grade(known[1]))


def test_small_rules() -> None:
    """HL-1.4: unknown is not ok; with nothing to judge all is well."""
    assert [is_ok(verdict) for verdict in Verdict] == [True, False, False]
    assert worst([]) is Grade.READY
    assert judge([], started=False) == Readiness("ready")


def test_startup_waits_for_each_probe_and_stays() -> None:
    """HL-1.3, HL-5.2: starting until each has run once, whatever came of it; then never again."""
    waiting = [Known("a", True, FAILING, ran=True), Known("b", False, UNKNOWN, ran=False)]
    assert judge(waiting, started=False) == Readiness("starting", ("a",), ("b",), ("b",))
    ran = [waiting[0], waiting[1]._replace(ran=True)]
    assert judge(ran, started=False) == Readiness("not_ready", ("a",), ("b",))
    # A dependency that was added later is judged, and brings no second start.
    assert judge(waiting, started=True) == Readiness("not_ready", ("a",), ("b",))


@given(rows, st.booleans())
def test_readiness_without_one(known: list[Known], started: bool) -> None:
    """HL-5.3: what readiness would be without a dependency is what a matrix without it comes to."""
    found = statuses_without(judge(known, started=started), [each.name for each in known])
    for each in known:
        rest = [other for other in known if other is not each]
        assert found[each.name] == judge(rest, started=started or all(row.ran for row in known)).status


@given(rows, st.booleans())
def test_each_that_is_not_ok_is_named_once(known: list[Known], started: bool) -> None:
    """HL-5.1: failing and warnings are the dependencies that are not ok, in the matrix's order, each in one of them."""
    found = judge(known, started=started)
    assert found.failing == tuple(each.name for each in known if each.critical and each.verdict is not OK)
    assert found.warnings == tuple(each.name for each in known if not each.critical and each.verdict is not OK)
    assert (found.status == "ready") is (not found.pending and not found.failing)
