"""What runs when, what of it counts, and what is told: on a clock that the test moves."""

from __future__ import annotations

import itertools
import logging
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from idkmesh.changes import MAX_NAMES
from idkmesh.health.change_lines import line_of
from idkmesh.health.document import unknown_because
from idkmesh.health.model import Refresh, Tcp
from idkmesh.health.readiness import Readiness
from idkmesh.health.rounds import NOT_BACK, OVERSTAY_SECONDS
from idkmesh.health.schedule import LEAST_EARLY
from idkmesh.health.snapshot import judged
from tests.health.support import COULD_NOT_RUN, FAILED, OK, START, Game, dependency

if TYPE_CHECKING:
    from idkmesh.health.model import Dependency, Outcome
    from idkmesh.health.rounds import Run

OTHER = Tcp(host="other", port=2)
CHANGED = "idkmesh.dependency.changed"


def steps(game: Game) -> list[tuple[str | None, str, str]]:
    return [(each.subject, each.facts["from"], each.facts["to"]) for each in game.take_told(CHANGED)]


def started(**more: Any) -> tuple[Game, Run]:
    """Return a game of one dependency, and its first run."""
    game = Game(dependency(**more))
    (run,) = game.turn()
    return game, run


# --- starting and readiness ------------------------------------------------------------------------------------------


def test_startup_succeeds_with_a_database_that_is_down() -> None:
    """HL-1.3, HL-5.2, HL-5.4: starting until each probe has run once, then told once, and never starting again."""
    game = Game(dependency("a"), dependency("b", critical=False))
    assert game.status() == "starting"
    (first,) = game.turn()
    game.end(first, FAILED)
    assert game.status() == "starting"
    (second,) = game.turn(0.5)
    game.end(second, COULD_NOT_RUN)
    assert game.status() == "not_ready"
    (told,) = game.take_told("idkmesh.startup.succeeded")
    assert told.facts == {"seconds": 0.5}
    (readiness,) = game.take_told("idkmesh.readiness.changed")
    assert readiness.facts == {
        "from": "starting",
        "to": "not_ready",
        "failing": ["a"],
        "failing_total": 1,
        "warnings": ["b"],
        "warnings_total": 1,
    }
    game.reload(dependency("new"))
    (new,) = game.turn()
    game.end(new, FAILED)
    assert game.status() == "not_ready"
    assert game.take_told("idkmesh.startup.succeeded") == []


def test_nothing_to_depend_on_is_ready_after_the_first_pass() -> None:
    """HL-1.3, HL-5.2: before it the runner has not begun, and after it each of no probes has run."""
    game = Game()
    assert game.status() == "starting"
    game.turn()
    assert game.status() == "ready"
    assert [change.what for change in game.told] == ["idkmesh.startup.succeeded", "idkmesh.readiness.changed"]


def test_readiness_is_told_when_it_changes() -> None:
    """HL-5.4, HL-5.5: each change once, with who stands against it; changes between ready and not ready are counted."""
    game, run = started()
    for outcome in (OK, OK, FAILED, FAILED, OK):
        game.end(run, outcome)
        (run,) = game.turn(1.0)
    told = [(each.facts["from"], each.facts["to"]) for each in game.take_told("idkmesh.readiness.changed")]
    assert told == [("starting", "ready"), ("ready", "not_ready"), ("not_ready", "ready")]
    assert game.rounds.snapshot.transitions_total == 2
    assert steps(game) == [("db", "unknown", "ok"), ("db", "ok", "failing"), ("db", "failing", "ok")]


def test_a_noncritical_dependency_leaves_it_ready() -> None:
    """HL-1.2: ready, with a warning that names it."""
    game, run = started(critical=False)
    game.end(run, FAILED)
    readiness = game.rounds.snapshot.readiness
    assert (readiness.status, readiness.failing, readiness.warnings) == ("ready", (), ("db",))
    assert game.take_told(CHANGED)[0].facts == {
        "from": "unknown",
        "to": "failing",
        "detail": "failed",
        "critical": False,
    }


def test_a_change_lists_so_many_names() -> None:
    """HL-5.4: an event has a bound, and a matrix may name a thousand: the first names, and how many there are."""
    game = Game(*(dependency(f"d{number:03}") for number in range(200)), concurrency=200)
    for run in game.turn(1.0):
        game.end(run, FAILED)
    (told,) = game.take_told("idkmesh.readiness.changed")
    assert told.facts["failing"] == [f"d{number:03}" for number in range(MAX_NAMES)]
    assert told.facts["failing_total"] == 200


