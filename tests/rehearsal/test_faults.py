"""Faults as they are written, what they imply, and where the service is led: all without a clock or a socket."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.health.matrix_file import load_matrix
from idkmesh.health.model import Http, Python, Refresh, Tcp
from idkmesh.health.schedule import next_due
from idkmesh.rehearsal import orchestrator as machine
from idkmesh.rehearsal.bounds import dependency_bounds, patience, visible, wedge_bounds
from idkmesh.rehearsal.faults import (
    Fault,
    FaultError,
    How,
    moves,
    parse_failure,
    parse_seconds,
    parse_slowness,
    parse_wedge,
    parse_window,
    resolved,
)
from idkmesh.rehearsal.orchestrator import NEVER, Answer, Do, Kind
from idkmesh.rehearsal.reroute import rerouted_matrix, upstreams, variable, variables
from tests.health.matrices import matrix_text
from tests.health.support import dependency
from tests.rehearsal.support import FIGURES, SETTINGS, Simulation, matrix_of

TCP = Tcp(host="db.example", port=5432)
MATRIX = matrix_of(
    dependency("db", probe=TCP),
    dependency("api.v2", probe=Http(url="http://api.example/health")),
    dependency("other", probe=Python(target="a:b")),
)


def test_faults_as_they_are_written() -> None:
    """HL-8.3: a name, a way, a span."""
    assert parse_failure("orders-db@5s..20s") == Fault(how=How.REFUSE, name="orders-db", begin=5, end=20)
    assert parse_failure("a.b=blackhole@500ms..1.5s") == Fault(how=How.BLACKHOLE, name="a.b", begin=0.5, end=1.5)
    assert parse_failure("a=cut@0s..2m").how is How.CUT
    assert parse_slowness("a=800ms@1s..2s").delay == 0.8
    assert parse_window("30s..45s") == (30, 45)
    assert parse_wedge("30s..45s") == (30, 45)
    assert parse_wedge("30s") == (30, math.inf)


@pytest.mark.parametrize("text", ["", "5", "5 s", "-1s", "1e3s", "99999m", "\u0665s", "1.s", "nans"])
def test_what_is_no_time(text: str) -> None:
    """HL-8.3: anything else is refused in one line that says what to write."""
    with pytest.raises(FaultError, match=r"write 500ms, 1\.5s or 2m"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["db", "db@", "db@5s", "db@20s..5s", "DB@1s..2s", "db=explode@1s..2s", "@1s..2s"])
def test_what_is_no_fault(text: str) -> None:
    """HL-8.3: the same of a fault."""
    with pytest.raises(FaultError, match="write"):
        parse_failure(text)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["nobody@1s..2s"], "no such dependency"),
        (["other@1s..2s"], "cannot be failed"),
        (["db@1s..3s", "db=cut@2s..4s"], "overlap"),
    ],
)
def test_faults_that_cannot_be_done(texts: list[str], said: str) -> None:
    """HL-8.3: what cannot be done is refused before anything is started."""
    with pytest.raises(FaultError, match=said):
        resolved(map(parse_failure, texts), MATRIX)


def test_a_slowness_without_a_delay_outlasts_the_probe() -> None:
    """HL-8.3: twice the dependency's own timeout."""
    (fault,) = resolved([parse_slowness("db@1s..2s")], MATRIX)
    assert fault.delay * 1000 == 2 * MATRIX.dependencies[0].timeout_ms


def test_moves_in_order() -> None:
    """HL-8.3: where one fault ends as another begins, the end comes first; a rolling update ends when it is done."""
    one, two = parse_failure("db@1s..2s"), parse_failure("db@2s..3s")
    roll = Fault(how=How.ROLL, begin=2.5, end=2.5)
    told = [(move.at, move.fault, move.begins) for move in moves([two, roll, one])]
    assert told == [(1, one, True), (2, one, False), (2, two, True), (2.5, roll, True), (3, two, False)]


# --- bounds ------------------------------------------------------------------------------------------------------


def test_bounds_by_hand() -> None:
    """HL-8.5: the sums of the contract, for a matrix of plain figures."""
    row = dependency("db", probe=TCP, timeout_ms=500, interval_ms=2000, cache_ms=5000, success_threshold=2)
    bounds = dependency_bounds(row, parse_failure("db@1s..2s"), FIGURES)
    assert (bounds.notice, bounds.recover, bounds.earliest) == (2.5 + 7, 4.5 + 4, 0.8 * 2.0)
    warned = dependency("db", critical=False, probe=TCP, timeout_ms=500, interval_ms=2000, failure_threshold=3)
    assert dependency_bounds(warned, parse_failure("db@1s..2s"), FIGURES).notice == 6.5 + 4
    asked = dependency("db", probe=TCP, timeout_ms=500, interval_ms=2000, cache_ms=5000, refresh=Refresh.REQUEST)
    bounds = dependency_bounds(asked, parse_failure("db@1s..2s"), FIGURES)
    assert (bounds.notice, bounds.recover) == (5.5 + 7, 8.5 + 0.5 + 4)
    wedge = wedge_bounds(FIGURES, grace=5, backoff=1, starting=False)
    assert (wedge.notice, wedge.recover) == (31, 5 + 1 + 31 + 1)
    assert wedge_bounds(FIGURES, grace=5, backoff=1, starting=True).notice == patience(FIGURES.startup)


