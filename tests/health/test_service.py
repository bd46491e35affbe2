"""Health of a service as a whole: what is overdue, who holds a slot, and a matrix that is read again."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.changes import MAX_NAMES, Change, named
from idkmesh.health.change_lines import line_of
from idkmesh.health.model import Disk, WatchdogFigures
from idkmesh.health.reloads import MatrixReading
from idkmesh.health.self_watch import DISK_RESERVE, DISK_ROOM, nothing_but_itself, room_for_files
from idkmesh.health.service import FRONT, PROBES, HealthService
from idkmesh.health.slots import WARNING
from idkmesh.health.watchdog import Watchdog, WatchdogError
from tests.health.matrices import HEAD, ROW
from tests.health.support import FAILED, PATIENCE, HeldProbe, ManualClock, dependency, matrix_of, until

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.clock import Clock
    from idkmesh.health.model import Probe, ProbeMatrix


def _ignored(_: object) -> None:
    """Take what a wait says, and say nothing."""


class Watched:
    """A service whose budget is 3 s, with what it told."""

    def __init__(self, matrix: ProbeMatrix | None = None, clock: Clock | None = None) -> None:
        self.told: list[Change] = []
        self.lines: list[tuple[str, int]] = []
        self.probe = HeldProbe()
        self.health = HealthService(
            matrix or matrix_of(),
            clock=clock or ManualClock(),
            changed=self.told.append,
            log=lambda line, level: self.lines.append((line, level)),
            probe_for=lambda _spec: self.probe,
        )

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        told = [(change.what, dict(change.facts)) for change in self.told]
        self.told.clear()
        return told


# --- liveness ---------------------------------------------------------------------------------------------------------


def test_a_silent_component_is_told_once_and_again_when_it_beats() -> None:
    """HL-1.1, HL-2.1, HL-5.4: failed once, however often somebody looks, and recovered once."""
    clock = ManualClock()
    watched = Watched(clock=clock)
    front = watched.health.register_front()
    clock.now += 2.9
    watched.health.look(clock.now)
    assert watched.take() == []
    clock.now += 0.2
    for _ in range(3):
        watched.health.look(clock.now)
    (what, facts), *others = watched.take()
    assert (what, facts["components"], others) == ("idkmesh.liveness.failed", [PROBES, FRONT], [])
    assert watched.lines == [("stalled: probes, front silent for too long", logging.ERROR)]
    front.beat()
    watched.health.look(clock.now)
    assert watched.take() == []
    assert watched.health.overdue() == (PROBES,)
    assert watched.health.reading().liveness.failures_total == 1


def test_liveness_is_read_from_the_beats_themselves() -> None:
    """HL-1.5, HL-2.2: it is right also while the watching thread has not looked, or is no more."""
    clock = ManualClock()
    watched = Watched(clock=clock)
    front = watched.health.register_front()
    assert watched.health.overdue() == ()
    clock.now += 3.1
    assert watched.health.overdue() == (PROBES, FRONT)
    front.close()
    assert watched.health.overdue() == (PROBES,)
    assert watched.told == []


def test_a_front_is_registered_once() -> None:
    """HL-2.5: a second loop under the same name is refused, until the first has ended."""
    watched = Watched()
    first = watched.health.register_front()
    with pytest.raises(WatchdogError):
        watched.health.register_front()
    first.close()
    watched.health.register_front().close()


def test_a_budget_changes_for_those_that_have_none_of_their_own() -> None:
    """HL-2.1, HL-3.5: a matrix that is read again may allow another silence; a shorter promise stays."""
    clock = ManualClock()
    watchdog = Watchdog(10.0, clock)
    common, own = watchdog.register("common"), watchdog.register("own", 4.0)
    watchdog.rebudget(20.0)
    assert (watchdog.budget, common.budget, own.budget) == (20.0, 20.0, 4.0)
    watchdog.rebudget(2.0)
    assert (common.budget, own.budget) == (2.0, 2.0)
    watchdog.rebudget(5.0)
    assert (common.budget, own.budget) == (5.0, 4.0)
    with pytest.raises(WatchdogError):
        watchdog.rebudget(0.0)


def test_a_shorter_budget_makes_nobody_overdue_that_waits_by_the_longer_one() -> None:
    """HL-2.1, HL-3.5: it holds from a component's next beat on, also where the matrix is read again and again."""
    clock = ManualClock()
    watchdog = Watchdog(10.0, clock)
    front = watchdog.register("front")
    clock.now += 1.0
    for budget in (0.125, 0.25, 0.125):
        watchdog.rebudget(budget)
    assert watchdog.overdue(clock.now + 0.4) == ()
    assert watchdog.overdue(clock.now + 9.1) == ("front",)
    clock.now += 0.5
    front.beat()
    assert watchdog.overdue(clock.now + 0.125) == ()
    assert watchdog.overdue(clock.now + 0.126) == ("front",)