def test_a_critical_dependency_that_is_down_is_known() -> None:
    """HL-5.4: down is failing by the last word; stale, not run and noncritical are not that."""
    game, run = started()
    other = Game(dependency(critical=False))
    (noncritical,) = other.turn()
    other.end(noncritical, FAILED)
    assert (game.rounds.snapshot.critical_down, other.rounds.snapshot.critical_down) == (False, False)
    game.end(run, FAILED)
    assert game.rounds.snapshot.critical_down
    game.turn(60.0)
    assert not game.rounds.snapshot.critical_down


def test_an_older_result_is_not_kept() -> None:
    """HL-4.3: what is dropped stands in no history, and changes nothing; the probe runs on."""
    game, run = started()
    game.end(run, OK)
    before = game.rounds.snapshot.records["db"]
    (run,) = game.turn(1.0)
    game.end(run, FAILED, began=START - 1)
    after = game.rounds.snapshot.records["db"]
    assert (after.state, after.history) == (before.state, before.history)
    assert len(game.turn(1.0)) == 1


# --- expiry ----------------------------------------------------------------------------------------------------------


def test_a_scheduler_that_has_died_is_noticed_by_readers() -> None:
    """HL-1.4, HL-4.5: nobody looks at the verdicts any more; they expire all the same, and readiness with them."""
    game, run = started()
    game.end(run, OK)
    snapshot = game.rounds.snapshot
    assert snapshot.readiness_at(START + 2.4).status == "ready"
    stale = snapshot.readiness_at(START + 2.5)
    assert (stale.status, stale.failing) == ("not_ready", ("db",))


def test_it_recovers_by_itself() -> None:
    """HL-4.5, HL-5.4: after a stall the expiry is told once, and the next result brings the verdict back."""
    game, run = started()
    game.end(run, OK)
    (run,) = game.turn(60.0)
    assert steps(game) == [("db", "unknown", "ok"), ("db", "ok", "unknown")]
    assert game.status() == "not_ready"
    game.end(run, OK)
    assert game.status() == "ready"
    assert steps(game) == [("db", "unknown", "ok")]


def test_an_expiry_is_told_with_its_reason() -> None:
    """HL-4.5, HL-5.4: the pass at that instant tells, and it is an instant that the scheduler waits for."""
    game, run = started(interval_ms=60_000, cache_ms=2500)
    game.end(run, OK)
    assert game.rounds.next_instant() == START + 2.5
    assert game.turn(2.5) == []
    assert game.take_told(CHANGED)[-1].facts["detail"] == "stale"
    assert game.verdict() == "unknown"
    assert game.rounds.next_instant() == pytest.approx(START + 60.0 * (1 - LEAST_EARLY))


def test_a_result_that_lives_until_the_next_leaves_no_gap() -> None:
    """HL-4.3, HL-4.5: the shortest cache there may be, the slowest probe, no jitter: never unknown in between."""
    game, run = started(timeout_ms=500, cache_ms=1500)
    for _ in range(50):
        game.turn(0.5)
        game.end(run, OK)
        (run,) = game.turn(0.5)
    assert steps(game) == [("db", "unknown", "ok")]


def test_a_timeout_on_a_machine_that_is_late_is_not_taken_for_age() -> None:
    """HL-4.3, HL-4.5, HL-4.7: the shortest cache, the latest run, its end after the deadline: one failure is no change.

    What lives a second and a half was known at once, the next run begins 10 ms late and is told 5 ms after its timeout.
    """
    game, run = started(critical=False, failure_threshold=2, timeout_ms=500, interval_ms=1000, cache_ms=1500)
    game.end(run, OK)
    for outcome in (FAILED, OK, FAILED, OK):
        due = game.rounds.snapshot.records["db"].due
        assert due is not None
        (run,) = game.turn(due - game.clock.now + 0.01)
        if outcome is FAILED:
            assert game.turn(0.505) == []
        game.end(run, outcome)
    assert steps(game) == [("db", "unknown", "ok")]


# --- overstaying -----------------------------------------------------------------------------------------------------


