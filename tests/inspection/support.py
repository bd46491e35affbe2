"""What the tests of the inspection share: parts of manifests made whole, marked places, and a matrix from a mapping."""

from __future__ import annotations

import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from idkmesh.health.model import (
    KINDS,
    Dependency,
    Figures,
    Orchestrator,
    ProbeMatrix,
    Refresh,
    WatchdogFigures,
)
from idkmesh.inspection.findings import Finding, Place
from idkmesh.inspection.inspect import inspect_text

ROOT = Path(__file__).parents[2]
EXAMPLES: dict[str, Any] = yaml.safe_load(
    (ROOT / "docs" / "reference" / "inspection-examples.yaml").read_text(encoding="utf-8")
)
BASE = EXAMPLES.pop("base")
MARK = "\N{SECTION SIGN}"

POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart}
spec:
  template:
    metadata:
      labels: {app: cart}
    spec:
"""
CONTAINER = f"""\
{POD}      containers:
      - name: server
        image: registry.example/cart:1
        ports: [{{name: http, containerPort: 8080}}]
"""


def whole(part: str, text: str) -> str:
    """Return a file with a part of it: ``container``, ``pod``, ``services``, ``matrix`` or ``file``."""
    if part == "container":
        # What the text gives itself must not stand twice.
        frame = CONTAINER.replace("        image: registry.example/cart:1\n", "") if "image:" in text else CONTAINER
        return frame + textwrap.indent(text, " " * 8)
    if part == "pod":
        return POD + textwrap.indent(text, " " * 6)
    if part == "services":
        return "services:\n" + textwrap.indent(text, " " * 2)
    if part == "matrix":
        given = yaml.safe_load(text)
        kept = {key: value for key, value in yaml.safe_load(BASE).items() if key not in given}
        return yaml.safe_dump(kept, default_flow_style=None, sort_keys=False) + text
    return text


def marked(text: str) -> tuple[str, Place | None]:
    """Return a text without its mark, and where the mark stood."""
    before, mark, after = text.partition(MARK)
    if not mark:
        return text, None
    line = before.count("\n")
    return before + after, Place(line + 1, len(before) - before.rfind("\n"))


def inspected(part: str, text: str, matrix: ProbeMatrix | None = None) -> tuple[list[Finding], Place | None]:
    """Return the findings in a part of a file, and the place that the text marks."""
    clean, place = marked(whole(part, text))
    return inspect_text(clean, "part.yaml", matrix), place


def ids(findings: list[Finding]) -> set[str]:
    return {finding.rule.id for finding in findings}


def matrix_of(document: dict[str, Any]) -> ProbeMatrix:
    """Return the values of a matrix, without any of the loader's judgements."""
    return ProbeMatrix(
        orchestrator=Orchestrator(**{name: Figures(**each) for name, each in document["orchestrator"].items()}),
        watchdog=WatchdogFigures(**document["watchdog"]),
        dependencies=tuple(_dependency(row) for row in document["dependencies"]),
    )


def base_matrix() -> ProbeMatrix:
    return matrix_of(yaml.safe_load(BASE))


def _dependency(row: dict[str, Any]) -> Dependency:
    ((kind, spec),) = row["probe"].items()
    make: Any = KINDS[kind]
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()}
    return Dependency(**row | {"probe": make(**fields), "refresh": Refresh(row.get("refresh", "schedule"))})


class MatrixError(ValueError):
    """As the loader's: with all findings."""

    def __init__(self, *findings: SimpleNamespace) -> None:
        super().__init__(findings)
        self.findings = findings


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a loader in the place of the matrix's own, which judges one relation alone."""

    def load_matrix(text: str, source: str) -> ProbeMatrix:
        matrix = matrix_of(yaml.safe_load(text))
        limit = matrix.orchestrator.readiness.timeout_ms
        late = [row for row in matrix.dependencies if row.timeout_ms >= limit]
        if late:
            what = f"timeout_ms {late[0].timeout_ms} is not below {limit}"
            raise MatrixError(SimpleNamespace(line=3, column=5, rule="timeout-readiness", what=what, mend="lower it"))
        return matrix

    module = SimpleNamespace(load_matrix=load_matrix, MatrixError=MatrixError)
    monkeypatch.setitem(__import__("sys").modules, "idkmesh.health.matrix_file", module)
