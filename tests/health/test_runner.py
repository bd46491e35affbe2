"""The runner with its threads: nobody waits for a slow probe, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.clock import SystemClock
from idkmesh.health.changes import DEPENDENCY_CHANGED
from idkmesh.health.document import unknown_because
from idkmesh.health.model import Command, Disk, Refresh, Result
from idkmesh.health.probes import probe_for
from idkmesh.health.rounds import CONCURRENCY
from idkmesh.health.runner import HealthRunner
from idkmesh.health.watchdog import Watchdog
from idkmesh.service_runtime import log_line
from tests.health.support import (
    COULD_NOT_RUN,
    FAILED,
    OK,
    PATIENCE,
    HeldProbe,
    ManualClock,
    Stage,
    dependency,
    matrix_of,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.health.model import ProbeSpec


def quick(name: str, **more: Any) -> Any:
    """Return a dependency that is asked twenty times a second."""
    return dependency(name, **({"timeout_ms": 40, "interval_ms": 50, "cache_ms": 20_000} | more))


def probe_threads() -> int:
    return sum(thread.name.startswith("probe-") for thread in threading.enumerate())


def cheapest(call: Callable[[], object]) -> float:
    """Return the least time that a thousand calls take, of several tries: what others do meanwhile only adds."""
    best = float("inf")
    for _ in range(7):
        began = time.perf_counter()
        for _ in range(1000):
            call()
        best = min(best, time.perf_counter() - began)
    return best


# --- a life ----------------------------------------------------------------------------------------------------------


def test_it_probes_and_tells() -> None:
    """HL-1.5, HL-4.3, HL-5.4: from starting to ready; what is told has been shown before."""
    with Stage(quick("a"), quick("b", critical=False)) as stage:
        shown: list[str] = []
        stage.runner._changed = lambda _: shown.append(stage.runner.snapshot().readiness.status)
        assert stage.status() == "starting"
        stage.runner.start()
        until(lambda: stage.status() == "ready", "it has not become ready")
        until(lambda: stage.probes["a"].runs > 5, "it is not probed again")
        until(lambda: len(shown) == 4, "two verdicts, startup and readiness are told")
        assert shown[-1] == "ready"
        stage.probes["a"].outcome = FAILED
        until(lambda: stage.status() == "not_ready", "the outage is not noticed")
        stage.probes["a"].outcome = COULD_NOT_RUN
        until(lambda: stage.verdict("a") == "unknown", "a probe that cannot be run says something")


def test_stop_leaves_nothing() -> None:
    """HL-2.5, HL-4.4: every thread has ended, the beat is closed, and no run begins any more."""
    before = set(threading.enumerate())
    with Stage(*(quick(f"d{number}") for number in range(5))) as stage:
        stage.runner.start()
        until(lambda: stage.status() == "ready", "it has not become ready")
    assert set(threading.enumerate()) - before == set()
    assert stage.watchdog.silences(0.0) == {}
    runs = [probe.runs for probe in stage.probes.values()]
    assert stage.runner.refresh() is False
    assert [probe.runs for probe in stage.probes.values()] == runs


def test_stop_waits_for_a_run_and_no_longer() -> None:
    """HL-4.11: a probe that does not come back is told of and left; one that does is waited for."""
    stage = Stage(quick("a"))
    stage.probes["a"].opened.clear()
    stage.runner.start()
    until(lambda: stage.probes["a"].runs, "it has not begun")
    assert stage.runner.stop(0.05) is False
    assert any("have not come back" in line for _, line in stage.lines)
    stage.probes["a"].opened.set()
    assert stage.runner.stop(20) is True


def test_a_probe_that_was_given_up_and_comes_back_after_the_end_keeps_no_thread() -> None:
    """HL-4.11: its worker goes home as the others do, although no scheduler is left to send it there."""
    stage = Stage(quick("a"))
    stage.probes["a"].opened.clear()
    stage.runner.start()
    until(lambda: stage.runner.snapshot().stuck == 1, "it is not given up")
    assert stage.runner.stop(0.05) is False
    stage.probes["a"].opened.set()
    assert stage.runner.stop(PATIENCE) is True


def test_a_command_does_not_outlive_the_runner(tmp_path: Path) -> None:
    """HL-4.8: nobody is left to kill it at its deadline, so it is killed with its group when the runner stops."""
    pid_file = tmp_path / "pid"
    text = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid()) + '.'); time.sleep(600)"
    row = dependency(probe=Command(argv=(sys.executable, "-c", text)), timeout_ms=60_000, interval_ms=60_000)
    watchdog = Watchdog(3.0)
    runner = HealthRunner(
        matrix_of(row), probe_for, clock=SystemClock(), beat=watchdog.register("probes"), changed=lambda _: None
    )
    runner.start()
    until(lambda: pid_file.exists() and pid_file.read_text().endswith("."), "the command does not run")
    assert runner.stop(PATIENCE) is True
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()[:-1]), 0)


def test_stop_ends_although_the_scheduler_does_not() -> None:
    """HL-4.11: who takes changes holds it: the stop has its end all the same, and says what is left."""
    stage, hold = Stage(quick("a")), threading.Event()
    stage.runner._changed = lambda _: _ignored(hold.wait(20))
    stage.runner.start()
    until(lambda: stage.runner.snapshot().records["a"].state.last, "no result")
    assert stage.runner.stop(0.05) is False
    assert [line for _, line in stage.lines if "the scheduler of the probes has not ended in time" in line]
    hold.set()
    assert stage.runner.stop(20) is True


def test_lines_go_to_the_projects_logger(caplog: pytest.LogCaptureFixture) -> None:
    """HL-4.12: where the program says nothing of logging; a line with a percent sign is no format."""
    log_line("100 % of it", logging.WARNING)
    assert caplog.record_tuples == [("idkmesh", logging.WARNING, "100 % of it")]


def test_a_runner_that_never_started_is_stopped() -> None:
    """HL-2.5: its beat is closed, so that nobody waits for a silent component."""
    stage = Stage(quick("a"))
    assert stage.runner.stop(1) is True
    assert stage.watchdog.silences(0.0) == {}
    assert stage.probes["a"].runs == 0


def test_it_is_started_once() -> None:
    """HL-4.3: two schedulers would run a probe twice at once."""
    with Stage() as stage:
        stage.runner.start()
        with pytest.raises(RuntimeError, match="once"):
            stage.runner.start()


# --- slow probes -----------------------------------------------------------------------------------------------------


def test_ten_that_hang_delay_no_other_and_no_answer() -> None:
    """HL-1.5, HL-4.4, PROBE-04: of twelve dependencies ten never answer: two are ok, and every answer is at once."""
    hung = [f"hung{number}" for number in range(10)]
    slow = {"timeout_ms": 20_000, "interval_ms": 20_000, "cache_ms": 40_000}
    with Stage(*(quick(name, **slow) for name in hung), quick("fine"), quick("well")) as stage:
        for name in hung:
            stage.probes[name].opened.clear()
        stage.runner.start()
        until(lambda: all(stage.probes[name].runs for name in hung), "not all hang")
        until(lambda: stage.probes["fine"].runs > 5 and stage.probes["well"].runs > 5, "the others wait")
        threads = probe_threads()
        took = []
        for _ in range(1000):
            began = time.perf_counter()
            stage.runner.refresh()
            assert stage.runner.readiness().failing == tuple(hung)
            took.append(time.perf_counter() - began)
        assert max(took) < 5
        assert (stage.verdict("fine"), stage.verdict("well")) == ("ok", "ok")
        assert probe_threads() == threads <= CONCURRENCY
        assert [stage.probes[name].most_at_once for name in hung] == [1] * 10


def test_an_overstayed_probe_is_replaced_and_told() -> None:
    """HL-4.4, HL-4.11: with one place: the next dependency gets it after all; the lost thread is taken back later."""
    with Stage(quick("a_hangs"), quick("b_waits"), concurrency=1) as stage:
        hanging, waiting = stage.probes["a_hangs"], stage.probes["b_waits"]
        hanging.opened.clear()
        stage.runner.start()
        until(lambda: waiting.runs > 3, "the other one never gets the place")
        assert stage.verdict("a_hangs") in {"failing", "unknown"}
        assert stage.verdict("b_waits") == "ok"
        assert (hanging.runs, probe_threads()) == (1, 2)
        assert stage.runner.snapshot().stuck == 1
        assert any("a_hangs has not come back in its time" in line for _, line in stage.lines)
        hanging.opened.set()
        until(lambda: stage.verdict("a_hangs") == "ok", "it is not asked again")
        until(lambda: probe_threads() == 1, "the thread that came back is one too many")
        assert hanging.most_at_once == 1
        assert any("a_hangs has come back" in line for _, line in stage.lines)


def test_a_file_system_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.11, HL-5.3, HL-5.5: of a real probe, which comes back at its deadline and leaves its call behind."""
    gate, real = threading.Event(), shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: (gate.wait(PATIENCE), real(path))[1])
    row = quick("disk", probe=Disk(path="/", min_free_bytes=1))
    beat = Watchdog(3.0).register("probes")
    runner = HealthRunner(matrix_of(row), probe_for, clock=SystemClock(), beat=beat, changed=lambda _: None)
    runner.start()
    try:
        until(lambda: runner.snapshot().stuck == 1, "nobody is told of it")
        until(lambda: runner.snapshot().records["disk"].state.verdict.value == "unknown", "it is not given up")
        assert unknown_because(runner.snapshot().records["disk"], time.monotonic()) == "stuck"
        gate.set()
        until(lambda: runner.readiness().status == "ready", "it is not asked again")
        assert (runner.snapshot().stuck, runner.snapshot().stuck_total) == (0, 1)
    finally:
        gate.set()
        assert runner.stop(PATIENCE)