def test_a_probe_that_does_not_come_back() -> None:
    """HL-4.11: counted, failing, then unknown; not run again until it is back; its late word is not heard."""
    game, run = started()
    game.turn(0.5 + OVERSTAY_SECONDS - 0.01)
    assert game.verdict() == "unknown"
    game.turn(0.01)
    assert game.verdict() == "failing"
    snapshot = game.rounds.snapshot
    assert (snapshot.stuck, snapshot.stuck_total, snapshot.records["db"].stuck) == (1, 1, True)
    assert game.turn(1.0) == []
    assert game.verdict() == "unknown"
    assert game.rounds.snapshot.records["db"].history.entries[-1].result.detail == NOT_BACK
    assert game.end(run, OK) is False
    assert game.verdict() == "unknown"
    assert game.rounds.snapshot.stuck == 0
    (again,) = game.turn(1.0)
    game.end(again, OK)
    assert game.verdict() == "ok"
    assert [each[2] for each in steps(game)] == ["failing", "unknown", "ok"]
    assert game.rounds.snapshot.stuck_total == 1


def test_a_success_after_its_timeout_is_none() -> None:
    """HL-1.2, HL-4.1: readiness wants a success inside the timeout, whatever the probe says of it."""
    game, run = started()
    game.turn(0.501)
    game.end(run, OK)
    assert game.verdict() == "failing"
    assert game.rounds.snapshot.records["db"].history.entries[-1].result.detail == "timeout"


def test_stuck_probes_take_no_place() -> None:
    """HL-4.4, HL-4.11: two places, two probes that hang for ever: the others run as if they were not there."""
    hanging = [dependency(f"hang{number}") for number in range(2)]
    game = Game(*hanging, *(dependency(f"good{number}") for number in range(3)), concurrency=2)
    runs = game.turn(1.0)
    assert [run.name for run in runs] == ["hang0", "hang1"]
    assert game.turn(0.4) == []
    (first, second) = game.turn(1.2)
    assert {first.name, second.name} == {"good0", "good1"}
    game.end(first)
    (third,) = game.turn()
    assert third.name == "good2"
    assert game.rounds.snapshot.stuck == 2


def test_noncritical_ones_that_hang_cost_no_readiness() -> None:
    """HL-1.2, HL-4.4: fifty that take their whole timeout, more than the places can serve; the critical one lives on.

    Its results live for the shortest time that HL-3.3 allows, and it answers at once.
    """
    slow = {"critical": False, "timeout_ms": 900, "interval_ms": 1000, "cache_ms": 1900}
    hanging = [dependency(f"a{number:02}", **slow) for number in range(50)]
    game = Game(*hanging, dependency("db", timeout_ms=100, interval_ms=1000, cache_ms=1100))
    out: list[Run] = []
    for _ in range(1000):
        for run in game.turn(0.01):
            if run.name == "db":
                game.end(run)
            else:
                out.append(run)
        for run in [run for run in out if game.clock.now - run.began >= 0.899]:
            out.remove(run)
            game.end(run, FAILED)
        assert len(out) <= 12
    assert game.status() == "ready"
    assert [step for step in steps(game) if step[0] == "db"] == [("db", "unknown", "ok")]


def test_critical_ones_begin_first() -> None:
    """HL-4.4: of those that are due; what waits besides gets the places that are left."""
    rows = [dependency(f"a{number}", critical=False) for number in range(3)]
    game = Game(*rows, dependency("z"), concurrency=2)
    first, second = game.turn(1.0)
    assert (first.name, second.name) == ("z", "a0")
    game.end(first)
    assert game.turn() == []
    game.end(second)
    assert [run.name for run in game.turn()] == ["a1"]


# --- asking ----------------------------------------------------------------------------------------------------------


def on_request(**more: Any) -> tuple[Game, Run]:
    return started(refresh=Refresh.REQUEST, cache_ms=300, **more)


def test_asked_for_it_runs_once_for_all() -> None:
    """HL-4.6: a result that does not live long enough starts one run for all who ask, an interval after the last."""
    game, run = on_request()
    game.end(run, OK)
    assert game.turn(0.3) == []
    assert game.verdict() == "unknown"
    game.rounds.ask_all(game.clock.moment())
    assert game.turn(0.6) == []
    game.clock.now += 0.1
    for _ in range(200):
        game.rounds.ask_all(game.clock.moment())
        game.rounds.ask("db", game.clock.moment())
    (run,) = game.turn()
    for _ in range(200):
        game.rounds.ask_all(game.clock.moment())
    assert game.turn(0.1) == []
    game.end(run, OK)
    assert game.verdict() == "ok"
    assert game.turn(500.0) == []


