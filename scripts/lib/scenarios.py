"""Checks the packaged scenarios of rehearsals: the form of each, and that contract and guide name it (HL-8.8)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from idkmesh.rehearsal.scenario import KIND, load_scenario
from idkmesh.validation.findings import MatrixError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "idkmesh" / "rehearsal" / "scenarios"
DOCUMENTS = (ROOT / "docs" / "specifications" / "HEALTH_V0_1.md", ROOT / "docs" / "REHEARSAL.md")


_ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)
"""A row of the guide's table of scenarios."""


def faults_of(file: Path, documents: dict[str, str]) -> list[str]:
    """Return what is wrong with one file, a line each. ``documents`` are those that name every scenario."""
    try:
        scenario = load_scenario(file.read_text(encoding="utf-8"), file.name)
    except MatrixError as error:
        return error.lines()
    found = [] if scenario.name == file.stem else [f"{file.name}: its name is {scenario.name}; give both the same"]
    if scenario.expectation.restarts and scenario.expectation.cause == "none":
        found.append(f"{file.name}: it expects restarts of no cause; write startup or liveness")
    missing = [name for name, text in documents.items() if f"`{scenario.name}`" not in text]
    return [*found, *(f"{file.name}: {name} does not name it; add `{scenario.name}`" for name in missing)]


def faults(folder: Path = FOLDER) -> list[str]:
    """Return what is wrong with the package, a line each."""
    documents = {path.name: path.read_text(encoding="utf-8") for path in DOCUMENTS}
    files = sorted(folder.iterdir())
    wrong = [f"{path.name}: no scenario; every file of the package is one" for path in files if path.suffix != ".yaml"]
    if not files:
        wrong.append(f"no {KIND} at all")
    told = _ROW.findall(documents["REHEARSAL.md"])
    lost = sorted(set(told) - {path.stem for path in files})
    wrong += [f"{name}.yaml: REHEARSAL.md has it and the package has not; add it, or drop the row" for name in lost]
    return [*wrong, *(line for path in files if path.suffix == ".yaml" for line in faults_of(path, documents))]


def main() -> int:
    """Print what is wrong, and return 1 if anything is."""
    found = faults()
    for line in found:
        print(line)
    print(f"{len(found)} faults in {len(list(FOLDER.iterdir()))} scenarios")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