def test_a_thread_that_comes_back_is_used_again() -> None:
    """HL-4.4, HL-4.11: while there are places it takes its own again, and both dependencies are asked."""
    with Stage(quick("a"), quick("b"), concurrency=4) as stage:
        stage.runner.start()
        until(lambda: stage.status() == "ready", "it has not become ready")
        stage.probes["a"].opened.clear()
        until(lambda: stage.runner.snapshot().stuck == 1, "it is not given up")
        stage.probes["a"].opened.set()
        until(lambda: stage.verdict("a") == "ok" and not stage.runner.snapshot().stuck, "it is not asked again")
        runs = {name: probe.runs for name, probe in stage.probes.items()}
        until(lambda: all(probe.runs > runs[name] + 3 for name, probe in stage.probes.items()), "one is not asked")
        assert probe_threads() <= 4


def test_a_probe_that_raises_could_not_run() -> None:
    """HL-4.2, HL-4.12: whatever it raises, the worker lives on, and the type alone is told."""
    with Stage(quick("a")) as stage:
        stage.probes["a"].raising = SystemExit("the password is secret-word")
        stage.runner.start()
        until(lambda: len(stage.runner.snapshot().records["a"].history.entries) > 2, "it is not run again")
        last = stage.runner.snapshot().records["a"].state.last
        assert last is not None
        assert (last.outcome, last.detail) == (COULD_NOT_RUN, "probe raised SystemExit")
        (line,) = [line for _, line in stage.lines]
        assert "raised SystemExit" in line
        assert "secret-word" not in line
        stage.probes["a"].raising = None
        until(lambda: stage.verdict("a") == "ok", "it does not recover")
        stage.probes["a"].raising = ValueError()
        until(lambda: len(stage.lines) == 2, "what has begun anew is not told")