def test_when_asking_would_help_is_known() -> None:
    """HL-4.6, HL-5.1: the snapshot says from when on a run would begin, so that asking costs nothing until then."""
    game, run = on_request()
    assert game.rounds.snapshot.ask_after == float("inf")
    game.end(run, OK)
    assert game.rounds.snapshot.ask_after == START + 1.0
    game.rounds.ask_all(game.clock.moment())
    assert game.turn(0.999) == []
    game.clock.now = START + 1.0
    game.rounds.ask_all(game.clock.moment())
    assert len(game.turn()) == 1
    assert game.rounds.snapshot.ask_after == float("inf")


def test_a_fresh_result_is_not_asked_for_again() -> None:
    """HL-4.6: a result that outlives the next question and a timeout starts nothing; one that does not starts a run."""
    game, run = started(refresh=Refresh.REQUEST, cache_ms=15_400)  # asked each 10 s, and 0.5 s are a run's
    game.end(run, OK)
    game.clock.now += 4.8
    game.rounds.ask("db", game.clock.moment())
    assert game.turn() == []
    game.clock.now += 0.1
    game.rounds.ask("db", game.clock.moment())
    assert (len(game.turn()), game.verdict()) == (1, "ok")
    assert game.rounds.snapshot.ask_after == float("inf")


def test_a_failure_is_asked_about_again_after_an_interval() -> None:
    """HL-4.6: however often somebody asks, no run begins sooner, and none at all while nobody asks."""
    game, run = started(refresh=Refresh.REQUEST, cache_ms=11_500)
    game.end(run, FAILED)
    begun = [run.began]
    for _ in range(400):
        game.rounds.ask_all(game.clock.moment())
        for again in game.turn(0.01):
            begun.append(again.began)
            game.end(again, FAILED)
    assert [after - before for before, after in itertools.pairwise(begun)] == pytest.approx([1.0] * 3, abs=0.021)
    assert game.turn(500.0) == []


def test_nobody_asks_for_what_is_scheduled() -> None:
    """HL-4.6: with refresh by schedule a request starts nothing; a name that is not there neither."""
    game, run = started(cache_ms=300)
    game.end(run, OK)
    game.clock.now += 0.5
    game.rounds.ask_all(game.clock.moment())
    game.rounds.ask("nobody", game.clock.moment())
    assert game.turn() == []


# --- another matrix --------------------------------------------------------------------------------------------------


def test_an_unchanged_declaration_keeps_its_state() -> None:
    """HL-3.5, HL-5.4: state, history, probe and rhythm stay; what is new or has another probe begins anew."""
    game = Game(dependency("kept"), dependency("otherwise"), dependency("gone"))
    for run in game.turn(1.0):
        game.end(run)
    before = game.rounds.snapshot.records
    game.reload(dependency("new"), dependency("kept"), dependency("otherwise", probe=OTHER))
    after = game.rounds.snapshot.records
    assert list(after) == ["new", "kept", "otherwise"]
    assert after["kept"] is before["kept"]
    assert game.verdict("otherwise") == game.verdict("new") == "unknown"
    assert game.rounds.snapshot.readiness == Readiness("ready", pending=("new", "otherwise"))
    assert steps(game)[-1] == ("otherwise", "ok", "unknown")
    (told,) = game.take_told("idkmesh.matrix.reloaded")
    assert told.facts == {"dependencies": 3, "kept": 1, "changed": 1, "added": 1, "removed": 1}
    assert {run.name for run in game.turn(0.5)} == {"new", "otherwise"}
    assert {run.name for run in game.turn(0.5)} == {"kept"}


FIGURES_CHANGED: list[dict[str, Any]] = [
    {"success_threshold": 3},
    {"timeout_ms": 400},
    {"cache_ms": 9000},
    {"cache_ms": 1500},
    {"interval_ms": 500, "cache_ms": 1000},
    {"interval_ms": 5000, "cache_ms": 9000},
    {"refresh": Refresh.REQUEST, "cache_ms": 12_000},
]


