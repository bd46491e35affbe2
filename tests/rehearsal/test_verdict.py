"""What is concluded from a timeline that is written by hand, and how that is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from idkmesh.rehearsal.faults import Fault, How
from idkmesh.rehearsal.measure import Happened, Record
from idkmesh.rehearsal.plan import Expectation, Plan
from idkmesh.rehearsal.report import json_report, text_report
from idkmesh.rehearsal.timeline import WIDTH, Entry, Span, What, drawn, out_of_rotation, served, tracks
from idkmesh.rehearsal.verdict import Judgement, Verdict, judge
from tests.health.support import dependency
from tests.rehearsal.support import SETTINGS, matrix_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = json.loads((Path(__file__).parents[2] / "idkmesh" / "schemas" / "rehearsal.json").read_text(encoding="utf-8"))
MATRIX = matrix_of(dependency("db", success_threshold=2), dependency("cache", critical=False))
OUTAGE = Happened(Fault(how=How.REFUSE, name="db", begin=20, end=60), 20, 60)
UP = (
    Entry(0, What.LAUNCHED, "app"),
    Entry(1, What.STARTED, "app"),
    Entry(1, What.ENTERED, "app"),
)
LEFT, BACK = Entry(26, What.LEFT, "app"), Entry(64, What.ENTERED, "app")


def plan(expectation: Expectation | None = None, *, from_rotation: bool = False) -> Plan:
    return Plan(
        matrix=MATRIX,
        settings=SETTINGS,
        target="http://127.0.0.1:1",
        argv=("app",),
        faults=(),
        seconds=100,
        expectation=expectation,
        from_rotation=from_rotation,
    )


def judged(
    entries: Sequence[Entry], *faults: Happened, end: float = 100, expectation: Expectation | None = None
) -> Judgement:
    record = Record(tuple(sorted(entries, key=lambda entry: entry.at)), faults, end)
    of = plan(expectation)
    judgement = judge(of, record)
    jsonschema.Draft202012Validator(SCHEMA).validate(json_report(of, record, judgement))
    lines = list(text_report(of, record, judgement, ascii_only=True))
    assert all(line.isascii() for line in lines)
    assert lines[-1] == f"verdict: {judgement.verdict.value.replace('_', ' ')}"
    return judgement


def held(judgement: Judgement, rule: str) -> bool | None:
    (check,) = (check for check in judgement.checks if check.rule == rule)
    return check.held


def restart(at: float, cause: str) -> list[Entry]:
    return [
        Entry(at, What.TERMINATED, "app", f"{cause} failed 3 times", (cause,)),
        Entry(at + 1, What.EXITED, "app", "exit 0"),
        Entry(at + 1, What.LAUNCHED, "app"),
    ]


def test_an_outage_that_is_seen_and_forgotten_in_time() -> None:
    """HL-8.5, HL-8.7: noticed and over within the bounds, and nothing restarted: exit 0."""
    judgement = judged([*UP, LEFT, BACK], OUTAGE)
    assert judgement.verdict is Verdict.HELD
    (measured,) = judgement.measured
    assert (measured.noticed, measured.recovered, judgement.out_of_rotation) == (6, 4, 38)


@pytest.mark.parametrize(
    ("entries", "rule"),
    [
        ([Entry(35, What.LEFT, "app"), BACK], "noticed"),
        ([LEFT, Entry(90, What.ENTERED, "app")], "recovered"),
        ([LEFT, Entry(60, What.ENTERED, "app")], "recovered"),
        ([], "noticed"),
        ([LEFT], "recovered"),
    ],
    ids=["late", "late back", "too soon back", "never", "never back"],
)
def test_what_is_beyond_the_bounds(entries: list[Entry], rule: str) -> None:
    """HL-8.5, HL-8.7: later than the bound, or back before two successes can have been: exit 1."""
    steady = matrix_of(dependency("db", success_threshold=3))
    record = Record((*UP, *entries), (OUTAGE,), 100)
    of = Plan(matrix=steady, settings=SETTINGS, target="", argv=(), faults=(), seconds=100)
    judgement = judge(of, record)
    assert held(judgement, rule) is False
    assert judgement.verdict.exit_code == 1


def test_a_service_that_goes_past_the_proxy() -> None:
    """HL-8.7: nothing noticed and nothing through the proxy: exit 3 and what to look at; a restart is still judged."""
    record = Record(UP, (OUTAGE,), 100, frozenset({"db", "cache"}))
    expected = Expectation(restarts=0, cause="none", leaves_rotation=True)
    for of in (plan(), plan(expected)):
        judgement = judge(of, record)
        assert judgement.verdict.exit_code == 3
        jsonschema.Draft202012Validator(SCHEMA).validate(json_report(of, record, judgement))
        line = "nothing came through the proxy of db: does the service read IDKMESH_MATRIX or IDKMESH_DEP_DB?"
        assert [check.said for check in judgement.checks if check.rule == "reached"] == [line]
        assert line in "".join(text_report(of, record, judgement, ascii_only=True))
    restarted = Record((*UP, *restart(30, "liveness")), (OUTAGE,), 100, frozenset({"db"}))
    assert judge(plan(), restarted).verdict is Verdict.NOT_HELD
    noticed = Record((*UP, LEFT, BACK), (OUTAGE,), 100, frozenset({"db"}))
    assert judge(plan(), noticed).verdict is Verdict.HELD
    never_in = Record(UP[:2], (OUTAGE,), 100, frozenset({"db"}))
    assert "reached" not in {check.rule for check in judge(plan(), never_in).checks}


def test_one_restart_is_told_as_one() -> None:
    """HL-8.6: what is counted is a sentence."""
    judgement = judged([*UP, *restart(10, "liveness")], OUTAGE)
    (check,) = (check for check in judgement.checks if check.rule == "no-restart-without-cause")
    assert check.said.startswith("1 other restart: ")


@pytest.mark.parametrize("cause", ["liveness", "startup"])
@pytest.mark.parametrize("at", [30.0, 70.0])
def test_a_restart_in_an_outage(cause: str, at: float) -> None:
    """HL-8.7: a restart while dependencies alone are down, or as their outage's last effect, is the failure sought."""
    judgement = judged([*UP, LEFT, BACK, *restart(at, cause)], OUTAGE)
    assert held(judgement, "no-restart-in-dependency-outage") is False
    assert judgement.restarts[0].in_outage
    assert judgement.verdict.exit_code == 1