@pytest.mark.parametrize(("ago", "expected"), [(0.0, True), (0.6, True), (1.0, False)])
def test_a_process_that_beats_is_known_as_such_by_short_intervals_too(ago: float, expected: bool) -> None:
    """HL-5.4: a loop with nothing to do beats each half second; the matrix's interval may be 10 ms."""
    clock = ManualClock()
    figures = WatchdogFigures(interval_ms=10, max_missed_ticks=300)
    watched = Watched(dataclasses.replace(matrix_of(), watchdog=figures), clock)
    front = watched.health.register_front()
    down = dataclasses.replace(watched.health.snapshot(), critical_down=True)
    clock.now += 3.1 - ago
    front.beat()
    clock.now += ago
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched.health._runner._rounds._ledger, "snapshot", down)
        watched.health.look(clock.now)
    ((what, facts),) = watched.take()
    assert (what, facts["dependency_only"]) == ("idkmesh.liveness.failed", expected)


def test_the_end_has_one_timeout_for_all() -> None:
    """HL-4.11: the scheduler and the watch are both held up: the end comes after the 2 s that were given, not twice."""
    watched, hold, looking = Watched(matrix_of(dependency())), threading.Event(), threading.Event()

    def holders() -> tuple[str, ...]:
        looking.set()
        hold.wait(PATIENCE)
        return ()

    watched.health._changed = lambda _: _ignored(hold.wait(PATIENCE))
    watched.health.watch_slots(holders)
    watched.health.start()
    assert looking.wait(PATIENCE)
    until(lambda: watched.probe.runs, "the probe does not run")
    began = time.monotonic()
    ended = watched.health.stop(2.0)
    took = time.monotonic() - began
    hold.set()
    assert not ended
    assert took < 3.9


# --- slots ------------------------------------------------------------------------------------------------------------


def test_a_held_slot_is_a_warning_and_no_more() -> None:
    """HL-2.3: once a holder, by the largest budget; liveness holds, and the warning ends with the hold."""
    clock = ManualClock()
    watched = Watched(clock=clock)
    holders = ["long"]
    watched.health.watch_slots(lambda: holders)
    for beat in watched.health.watchdog._beats:
        beat.close()
    for _ in range(8):
        watched.health.look(clock.now)
        clock.now += 1.0
    assert watched.take() == [("idkmesh.slot.held", {"seconds": 4.0, "slots": 1})]
    assert watched.health.warnings() == (WARNING,)
    assert watched.health.reading().slots_held == 1
    assert watched.health.overdue() == ()
    holders.clear()
    watched.health.look(clock.now)
    assert watched.health.warnings() == ()


def test_a_fault_of_the_watch_is_told_once_and_the_watch_goes_on() -> None:
    """HL-2.3: what cannot be looked at is one line, not one each half second, and the thread lives."""
    watched = Watched(matrix_of())
    broken = []

    def holders() -> tuple[str, ...]:
        broken.append(1)
        raise OSError("no holders")

    watched.health.watch_slots(holders)
    watched.health.watchdog.rebudget(0.04)
    watched.health.start()
    try:
        until(lambda: len(broken) > 2, "looked again")
    finally:
        assert watched.health.stop(PATIENCE)
    assert [line for line, _ in watched.lines if "no holders" in line] == [
        "the watch over this process has a fault: OSError: no holders"
    ]
    assert watched.health.stop(PATIENCE), "a second call changes nothing"


# --- a matrix that is read again --------------------------------------------------------------------------------------