def test_a_word_that_is_none_is_made_one() -> None:
    """HL-4.12: whoever wrote the probe: at most 200 printable characters; and no result is a run that was not made."""
    with Stage(quick("a")) as stage:
        stage.runner.start()
        stage.probes["a"].detail = "\x1b[31m" + "x" * 300
        until(lambda: "x" in _last(stage, "a").detail, "no result")
        assert _last(stage, "a").detail == "?[31m" + "x" * 195
        stage.probes["a"].detail = None
        until(lambda: _last(stage, "a").outcome is COULD_NOT_RUN, "a probe that gives nothing says something")


def _last(stage: Stage, name: str) -> Result:
    return stage.runner.snapshot().records[name].state.last or Result(0.0, 0.0, OK, "")


def test_without_a_thread_a_probe_could_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.2: the system starts no thread: unknown, and tried again at the next turn."""
    with Stage(quick("a")) as stage:
        recruit = stage.runner._crew._recruit

        def refused() -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(stage.runner._crew, "_recruit", refused)
        stage.runner.start()
        until(lambda: stage.runner.snapshot().records["a"].state.last, "no result")
        last = stage.runner.snapshot().records["a"].state.last
        assert last is not None
        assert (last.outcome, last.detail) == (COULD_NOT_RUN, "no thread could be started")
        monkeypatch.setattr(stage.runner._crew, "_recruit", recruit)
        until(lambda: stage.status() == "ready", "it does not recover")


# --- asking ----------------------------------------------------------------------------------------------------------


def test_two_hundred_ask_and_one_run_begins() -> None:
    """HL-4.6, PROBE-05: a convoy of requests starts one run, and none of them waits for it."""
    asked_for = quick("a", refresh=Refresh.REQUEST, timeout_ms=20_000, interval_ms=1, cache_ms=1)
    with Stage(asked_for) as stage:
        probe = stage.probes["a"]
        stage.runner.start()
        until(lambda: stage.runner.snapshot().ask_after < stage.clock.monotonic(), "its result does not expire")
        assert probe.runs == 1
        probe.opened.clear()
        threads = [threading.Thread(target=stage.runner.refresh) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        until(lambda: probe.runs == 2, "no run has begun")
        until(lambda: stage.runner.refresh() is False, "a run that goes on is asked for again")
        assert stage.status() == "not_ready"
        probe.opened.set()
        until(lambda: not stage.runner.snapshot().records["a"].running, "it does not come back")
        assert (probe.runs, probe.most_at_once) == (2, 1)
        until(stage.runner.refresh, "it is not to be asked for again")
        until(lambda: probe.runs == 3, "who asks again is not heard")


def test_one_dependency_is_asked_for() -> None:
    """HL-4.6: by its name; the others are not run for it."""
    asked_for = {"refresh": Refresh.REQUEST, "interval_ms": 1, "cache_ms": 1}
    with Stage(quick("a", **asked_for), quick("b", **asked_for)) as stage:
        stage.runner.start()
        until(lambda: stage.probes["a"].runs == stage.probes["b"].runs == 1, "not both have run")
        until(lambda: stage.runner.refresh("a"), "it is not to be asked for")
        until(lambda: stage.probes["a"].runs > 1, "who asks is not heard")
        assert stage.probes["b"].runs == 1


def test_asking_when_the_scheduler_has_died_piles_nothing_up() -> None:
    """HL-1.5, HL-4.6: requests go on for ever, and leave one message between them."""
    clock = ManualClock()
    stage = Stage(quick("a", refresh=Refresh.REQUEST), clock=clock)
    clock.now += 1
    stage.runner._rounds._ledger.snapshot = dataclasses.replace(stage.runner.snapshot(), ask_after=clock.now)
    assert [stage.runner.refresh() for _ in range(1000)] == [True] * 1000
    assert stage.runner._inbox.qsize() == 1
    stage.runner.stop(1)


# --- what cannot happen ----------------------------------------------------------------------------------------------


def test_a_scheduler_that_stalls_is_noticed() -> None:
    """HL-1.4, HL-2.1, HL-4.5, PROBE-02: verdicts expire, readiness fails, its beat is overdue; it recovers."""
    with Stage(quick("a", cache_ms=300)) as stage:
        stage.runner.start()
        until(lambda: stage.status() == "ready", "it has not become ready")
        hold = threading.Event()
        stage.runner._changed = lambda _: _ignored(hold.wait(20))
        stage.probes["a"].outcome = FAILED
        until(lambda: stage.status() == "not_ready", "the stall is not noticed")
        until(lambda: stage.verdict("a") == "unknown", "the verdict does not expire")
        silent_since = stage.clock.monotonic() - stage.watchdog.silences(stage.clock.monotonic())["probes"]
        assert stage.watchdog.overdue(silent_since + 3.5) == ("probes",)
        stage.probes["a"].outcome = OK
        hold.set()
        until(lambda: stage.status() == "ready", "it does not recover by itself")


def test_a_result_that_came_in_time_counts_after_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.1, HL-4.11, PROBE-02: what came back while the scheduler stood still has not overstayed."""
    clock = ManualClock()
    names = ("a", "b", "c")
    with Stage(*(dependency(name) for name in names), clock=clock) as stage:
        tick, held = stage.runner._rounds.tick, threading.Event()
        stage.runner.start()
        clock.now += 0.1
        until(lambda: stage.status() == "ready", "it has not become ready")
        for probe in stage.probes.values():
            probe.opened.clear()
        clock.now += 1.0
        until(lambda: all(stage.probes[name].runs == 2 for name in names), "no second run begins")
        monkeypatch.setattr(stage.runner._rounds, "tick", lambda moment: (held.wait(20), tick(moment))[1])
        stage.runner.reload(matrix_of(*(dependency(name) for name in names)))  # wakes it, and changes nothing
        until(stage.runner._inbox.empty, "it does not stand still")
        for probe in stage.probes.values():
            probe.opened.set()
        until(lambda: stage.runner._inbox.qsize() == 3, "the results are not there")
        clock.now += 10.0
        held.set()
        until(lambda: all(stage.probes[name].runs == 3 for name in names), "it does not go on")
        until(lambda: stage.status() == "ready", "it does not recover")
        assert stage.runner.snapshot().stuck_total == 0
        assert stage.lines == []
    assert [change.facts["to"] for change in stage.told if change.what == DEPENDENCY_CHANGED] == ["ok"] * 3 + [
        "unknown"
    ] * 3 + ["ok"] * 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_scheduler_that_dies_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-1.4, HL-2.1, HL-4.5, PROBE-02: the same for good: its beat is never closed, and its workers go home."""
    stage = Stage(quick("a", cache_ms=300))
    stage.runner.start()
    until(lambda: stage.status() == "ready", "it has not become ready")

    def dying(moment: object) -> Any:
        raise SystemExit

    monkeypatch.setattr(stage.runner._rounds, "tick", dying)
    until(lambda: stage.status() == "not_ready", "verdicts of the dead are trusted")
    until(lambda: probe_threads() == 0, "workers are left")
    assert stage.watchdog.overdue(stage.clock.monotonic() + 3.5) == ("probes",)
    assert stage.runner.stop(1) is True


def test_a_fault_in_a_pass_is_told_once_and_it_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.5: while every pass fails, verdicts expire; when it is over, all is well again; two lines are logged."""

    def broken(moment: object) -> Any:
        raise KeyError("a fault")

    with Stage(quick("a", cache_ms=300)) as stage:
        stage.runner.start()
        until(lambda: stage.status() == "ready", "it has not become ready")
        with monkeypatch.context() as patch:
            patch.setattr(stage.runner._rounds, "tick", broken)
            until(lambda: stage.status() == "not_ready", "a scheduler that cannot work is trusted")
            assert stage.watchdog.overdue(stage.clock.monotonic()) == ()
        until(lambda: stage.status() == "ready", "it does not recover by itself")
        until(lambda: len(stage.lines) == 2, "it is told twice")
        assert [level for level, _ in stage.lines] == [logging.ERROR, logging.INFO]