@pytest.mark.parametrize("figures", FIGURES_CHANGED)
@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.899])
def test_other_figures_keep_the_state(figures: dict[str, Any], at: float) -> None:
    """HL-3.5: verdict, rows, results and probe stay; nobody is told of a dependency, and it is ready throughout."""
    game, run = started()
    game.end(run, OK)
    game.clock.now += at
    before = game.rounds.snapshot.records["db"]
    game.reload(dependency(**figures))
    after = game.rounds.snapshot.records["db"]
    assert after.dependency == dependency(**figures)
    assert (after.probe, after.history, after.state.successes) == (before.probe, before.history, 1)
    (told,) = game.take_told("idkmesh.matrix.reloaded")
    assert (told.facts["kept"], told.facts["changed"]) == (0, 1)
    steps(game)
    began = []
    for _ in range(1000):
        if figures.get("refresh") is Refresh.REQUEST:
            game.rounds.ask_all(game.clock.moment())
        for run in game.turn(0.01):
            began.append(run.began)
            game.end(run, OK)
        assert game.status() == "ready"
    assert steps(game) == []
    apart = [later - earlier for earlier, later in itertools.pairwise([START, *began])]
    interval = figures.get("interval_ms", 1000) / 1000
    assert min(apart) >= min(0.9 * interval, 0.9)
    assert max(apart[1:]) <= max(interval, 1.6) + 0.02


def test_a_shorter_cache_counts_from_the_reading() -> None:
    """HL-3.5, HL-4.5: a result lives no longer than the shorter one from then on, nor than it would have."""
    for at, ends in ((0.5, 2.0), (1.5, 2.5)):
        game, run = started()
        game.end(run, OK)
        game.turn(at)
        game.reload(dependency(cache_ms=1500))
        assert game.rounds.snapshot.records["db"].state.expires == pytest.approx(START + ends)


def test_what_has_expired_does_not_come_back_by_a_longer_cache() -> None:
    """HL-3.5, HL-1.4: too old stays too old; the word on it is stale."""
    game, run = started()
    game.end(run, OK)
    game.turn(1.0)
    game.clock.now = START + 2.5
    game.reload(dependency(cache_ms=60_000))
    assert (game.verdict(), game.status()) == ("unknown", "not_ready")
    assert unknown_because(game.rounds.snapshot.records["db"], game.clock.now) == "stale"
    assert steps(game)[-1] == ("db", "ok", "unknown")


def test_a_run_that_is_out_counts_by_the_other_figures() -> None:
    """HL-3.5, HL-4.1: it has the timeout that it began with, its result the other thresholds and life."""
    game, run = started(critical=False, failure_threshold=2)
    game.end(run, OK)
    (run,) = game.turn(1.0)
    game.reload(dependency(critical=True, timeout_ms=100, cache_ms=5000))
    assert game.turn(0.2) == []
    game.end(run, OK)
    assert game.rounds.snapshot.records["db"].state.expires == START + 1.2 + 5.0
    assert game.verdict() == "ok"
    (run,) = game.turn(0.8)
    game.end(run, FAILED)
    assert (game.verdict(), game.status()) == ("failing", "not_ready")


def test_a_new_dependency_has_no_say_before_its_first_result() -> None:
    """HL-3.5, HL-1.2: a reload takes nothing out of traffic; then the result decides, whatever it is."""
    for outcome, status in ((OK, "ready"), (FAILED, "not_ready"), (COULD_NOT_RUN, "not_ready")):
        game, run = started()
        game.end(run, OK)
        game.reload(dependency(), dependency("new"))
        (run,) = game.turn()
        game.turn(0.4)
        assert game.rounds.snapshot.readiness_at(game.clock.now) == Readiness("ready", pending=("new",))
        assert unknown_because(game.rounds.snapshot.records["new"], game.clock.now) == "not_run"
        game.end(run, outcome)
        assert game.rounds.snapshot.readiness_at(game.clock.now).pending == ()
        assert game.status() == status


