"""What the tests of the matrix share: a file that is right, and ways to read what is wrong with another."""

from __future__ import annotations

from pathlib import Path

import pytest

from idkmesh.health.matrix_file import load_matrix
from idkmesh.validation.findings import Finding, MatrixError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "probe-matrix.yaml"

HEAD = """\
schema_version: "0.1"
kind: idkmesh-probe-matrix
orchestrator:
  startup: {period_ms: 1000, timeout_ms: 1000, failure_threshold: 30}
  liveness: {period_ms: 10000, timeout_ms: 1000, failure_threshold: 3}
  readiness: {period_ms: 3000, timeout_ms: 1000, failure_threshold: 2}
watchdog: {interval_ms: 1000, max_missed_ticks: 5}
dependencies:
"""

ROW = """\
  - name: db
    critical: true
    probe: {tcp: {host: 127.0.0.1, port: 5432}}
    timeout_ms: 500
    interval_ms: 2000
    cache_ms: 5000
"""


def matrix_text(probe: str = "tcp: {host: 127.0.0.1, port: 5432}", **members: str) -> str:
    """Return a file with one row; ``members`` replace or add lines of it."""
    lines = {
        "name": "db",
        "critical": "true",
        "probe": f"{{{probe}}}",
        "timeout_ms": "500",
        "interval_ms": "2000",
        "cache_ms": "5000",
    }
    row = [f"{name}: {value}" for name, value in (lines | members).items()]
    return HEAD + "  - " + "\n    ".join(row) + "\n"


def many(count: int, row: str = ROW) -> str:
    """Return a file with many rows, each with a name of its own."""
    return HEAD + "".join(row.replace("name: db", f"name: db-{number}") for number in range(count))


def findings(text: str) -> tuple[Finding, ...]:
    """Return what is wrong with a text, which is something."""
    with pytest.raises(MatrixError) as caught:
        load_matrix(text, "m.yaml")
    return caught.value.findings


def marked(text: str) -> tuple[str, int, int]:
    """Return a text without the sign ``@@``, and the line and column where it stood."""
    before, _, after = text.partition("@@")
    return before + after, before.count("\n") + 1, len(before) - before.rfind("\n")