def test_who_takes_changes_may_fail() -> None:
    """HL-5.4: a fault of the taker is logged, and the scheduler goes on."""

    def failing(change: Change) -> None:
        raise ValueError(change.what)

    with Stage(quick("a")) as stage:
        stage.runner._changed = failing
        stage.runner.start()
        until(lambda: stage.probes["a"].runs > 2 and stage.status() == "ready", "it has stopped")
        until(lambda: len(stage.lines) == 3, "two of three changes were told in the log")
        assert all("a taker of changes has a fault" in line for _, line in stage.lines)


def test_it_beats_while_nothing_happens() -> None:
    """HL-2.1: with nothing to do for hours it beats within half of its budget, however small that is."""
    clock = SystemClock()
    watchdog = Watchdog(0.2, clock)
    beat = watchdog.register("probes")
    runner = HealthRunner(matrix_of(), lambda spec: HeldProbe(), clock=clock, beat=beat, changed=lambda change: None)
    runner.start()
    try:
        beats = [beat.at]
        for _ in range(5):
            until(lambda: beat.at > beats[-1], "it does not beat")
            beats.append(beat.at)
    finally:
        assert runner.stop(20)
    pauses = sorted(after - before for before, after in itertools.pairwise(beats))
    assert pauses[0] > 0.05
    assert pauses[2] < 0.2