def test_an_exit_in_an_outage() -> None:
    """HL-8.7: a service that ends by itself because its database is down is restarted for it all the same."""
    judgement = judged([*UP, LEFT, BACK, Entry(30, What.EXITED, "app", "exit 1")], OUTAGE)
    assert [restart.cause for restart in judgement.restarts] == ["exit"]
    assert held(judgement, "no-restart-in-dependency-outage") is False


def test_a_wedge_explains_its_restart() -> None:
    """HL-8.5: a restart of a stopped service is what liveness is for; one without any cause is none."""
    wedge = Happened(Fault(how=How.WEDGE, begin=20, end=60), 20, 60)
    entries = [*UP, Entry(25, What.LEFT, "app"), *restart(45, "liveness"), Entry(50, What.ENTERED, "app")]
    judgement = judged(entries, wedge)
    assert (judgement.verdict, held(judgement, "noticed")) == (Verdict.HELD, True)
    assert held(judged(entries), "no-restart-without-cause") is False


def test_what_cannot_be_told() -> None:
    """HL-8.5, HL-8.7: faults that hide each other, that end too soon, or at the end of all, are not judged."""
    other = Happened(Fault(how=How.CUT, name="db", begin=61, end=62), 61, 62)
    judgement = judged([*UP, LEFT, Entry(66, What.ENTERED, "app")], OUTAGE, other)
    assert [check.held for check in judgement.checks if check.rule == "recovered"] == [None, True]
    short = Happened(Fault(how=How.REFUSE, name="db", begin=20, end=21), 20, 21)
    assert held(judged(UP, short), "noticed") is None
    last = Happened(OUTAGE.fault, 20, None)
    assert held(judged([*UP, LEFT], last, end=40), "recovered") is None
    assert judged(UP[:1]).verdict is Verdict.COULD_NOT_TELL


def test_noncritical_stays_in_rotation() -> None:
    """HL-1.2, HL-8.5: a warning names it in time, and the instance stays; one that leaves breaks the contract."""
    fault = Happened(Fault(how=How.REFUSE, name="cache", begin=20, end=60), 20, 60)
    warned = [Entry(22, What.WARNED, "app", "", ("cache",)), Entry(63, What.WARNED, "app", "", ())]
    judgement = judged([*UP, *warned], fault)
    assert (judgement.verdict, held(judgement, "noncritical-stays-in-rotation")) == (Verdict.HELD, True)
    assert held(judged([*UP, *warned, LEFT, BACK], fault), "noncritical-stays-in-rotation") is False
    assert held(judged(UP, fault), "noticed") is False


def test_expectations() -> None:
    """HL-8.8: a scenario's own figures are checks too."""
    expected = Expectation(restarts=1, cause="liveness", leaves_rotation=False)
    judgement = judged([*UP, LEFT, BACK], OUTAGE, expectation=expected)
    assert (held(judgement, "expected-restarts"), held(judgement, "expected-rotation")) == (False, False)
    assert held(judgement, "in-rotation-at-end") is True


def test_rolling_update_has_no_gap() -> None:
    """HL-8.8: an instance in rotation at all times, and an update that ends."""
    roll = Happened(Fault(how=How.ROLL, begin=20, end=20), 20, 30)
    second = [Entry(20, What.LAUNCHED, "app-2"), Entry(25, What.ENTERED, "app-2")]
    first = Entry(26, What.LEFT, "app", "deleted")
    assert held(judged([*UP, *second, first], roll), "always-served") is True
    early = judged([*UP, *second, Entry(22, What.LEFT, "app", "deleted")], Happened(roll.fault, 20, None))
    assert (held(early, "always-served"), held(early, "rolled")) == (False, False)


def test_spans_and_strips() -> None:
    """HL-8.6: spans have no gap, short things are not lost, and a strip has its width whatever the time."""
    entries = [*UP, Entry(20, What.FAULT_BEGAN, "db"), Entry(20.1, What.FAULT_ENDED, "db"), LEFT, BACK]
    found = tracks(entries, 100)
    assert found["db"] == (Span(0, 20, "well"), Span(20, 20.1, "fault"), Span(20.1, 100, "well"))
    assert found["app rotation"][1:] == (Span(1, 26, "in"), Span(26, 64, "out"), Span(64, 100, "in"))
    for ascii_only in (True, False):
        strips = drawn(found, 100, ascii_only=ascii_only)
        assert {line.rindex("|") - line.index("|") - 1 for line in strips[:3]} == {WIDTH}
        assert strips[0].count("x") == 1
    assert served(entries, 100)[1] == Span(26, 64, "out")
    assert (out_of_rotation(entries, 100), served([], 100)) == (38, ())
