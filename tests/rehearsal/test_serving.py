"""The fault table on real processes: the commands that serve, with PostgreSQL, Redis and an HTTP server."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from idkmesh.rehearsal.bounds import ALLOWANCE_SECONDS
from scripts.bench.benchlib.fault_table import FAULTS, NOT_READY, RESTART, bounds
from scripts.bench.benchlib.faults import Run, measured
from scripts.bench.benchlib.stores import MissingError

SCALE = 2
"""Fold of the benchmark's times: a command that asks a store has 600 ms."""

PLAYED = {
    "serve": ("PostgreSQL stopped", "PostgreSQL paused (SIGSTOP)", "HTTP slower than its timeout"),
    "control-tower": ("Redis paused, noncritical", "all refuse", "the service paused (SIGSTOP)"),
}
"""Those that no packaged scenario has, and one that each has; two services at once."""


@pytest.mark.alone
@pytest.mark.slow
def test_faults_of_real_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-1.1, HL-1.2, HL-4.8, HL-8.5, PROBE-01, EXEC-01: no restart for a dependency, no ready answer beyond the bound.

    Stores are stopped, and paused so that only a command sees it; an HTTP dependency is slow; a service is paused and
    restarted once. All within what the matrix implies, with what a rehearsal allows the machine and one period more.
    """
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        monkeypatch.delenv(name)  # services that are measured as well are three times as slow
    faults = {each.name: each for each in FAULTS}

    def play(service: str) -> list[tuple[Run, str]]:
        found, matrix = measured(service, [faults[name] for name in PLAYED[service]], 1, scale=SCALE)
        slack = ALLOWANCE_SECONDS + matrix.orchestrator.readiness.period_ms / 1000
        return [(run, _wrong(run, bounds(faults[run.fault], matrix, 0.0), slack)) for run in found]

    try:
        with ThreadPoolExecutor(len(PLAYED)) as pool:
            runs = [run for found in pool.map(play, PLAYED) for run in found]
    except MissingError as error:
        pytest.skip(str(error))
    assert [str(run) + wrong for run, wrong in runs if wrong] == []
    assert [run.fault for run, _ in runs] == [name for names in PLAYED.values() for name in names]
    for run, _ in runs:
        assert run.restarts == (faults[run.fault].shows == RESTART)
        assert (run.beyond, run.stalled) == (0, 0)
        assert run.act is not None or faults[run.fault].shows != NOT_READY


def _wrong(run: Run, limits: object, slack: float) -> str:
    """Return what took longer than it may, or did not come about."""
    found = {name: (getattr(run, name), getattr(limits, name)) for name in ("notice", "back", "act", "enter")}
    late = [name for name, (seen, bound) in found.items() if seen is None or seen > bound + slack]
    return f" {late} of {limits}" if late else ""