# --- another matrix --------------------------------------------------------------------------------------------------


def test_reload() -> None:
    """HL-3.5: what is unchanged keeps its state, what is new is probed, what is gone is not; it is told."""
    with Stage(quick("kept"), quick("gone")) as stage:
        stage.runner.start()
        until(lambda: stage.status() == "ready", "it has not become ready")
        kept = stage.runner.snapshot().records["kept"]
        stage.runner.reload(matrix_of(quick("kept"), quick("new")))
        until(lambda: any(change.what == "idkmesh.matrix.reloaded" for change in stage.told), "it is not told")
        records = stage.runner.snapshot().records
        assert list(records) == ["kept", "new"]
        assert records["kept"].state.since == kept.state.since
        assert len(records["kept"].history.entries) >= len(kept.history.entries)
        until(lambda: stage.status() == "ready", "the new one is not probed")
        gone = stage.probes["gone"].runs
        until(lambda: stage.probes["new"].runs > 5, "the new one is probed once")
        assert stage.probes["gone"].runs == gone


def test_a_matrix_whose_probes_cannot_be_made_changes_nothing() -> None:
    """HL-3.5: what makes probes raises to who reloads, and the running matrix stays."""

    def refusing(spec: ProbeSpec) -> Any:
        raise ValueError("no such kind")

    with Stage(quick("a")) as stage:
        stage.runner.start()
        until(lambda: stage.status() == "ready", "it has not become ready")
        stage.runner._probe_for = refusing
        with pytest.raises(ValueError, match="no such kind"):
            stage.runner.reload(matrix_of(quick("b")))
        runs = stage.probes["a"].runs
        until(lambda: stage.probes["a"].runs > runs + 2, "it has stopped")
        assert list(stage.runner.snapshot().records) == ["a"]


