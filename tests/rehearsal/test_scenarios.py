"""The packaged scenarios: their structure, and what they come to with a matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from idkmesh.health.matrix_file import read_matrix
from idkmesh.rehearsal.bounds import patience
from idkmesh.rehearsal.faults import How
from idkmesh.rehearsal.scenario import faults_of, names, packaged, watched_seconds
from scripts.lib.scenarios import FOLDER, faults
from tests.health.support import dependency
from tests.rehearsal.support import SETTINGS, matrix_of

MATRIX = matrix_of(dependency("db", success_threshold=2), dependency("cache", critical=False))


def test_the_package_is_whole() -> None:
    """HL-8.8: every file has a name, an owner, an example profile and an expectation, and is named in the documents."""
    assert faults() == []
    assert names() == tuple(sorted(path.stem for path in FOLDER.iterdir()))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("owner: service-owner\n", "", "has no owner"),
        ("owner: service-owner", "owner: Jane Doe", "owner is not a role"),
        ("name: flap", "name: flip", "give both the same"),
        ("restarts: 0", "restarts: 2", "restarts of no cause"),
        ("how: refuse", "how: explode", "how is explode"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, old: str, new: str, said: str) -> None:
    """HL-8.8: the check finds each kind of fault."""
    text = (FOLDER / "flap.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "flap.yaml").write_text(text.replace(old, new), encoding="utf-8")
    assert any(said in line for line in faults(tmp_path))


def test_one_that_is_gone_is_missed(tmp_path: Path) -> None:
    """HL-8.8: the guide promises it by name, so a package without it is not whole."""
    for path in FOLDER.iterdir():
        if path.stem != "flap":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert faults(tmp_path) == ["flap.yaml: REHEARSAL.md has it and the package has not; add it, or drop the row"]


@pytest.mark.parametrize("name", names())
def test_each_comes_to_something(name: str) -> None:
    """HL-8.8: with an ordinary matrix each scenario has faults that last, and an end."""
    found = faults_of(packaged(name), MATRIX, SETTINGS)
    assert found
    assert all(fault.end > fault.begin for fault in found if fault.how is not How.ROLL)
    assert watched_seconds(found, MATRIX, SETTINGS, 1.0) > found[-1].end


def test_startup_scenarios_lie_about_its_threshold() -> None:
    """HL-8.8: the slow start is within what startup allows, the exhausted one beyond."""
    (slow,) = faults_of(packaged("slow-startup"), MATRIX, SETTINGS)
    (exhausted,) = faults_of(packaged("exhausted-startup"), MATRIX, SETTINGS)
    assert slow.end < patience(SETTINGS.figures.startup) < exhausted.end


def test_the_example_matrix_is_one_that_they_fit() -> None:
    """HL-8.8: the example of the repository can be put through the scenarios of a critical dependency."""
    matrix = read_matrix(Path(__file__).parents[2] / "examples" / "probe-matrix.yaml")
    assert faults_of(packaged("dependency-outage"), matrix, SETTINGS)[0].name == "orders-db"