def test_a_good_file_is_taken(tmp_path: Path) -> None:
    """HL-3.5: its dependencies, and its budget."""
    watched = Watched()
    file = tmp_path / "m.yaml"
    file.write_text(HEAD + ROW)
    watched.health.start()
    try:
        assert watched.health.reload_from(file)
        until(lambda: list(watched.health.snapshot().records) == ["db"], "taken")
        assert watched.health.reading().budget == 5.0
        until(lambda: any(change.what == "idkmesh.matrix.reloaded" for change in watched.told), "told")
        assert watched.lines[0] == (
            "the probe matrix was read again: 0 kept, 0 changed, 1 added, 0 removed",
            logging.INFO,
        )
    finally:
        assert watched.health.stop(PATIENCE)


@pytest.mark.parametrize(
    ("text", "where", "findings"),
    [
        (HEAD + ROW.replace("critical: true", "critical: maybe") + "x: 1\n", ":10:15: ", 2),
        ("", ":1:1: ", 1),
        (None, ":1:1: cannot be read: No such file or directory", 1),
    ],
)
def test_a_bad_file_keeps_the_running_matrix(tmp_path: Path, text: str | None, where: str, findings: int) -> None:
    """HL-3.5, HL-5.4: one line with file, line, column, and how many more; an event with the same; all else stays."""
    watched = Watched(matrix_of(dependency("old")))
    file = tmp_path / "m.yaml"
    if text is not None:
        file.write_text(text)
    assert not watched.health.reload_from(file)
    ((line, level),) = watched.lines
    assert line.startswith(f"the probe matrix is refused, the running one stays: {file}{where}")
    assert line.endswith(f" (and {findings - 1} more)") is (findings > 1)
    assert (level, "\n" in line) == (logging.ERROR, False)
    ((what, facts),) = watched.take()
    assert (what, facts["findings"]) == ("idkmesh.matrix.refused", findings)
    assert where.startswith(f":{facts['line']}:{facts['column']}: ")
    assert list(watched.health.snapshot().records) == ["old"]
    kept = watched.health.reading().matrix.refused
    assert kept is not None
    assert line.endswith(f": {kept.what}")


def test_a_refused_file_is_remembered_until_one_is_taken(tmp_path: Path) -> None:
    """HL-3.5, HL-5.3: who was not there when it was told finds when and why; a good file ends it."""
    clock = ManualClock()
    watched = Watched(matrix_of(dependency("old")), clock)
    began = clock.utc()
    assert watched.health.reading().matrix == MatrixReading(began)
    file = tmp_path / "m.yaml"
    file.write_text("")
    clock.now += 5
    assert not watched.health.reload_from(file)
    matrix = watched.health.reading().matrix
    assert matrix.refused is not None
    assert (matrix.read_at, matrix.refused.at) == (began, clock.utc())
    file.write_text(HEAD + ROW)
    clock.now += 5
    assert watched.health.reload_from(file)
    assert watched.health.reading().matrix == MatrixReading(clock.utc())


def test_a_fifo_holds_nobody_up_who_reloads(tmp_path: Path) -> None:
    """HL-3.5: a FIFO without a writer is refused at once, and the next signal finds somebody to read."""
    watched = Watched(matrix_of(dependency("old")))
    file = tmp_path / "m.yaml"
    os.mkfifo(file)
    reader = threading.Thread(target=watched.health.reload_from, args=(file,), daemon=True)
    reader.start()
    reader.join(30)
    assert not reader.is_alive()
    ((line, level),) = watched.lines
    assert line.startswith(f"the probe matrix is refused, the running one stays: {file}:1:1: is a FIFO")
    assert level == logging.ERROR
    assert list(watched.health.snapshot().records) == ["old"]