# --- a thousand ------------------------------------------------------------------------------------------------------


def test_a_thousand_dependencies() -> None:
    """HL-4.3, HL-4.4, HL-5.1: all run, no more than sixteen at once, and an answer costs what it costs with none."""
    many = [dependency(f"d{number}", interval_ms=60_000, cache_ms=120_000) for number in range(1000)]
    with Stage(*many) as stage, Stage() as empty:
        stage.runner.start()
        empty.runner.start()
        until(lambda: stage.status() == "ready", "not all have run")
        until(lambda: empty.status() == "ready", "it has not begun")
        assert probe_threads() <= CONCURRENCY
        assert {probe.runs for probe in stage.probes.values()} == {1}
        for call in ("readiness", "snapshot", "refresh"):
            assert cheapest(getattr(stage.runner, call)) < 3 * cheapest(getattr(empty.runner, call)), call


def test_an_answer_costs_the_same_after_an_expiry() -> None:
    """HL-1.5, HL-5.1: the scheduler has died and verdicts expire: the first who asks judges, the others read that."""
    clock = ManualClock()
    many = [dependency(f"d{number}", interval_ms=60_000, cache_ms=1000 * (number + 1)) for number in range(1000)]
    stage, empty = Stage(*many, clock=clock), Stage(clock=clock)
    rounds = stage.runner._rounds
    clock.now += 1.0
    while runs := rounds.start_due(clock.moment()):
        for run in runs:
            rounds.finished(run, _fine(clock), clock.moment())
    rounds.publish(clock.moment())
    empty.runner._rounds.publish(clock.moment())
    assert stage.status() == "ready"
    clock.now += 2.5
    assert stage.runner.readiness().failing == ("d0", "d1")
    assert stage.runner.readiness() is stage.runner.readiness()
    assert cheapest(stage.runner.readiness) < 5 * cheapest(empty.runner.readiness)
    clock.now += 1.0
    assert stage.runner.readiness().failing == ("d0", "d1", "d2")
    rounds._ledger.hear("d0", _fine(clock), clock.moment())
    rounds.publish(clock.moment())
    assert stage.runner.readiness().failing == ("d1", "d2")
    assert stage.runner.stop(1)
    assert empty.runner.stop(1)


def _ignored(_: object) -> None:
    pass


def _fine(clock: ManualClock) -> Any:
    return HeldProbe().run(0.0, clock)