@pytest.mark.parametrize("scheduled", [True, False])
def test_a_first_result_is_not_waited_for_longer_than_its_run(scheduled: bool) -> None:
    """HL-3.5, HL-1.4: when its run would be given up it counts as unknown, also where the scheduler stands still."""
    game, run = started(cache_ms=60_000)
    game.end(run, OK)
    game.reload(dependency(cache_ms=60_000), dependency("new"))
    late = 0.5 + OVERSTAY_SECONDS
    if scheduled:
        game.turn()
        game.turn(late - 0.001)
        assert game.status() == "ready"
        game.turn(0.001)
    else:
        game.clock.now += late - 0.001
        assert game.status() == "ready"
        game.clock.now += 0.001
    assert game.rounds.snapshot.readiness_at(game.clock.now).failing == ("new",)


def test_another_probe_is_no_way_out_of_a_failure() -> None:
    """HL-3.5, HL-1.2: what was not ok stays without traffic until the other probe has said that it is."""
    game, run = started()
    game.end(run, FAILED)
    game.reload(dependency(probe=OTHER))
    assert (game.verdict(), game.status()) == ("unknown", "not_ready")
    assert steps(game)[-1] == ("db", "failing", "unknown")
    (run,) = game.turn()
    game.end(run, OK)
    assert game.status() == "ready"


def test_a_reload_at_the_start_lets_nobody_in() -> None:
    """HL-1.3, HL-3.5: until startup has succeeded each probe is to run first, also those that have just come."""
    game = Game(dependency())
    game.reload(dependency(), dependency("new"))
    (first, *_) = game.turn(0.1)
    game.end(first, OK)
    assert game.status() == "starting"


def test_a_run_of_a_declaration_that_is_gone_says_nothing() -> None:
    """HL-3.5, HL-4.3: it comes back to nobody, also where another probe has its name."""
    game, old = started()
    game.reload(dependency(probe=OTHER))
    (new,) = game.turn()
    assert game.end(old, FAILED) is True
    assert game.verdict() == "unknown"
    game.end(new, OK)
    assert game.verdict() == "ok"
    game.reload()
    assert game.turn(10.0) == []
    assert dict(game.rounds.snapshot.records) == {}
    assert game.status() == "ready"


def test_a_call_that_hangs_is_counted_once_and_while_it_lasts() -> None:
    """HL-4.11, HL-5.5: the probe came back in time and says so; the next runs wait for it; a new call counts anew."""
    game, run = started(success_threshold=2)
    seen = []
    words = ((FAILED, True), (COULD_NOT_RUN, True), (COULD_NOT_RUN, True), (FAILED, True), (OK, False), (FAILED, False))
    for outcome, hanging in words:
        game.end(run, outcome, hanging=hanging)
        snapshot = game.rounds.snapshot
        assert snapshot.records["db"].stuck is hanging
        seen.append((snapshot.stuck, snapshot.stuck_total))
        (run,) = game.turn(1.0)
    assert seen == [(1, 1), (1, 1), (1, 1), (1, 2), (0, 2), (0, 2)]
    game.end(run, FAILED, hanging=True)
    game.reload(dependency(interval_ms=2000))
    assert (game.rounds.snapshot.stuck, game.rounds.snapshot.stuck_total) == (1, 3)
    game.reload(dependency(probe=OTHER))
    assert (game.rounds.snapshot.stuck, game.rounds.snapshot.stuck_total) == (0, 3)


def test_a_stuck_run_of_a_declaration_that_is_gone_is_counted() -> None:
    """HL-4.11: its thread is away all the same."""
    game, old = started()
    game.reload()
    game.turn(10.0)
    assert (game.rounds.snapshot.stuck, game.rounds.snapshot.stuck_total) == (1, 1)
    assert game.end(old) is False
    assert (game.rounds.snapshot.stuck, game.rounds.snapshot.stuck_total) == (0, 1)


# --- all together ----------------------------------------------------------------------------------------------------


def test_wall_clock_steps_change_nothing() -> None:
    """HL-4.3, HL-4.5, PROBE-08: the wall clock goes an hour forward and back: the same runs, the same told."""

    def play(*wall_steps: float) -> tuple[list[float], list[object], list[object]]:
        game, run = started(failure_threshold=2)
        began = [run.began]
        for number in range(30):
            game.clock.wall_step = wall_steps[number % len(wall_steps)]
            game.end(run, FAILED if number % 7 > 4 else OK)
            (run,) = game.turn(1.0)
            began.append(run.began)
        told = [(each.what, each.subject, each.facts) for each in game.told]
        labels = [entry.time for entry in game.rounds.snapshot.records["db"].history.entries]
        return began, list(told), list(labels)

    still, stepped = play(0.0), play(3600.0, -3600.0, 0.0)
    assert still[:2] == stepped[:2]
    assert still[2] != stepped[2]


