"""Rules on a file as a whole: whether it can be read, and what it is."""

from __future__ import annotations

from typing import Final

from idkmesh.inspection.findings import Rule, Severity

UNREADABLE: Final = Rule(
    id="PB001",
    severity=Severity.ERROR,
    title="The file cannot be read",
    why="What comes after the fault is not judged, and no program that is given the file will read it.",
    mend="Mend the YAML at this place.",
)
TEMPLATE: Final = Rule(
    id="PB002",
    severity=Severity.WARNING,
    title="The file is a template",
    why="It makes YAML and is none. What it makes depends on values that are not in it.",
    mend="Render it first: helm template CHART | idkmesh inspect -",
)
UNKNOWN: Final = Rule(
    id="PB003",
    severity=Severity.WARNING,
    title="The file is of no kind that is inspected",
    why="It is no probe matrix, no Kubernetes manifest and no Compose file, so nothing can be said of it.",
    mend="Give a file with kind: idkmesh-probe-matrix, with apiVersion and kind, or with services.",
)
REPEATED_KEY: Final = Rule(
    id="PB004",
    severity=Severity.ERROR,
    title="A key stands twice",
    why="One of the two is dropped in silence, or the whole file is refused: programs differ.",
    mend="Keep one of them.",
)
RULES: Final = (UNREADABLE, TEMPLATE, UNKNOWN, REPEATED_KEY)