def test_what_a_probe_can_see() -> None:
    """HL-8.5: one that connects sees no reset and no delay after it; what it cannot see has no bound."""
    tcp, http = MATRIX.dependencies[:2]
    seen = {how for how in (How.REFUSE, How.CUT, How.BLACKHOLE) if visible(tcp, Fault(how=how, begin=0, end=1))}
    assert seen == {How.REFUSE, How.BLACKHOLE}
    assert visible(http, Fault(how=How.SLOW, begin=0, end=1, delay=60))
    assert not visible(http, Fault(how=How.SLOW, begin=0, end=1, delay=0.001))
    assert dependency_bounds(tcp, Fault(how=How.CUT, begin=0, end=1), FIGURES).notice is None


@given(st.randoms(use_true_random=False), st.floats(0, 30), st.integers(1, 4), st.floats(40, 90))
def test_no_order_of_runs_and_questions_is_beyond_the_bounds(
    random: object, phase: float, successes: int, length: float
) -> None:
    """HL-8.5: however runs and questions lie to each other, the bounds hold, the least time of a recovery too."""
    interval, timeout, begin = 2.0, 0.5, 40.0
    row = dependency("db", probe=TCP, timeout_ms=500, interval_ms=2000, cache_ms=5000, success_threshold=successes)
    bounds = dependency_bounds(row, parse_failure("db@1s..2s"), FIGURES)
    changes: list[tuple[float, bool]] = [(0.0, True)]
    at, run = phase / 30 * interval, successes
    while at < begin + length + 60:
        ok = not begin <= at < begin + length
        run = run + 1 if ok else 0
        ended = at if ok else at + timeout
        if not ok or run >= successes:
            changes.append((ended, ok))
        at = next_due(at, at, interval, random.random)  # type: ignore[attr-defined]  # a random.Random

    def ready(kind: Kind, now: float, _launch: int) -> bool:
        return kind is not Kind.READINESS or next(ok for when, ok in reversed(changes) if when <= now)

    played = Simulation(ready, now=phase / 10).run(begin + length + 60)
    (left,) = played.times(Do.LEAVE)
    back = played.times(Do.ENTER)[-1]
    assert bounds.notice is not None
    assert 0 <= left - begin <= bounds.notice
    assert bounds.earliest <= back - begin - length <= bounds.recover


@given(st.floats(0, 10))
def test_a_wedge_is_restarted_within_its_bound(phase: float) -> None:
    """HL-8.5: wherever between two questions a service is stopped, the restart is decided within the bound."""
    begin, timeout = 20 + phase, FIGURES.liveness.timeout_ms / 1000
    played = Simulation().run(0)
    while not played.times(Do.TERMINATE):
        at = min(track.due for track in (played.container.liveness, played.container.readiness))
        for kind in machine.due(played.container, at):
            container = machine.asked(played.container, kind, at, SETTINGS)
            ok = at < begin
            answer = Answer(kind, 1, ok, "timeout")
            played.now = at if ok else at + timeout
            played.container = container
            played.take(machine.answered(container, answer, played.now, SETTINGS))
    bound = wedge_bounds(FIGURES, grace=5, backoff=1, starting=False).notice
    assert bound is not None
    assert played.times(Do.TERMINATE)[0] - begin <= bound < NEVER


# --- where the service is led ------------------------------------------------------------------------------------


def test_variables() -> None:
    """HL-8.1: the name in capitals, with _ for - and for a point."""
    assert variable("orders-db.v2") == "IDKMESH_DEP_ORDERS_DB_V2"
    assert variables({"a-b": 5}) == {"IDKMESH_DEP_A_B": "127.0.0.1:5"}
    assert [each.name for each in upstreams(MATRIX)] == ["db", "api.v2"]
    with pytest.raises(FaultError, match="both be IDKMESH_DEP_A_B"):
        upstreams(matrix_of(dependency("a-b", probe=TCP), dependency("a.b", probe=TCP)))


@pytest.mark.parametrize(
    ("probe", "wanted"),
    [
        ("tcp: {host: db.example, port: 5432}", Tcp(host="127.0.0.1", port=7)),
        (
            'http: {url: "http://api.example:81/a?b=c", headers: {X-A: "no"}}',
            Http(url="http://127.0.0.1:7/a?b=c", headers={"X-A": "no", "Host": "api.example:81"}),
        ),
        ('dns: {name: "1e3"}', None),
    ],
)
def test_the_copy_of_the_matrix(probe: str, wanted: object) -> None:
    """HL-8.1: the loader takes the copy; a probe with a proxy leads there, everything else is as it was."""
    text = matrix_text(probe)
    copy = rerouted_matrix(text, {"db": 7} if wanted else {})
    before, after = load_matrix(text, "m").dependencies[0], load_matrix(copy, "m").dependencies[0]
    assert after.probe == (wanted or before.probe)
    assert (after.timeout_ms, after.critical) == (before.timeout_ms, before.critical)
    assert json.loads(copy)["kind"] == "idkmesh-probe-matrix"
