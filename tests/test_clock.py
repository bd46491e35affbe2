from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import idkmesh
from idkmesh.clock import SystemClock

if TYPE_CHECKING:
    from idkmesh.clock import Clock


def test_monotonic_never_goes_back() -> None:
    """Rule: ages and deadlines are computed from instants that never go back."""
    clock: Clock = SystemClock()
    instants = [clock.monotonic() for _ in range(1000)]
    assert instants == sorted(instants)


def test_utc_is_aware() -> None:
    """Rule: a label says its offset, and it is zero."""
    assert SystemClock().utc().utcoffset() == timedelta(0)


WALL = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "dt.datetime.now"}
READERS = {
    "clock.py": "the label of whoever asks for one",
    "httpd/core.py": "the Date of an answer, and the label of a line of the access log",
    "workloads/ages.py": "an age across a restart, beside what the system has counted since its boot",
    "workloads/lease/sqlite.py": "the label of a claim",
    "demo/shop/check.py": "the age of a file that the demo's own program wrote",
}
"""Who reads the wall clock, and for what."""


def test_who_reads_the_wall_clock() -> None:
    """PROBE-08, HL-2.1: nobody who decides: not for a deadline, a drain, a heartbeat, a cache or Retry-After."""
    package = Path(idkmesh.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL
    }
    assert found == set(READERS)