def test_a_thousand_dependencies_keep_their_time() -> None:
    """HL-4.3, HL-4.4: a thousand that answer within a tenth of a second, sixteen at once: each is asked in its turn."""
    game = Game(*(dependency(f"d{number}", interval_ms=10_000, cache_ms=20_000) for number in range(1000)))
    ran: dict[str, int] = {}
    out: list[Run] = []
    for _ in range(270):
        for run in out:
            game.end(run)
        out = game.turn(0.1)
        assert len(out) <= 16
        for run in out:
            ran[run.name] = ran.get(run.name, 0) + 1
    assert len(ran) == 1000
    assert set(ran.values()) <= {2, 3, 4, 5}
    assert game.status() == "ready"
    assert len(steps(game)) == 1000


class Anything(RuleBasedStateMachine):
    """Whatever probes do and whenever it is looked: the promises that hold at every instant."""

    @initialize(seed=st.integers(0, 1000), concurrency=st.integers(1, 3))
    def begin(self, seed: int, concurrency: int) -> None:
        self.game = Game(*self.declared("abc", 500), concurrency=concurrency)
        self.game.rounds._random = random.Random(seed).random
        self.concurrency = concurrency
        self.turned = False
        self.out: list[Run] = []
        self.began: list[Run] = []
        """The last of each declaration. Held, or another one would get the identity of one that is gone."""

    def declared(self, names: str, timeout: int) -> list[Dependency]:
        return [
            dependency(
                name,
                probe=OTHER if timeout == 300 else Tcp(host=name, port=1),
                critical=name != "b",
                timeout_ms=timeout,
                refresh=Refresh.REQUEST if name == "c" else Refresh.SCHEDULE,
            )
            for name in names
        ]

    @rule(after=st.sampled_from([0.0, 0.01, 0.3, 0.9, 1.0, 1.7, 30.0]))
    def turn(self, after: float) -> None:
        self.turned = True
        for run in self.game.turn(after):
            assert not any(other.probe is run.probe for other in self.out), "two runs of one probe at once"
            former = [other for other in self.began if other.probe is run.probe]
            assert all(run.began - other.began >= 0.8 - 1e-9 for other in former), "a run follows close upon another"
            self.began = [other for other in self.began if other not in former] + [run]
            self.out.append(run)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from([OK, FAILED, COULD_NOT_RUN]))
    def end(self, data: st.DataObject, outcome: Outcome) -> None:
        run = data.draw(st.sampled_from(self.out))
        self.out.remove(run)
        record = self.game.rounds.snapshot.records.get(run.name)
        late = self.game.clock.now - run.began
        awaited = self.game.end(run, outcome)
        if not awaited and record is not None:
            assert self.game.rounds.snapshot.records[run.name].state == record.state, "a late result has overwritten"
            assert late >= run.timeout + OVERSTAY_SECONDS - 1e-9  # sums of the clock's steps

    @rule()
    def ask(self) -> None:
        self.game.rounds.ask_all(self.game.clock.moment())

    @rule(names=st.sampled_from(["abc", "ab", "c", ""]), timeout=st.sampled_from([500, 500, 400, 300]))
    def reload(self, names: str, timeout: int) -> None:
        self.game.reload(*self.declared(names, timeout))

    @invariant()
    def bounded(self) -> None:
        now = self.game.clock.now
        out = [run for run in self.out if run.given_up_at > now]
        assert len(out) <= self.concurrency
        assert sum(not run.dependency.critical for run in out) <= max(1, self.concurrency - 1)

    @invariant()
    def what_is_stored_is_what_is_so(self) -> None:
        snapshot, now = self.game.rounds.snapshot, self.game.clock.now
        if self.turned:
            assert snapshot.readiness_at(now) == judged(snapshot.records.values(), now, started=snapshot.started)
        assert all(change.facts["from"] != change.facts["to"] for change in self.game.told if "from" in change.facts)


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_somebody_has_to_run() -> None:
    """HL-4.4: a bound of none is refused."""
    with pytest.raises(ValueError, match="concurrency"):
        Game(concurrency=0)