def test_a_fault_of_ours_ends_nobody_who_reloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-3.5: what cannot be taken for another reason is one line, and the next signal finds somebody to read."""
    watched = Watched(matrix_of(dependency("old")))
    file = tmp_path / "m.yaml"
    file.write_text(HEAD + ROW)

    def broken(_spec: object) -> Probe:
        raise RuntimeError("no probe")

    monkeypatch.setattr(watched.health._runner, "_probe_for", broken)
    assert not watched.health.reload_from(file)
    assert watched.lines == [
        ("the probe matrix was not taken, the running one stays: RuntimeError: no probe", logging.ERROR)
    ]
    assert watched.health.reading().budget == 3.0
    assert watched.health.reading().matrix.refused is not None
    assert list(watched.health.snapshot().records) == ["old"]


# --- lines ------------------------------------------------------------------------------------------------------------


def test_what_is_well_from_the_start_is_no_line() -> None:
    """HL-5.4: a thousand dependencies that are well at their first result are no thousand lines; a recovery is one."""
    watched = Watched()

    def change(before: str, after: str) -> None:
        facts = {"from": before, "to": after, "detail": "refused", "critical": False}
        watched.health._tell(Change("idkmesh.dependency.changed", "cache", facts))

    change("unknown", "ok")
    assert watched.lines == []
    change("ok", "failing")
    change("failing", "unknown")
    change("unknown", "ok")
    assert [line for line, _ in watched.lines] == [
        "dependency cache (noncritical) is failing: refused",
        "dependency cache (noncritical) is unknown: refused",
        "dependency cache is ok again",
    ]
    assert len(watched.told) == 4


def test_lines_name_what_is_not_well() -> None:
    """HL-5.4, CT-9.5: one line each, of at most ten names and how many more there are."""
    many = [f"db-{number}" for number in range(MAX_NAMES + 2)]
    facts = {"from": "ready", "to": "not_ready", **named("failing", many), **named("warnings", [])}
    line = line_of(Change("idkmesh.readiness.changed", None, facts))
    assert line == (f"not ready: {', '.join(many[:10])} and {MAX_NAMES - 8} more", logging.WARNING)
    back = {"from": "not_ready", "to": "ready"}
    assert line_of(Change("idkmesh.readiness.changed", None, back)) == ("ready again", logging.INFO)
    assert line_of(Change("idkmesh.readiness.changed", None, {"from": "starting", "to": "ready"})) is None
    components = named("components", ["front"])
    recovered = line_of(Change("idkmesh.liveness.recovered", None, components))
    assert recovered == ("no longer stalled: front", logging.WARNING)
    held = line_of(Change("idkmesh.slot.held", None, {"seconds": 12.5, "slots": 1}))
    assert held == ("a worker slot has been held for 12.5 s: its handler may wait", logging.WARNING)
    assert line_of(Change("idkmesh.startup.succeeded", None, {"seconds": 1.0})) is None


# --- without a matrix -------------------------------------------------------------------------------------------------


def test_a_service_watches_its_disk() -> None:
    """HL-3.4: below 1 % it is not ready, below 5 % somebody is to look."""
    room, reserve = room_for_files("/var/lib").dependencies
    assert (room.name, room.critical, room.probe) == (DISK_ROOM, True, Disk(path="/var/lib", min_free_percent=1.0))
    assert (reserve.name, reserve.critical) == (DISK_RESERVE, False)
    assert reserve.probe == Disk(path="/var/lib", min_free_percent=5.0)
    for row in (room, reserve):
        assert row.cache_ms >= row.interval_ms + row.timeout_ms
    assert nothing_but_itself().dependencies == ()


def test_a_service_without_dependencies_is_ready_at_once() -> None:
    """HL-1.3, HL-3.1: nothing is to be run, so startup succeeds with the first pass."""
    watched = Watched(nothing_but_itself())
    assert watched.health.readiness().status == "starting"
    watched.health.start()
    try:
        until(lambda: watched.health.readiness().status == "ready", "ready")
        assert watched.health.snapshot().started
    finally:
        assert watched.health.stop(PATIENCE)


def test_a_dependency_that_is_down_at_boot() -> None:
    """HL-1.1 to HL-1.3: it has started, is alive, and gets no traffic."""
    watched = Watched(matrix_of(dependency("db")))
    watched.probe.outcome = FAILED
    watched.health.start()
    try:
        until(lambda: watched.health.snapshot().started, "started")
        assert (watched.health.readiness().status, watched.health.readiness().failing) == ("not_ready", ("db",))
        assert watched.health.overdue() == ()
    finally:
        assert watched.health.stop(PATIENCE)
