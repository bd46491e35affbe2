"""What users of such software have reported of processes and clocks, with the runner and real commands."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.clock import SystemClock
from idkmesh.health.changes import DEPENDENCY_CHANGED
from idkmesh.health.model import Command
from idkmesh.health.probes import probe_for
from idkmesh.health.runner import HealthRunner
from idkmesh.health.watchdog import Watchdog
from tests.health.probe_support import processes, settled
from tests.health.support import COULD_NOT_RUN, FAILED, OK, PATIENCE, dependency, matrix_of, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.health.history import Entry
    from idkmesh.health.model import Dependency

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")


class Probed:
    """A runner with real probes, and what it has told."""

    def __init__(self, row: Dependency) -> None:
        self.told: list[Change] = []
        clock = SystemClock()
        beat = Watchdog(60.0, clock).register("probes")
        self.runner = HealthRunner(matrix_of(row), probe_for, clock=clock, beat=beat, changed=self.told.append)

    def results(self) -> tuple[Entry, ...]:
        """Return the last sixty."""
        return self.runner.snapshot().records["db"].history.entries

    def runs(self) -> int:
        return sum(self.runner.snapshot().records["db"].history.outcome_counts().values())

    def changes(self) -> list[tuple[Any, Any]]:
        return [(each.facts["from"], each.facts["to"]) for each in self.told if each.what == DEPENDENCY_CHANGED]


@contextlib.contextmanager
def running(script: str, **more: Any) -> Iterator[Probed]:
    given = {"timeout_ms": 200, "interval_ms": 200, "cache_ms": 60_000} | more
    probed = Probed(dependency("db", probe=Command(argv=("sh", "-c", script)), **given))
    probed.runner.start()
    try:
        yield probed
    finally:
        assert probed.runner.stop(PATIENCE)


@pytest.mark.parametrize("script", ["exec sleep 3600", "trap '' TERM; exec sleep 3600"])
def test_commands_that_never_end_do_not_pile_up(script: str, word: str, children: Callable[..., list[int]]) -> None:
    """EXEC-01, HL-4.3, HL-4.8, HL-4.11: one process of it at most at any time, never a success, none after the stop."""
    most = 0
    with running(script, interval_ms=300) as probed:
        while probed.runs() < 6:
            most = max(most, len(processes(word)))
            time.sleep(0.005)
        results = probed.results()
        said = {(each.result.outcome, each.result.detail) for each in results}
        # On a busy machine one that was killed may not have been reaped when it is to run again.
        assert said - {(COULD_NOT_RUN, "still waiting")} == {(FAILED, "timeout")}
        assert not any("ok" in change for change in probed.changes())
    assert most == 1
    assert settled(lambda: not processes(word) and not children())


def test_output_that_changes_is_no_change() -> None:
    """EXEC-11, HL-4.7: sixty runs that each print the time, and one change, the first; nothing after it."""
    with running("date +%s%N; date +%s%N >&2", timeout_ms=2000, interval_ms=1) as probed:
        until(lambda: probed.runs() > 60, "it is not run")
        assert probed.changes() == [("unknown", "ok")]
        assert {each.result.detail for each in probed.results()} == {"exit 0"}


def test_a_flapping_command_is_no_change(tmp_path: Path) -> None:
    """EXEC-11, HL-4.7: exit status 0 1 0 1 below thresholds of 3 and 2 tells nothing."""
    flag = tmp_path / "flag"
    script = f"if [ -e {flag} ]; then rm {flag}; exit 1; fi; : > {flag}"
    thresholds = {"critical": False, "failure_threshold": 3, "success_threshold": 2}
    with running(script, timeout_ms=5000, interval_ms=1, **thresholds) as probed:
        until(lambda: probed.runs() > 20, "it is not run")
        outcomes = [each.result.outcome for each in probed.results()]
        assert all(one is not other for one, other in itertools.pairwise(outcomes))
        assert set(outcomes) == {OK, FAILED}
        assert probed.changes() == [("unknown", "ok")]


def test_a_wall_clock_that_jumps_changes_no_verdict(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """PROBE-08, HL-2.1, HL-4.1, HL-4.5: an hour forth and back at each look: timeouts, ages and runs are as ever."""
    real, jumps = time.time, itertools.cycle([3600.0, -3600.0])
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + next(jumps)) * 1e9))
    with running("exec sleep 3600", cache_ms=500) as probed:
        until(lambda: probed.runs() > 5, "it is not run")
        assert {each.result.detail for each in probed.results()} - {"still waiting"} == {"timeout"}
        timed = [each.result.latency for each in probed.results() if each.result.detail == "timeout"]
        assert all(0.1 <= latency < PATIENCE for latency in timed)
    with running("exit 0", timeout_ms=2000, cache_ms=20_000) as probed:
        until(lambda: probed.runs() > 5, "it is not run")
        assert probed.changes() == [("unknown", "ok")]
        assert probed.runner.readiness().status == "ready"
    assert settled(lambda: not processes(word))