@pytest.mark.parametrize("concurrency", [1, 16])
def test_nothing_to_do_is_waited_for(concurrency: int) -> None:
    """HL-4.3: with every place taken, what is due is no reason to look again: the next instant lies ahead."""
    game = Game(*(dependency(f"d{number}", interval_ms=10_000) for number in range(20)), concurrency=concurrency)
    game.turn(1.0)
    assert game.rounds.next_instant() > game.clock.now


@given(st.lists(st.sampled_from("SF"), min_size=1, max_size=40), st.integers(1, 3), st.integers(1, 3))
def test_told_and_shown_agree(words: list[str], failure: int, success: int) -> None:
    """HL-4.7, HL-5.4: the changes that were told lead to the verdict that is shown, and readiness to its own."""
    game, run = started(failure_threshold=failure, success_threshold=success)
    for word in words:
        game.end(run, OK if word == "S" else FAILED)
        (run,) = game.turn(1.0)
    assert steps(game)[-1][2] == game.verdict()
    assert game.take_told("idkmesh.readiness.changed")[-1].facts["to"] == game.status()


def test_a_probe_that_cannot_be_run_is_heard_of_once() -> None:
    """HL-5.4: its verdict is unknown as before, which is no change; that nobody can ask it is told all the same."""
    game = Game(dependency(interval_ms=1000))
    for _ in range(3):
        (run,) = game.turn(1.0)
        game.end(run, COULD_NOT_RUN, detail="no such program")
    (told,) = game.take_told("idkmesh.dependency.could_not_run")
    assert (told.subject, told.facts) == ("db", {"detail": "no such program", "critical": True})
    assert line_of(told) == ("the probe of db (critical) cannot be run: no such program", logging.WARNING)
    assert game.take_told("idkmesh.dependency.changed") == []


def test_a_verdict_that_is_lost_tells_by_itself_why() -> None:
    """HL-4.2, HL-5.4: ok that becomes unknown is a change with its word, and no second event says the same."""
    game, run = started()
    game.end(run)
    for _ in range(2):
        (run,) = game.turn(1.0)
        game.end(run, COULD_NOT_RUN, detail="no such program")
    assert [each.facts["detail"] for each in game.take_told("idkmesh.dependency.changed")][-1] == "no such program"
    assert game.take_told("idkmesh.dependency.could_not_run") == []


def test_a_probe_that_can_be_run_no_more_is_heard_of_where_nothing_was_known() -> None:
    """HL-4.5, HL-5.4: the verdict had expired, and was told for that; that nobody can ask any more is told besides."""
    game, run = started(cache_ms=1500)
    game.end(run)
    (run,) = game.turn(1.0)
    game.turn(1.0)
    assert [each.facts["detail"] for each in game.take_told("idkmesh.dependency.changed")][-1] == "stale"
    game.end(run, COULD_NOT_RUN, detail="no such program")
    (told,) = game.take_told("idkmesh.dependency.could_not_run")
    assert told.facts["detail"] == "no such program"


def test_a_reload_that_brings_a_probe_which_cannot_be_run_is_told() -> None:
    """HL-3.5, HL-5.4: ok becomes unknown by the reload, and an event says why the new probe says nothing."""
    game, run = started()
    game.end(run)
    game.reload(dependency(probe=OTHER))
    (run,) = game.turn()
    game.end(run, COULD_NOT_RUN, detail="no such program")
    (told,) = game.take_told("idkmesh.dependency.could_not_run")
    assert told.facts["detail"] == "no such program"
    changes = [(each.facts["from"], each.facts["to"]) for each in game.take_told("idkmesh.dependency.changed")]
    assert changes == [("unknown", "ok"), ("ok", "unknown")]


def test_a_reload_tells_what_is_known_no_longer() -> None:
    """HL-3.5, HL-5.4: who was told that a dependency is ok hears that nothing is known by its other probe yet."""
    game = Game(dependency())
    (run,) = game.turn()
    game.end(run)
    game.take_told("idkmesh.dependency.changed")
    game.reload(dependency(timeout_ms=400))
    assert game.take_told("idkmesh.dependency.changed") == []
    game.reload(dependency(timeout_ms=400, probe=OTHER))
    (told,) = game.take_told("idkmesh.dependency.changed")
    assert (told.facts["from"], told.facts["to"]) == ("ok", "unknown")
    assert told.facts["detail"] == "not run: its probe is another"
