"""What ``scripts/release-check`` decides. What it builds and installs is tried by ``tests/test_packaging.py`` too."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from scripts.lib import release_check
from scripts.lib.release_check import NOT_FOUND, ROOT, Row, StepError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_versions_are_those_that_are_promised() -> None:
    """Rule: what the package says that it supports is what is tried, no more and no less."""
    assert release_check.supported() == ["3.11", "3.12", "3.13"]


def test_a_name_on_the_path_is_no_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a shim that does not run, or runs another version, is passed by; one that runs is found."""
    monkeypatch.setattr(release_check, "DIRECTORIES", (f"{tmp_path}/versions/*/bin",))
    monkeypatch.setenv("PATH", str(tmp_path))
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    assert release_check.interpreter("3.99") is None
    version = "{}.{}".format(*sys.version_info[:2])
    wrong = tmp_path / f"python{version}"
    wrong.write_text("#!/bin/sh\necho 2.7\n", encoding="utf-8")
    wrong.chmod(0o755)
    place = tmp_path / "versions" / "one" / "bin"
    place.mkdir(parents=True)
    (place / wrong.name).symlink_to(sys.executable)
    assert release_check.interpreter(version) == str(place / wrong.name)


@pytest.mark.parametrize(
    ("outcomes", "strict", "lenient"),
    [
        (("ok", "ok"), 0, 0),
        (("ok", NOT_FOUND), 1, 0),
        ((NOT_FOUND, NOT_FOUND), 1, 1),
        (("ok", "mypy: exit code 1"), 1, 1),
    ],
)
def test_what_was_not_tried_is_a_failure(outcomes: tuple[str, ...], strict: int, lenient: int) -> None:
    """Rule: a Python that was not found fails unless that is allowed; where none was found nothing was shown."""
    rows = [Row("3.11", "wheel", outcome) for outcome in outcomes]
    assert release_check.verdict(rows, some_may_be_missing=False) == strict
    assert release_check.verdict(rows, some_may_be_missing=True) == lenient


def test_archives_that_are_well_are_not_enough() -> None:
    """Rule: a description that an index would take says nothing of any Python."""
    rows = [Row("any", "wheel", "ok"), Row("3.11", "wheel", NOT_FOUND)]
    assert release_check.verdict(rows, some_may_be_missing=True) == 1


def test_a_failed_step_is_one_line(tmp_path: Path) -> None:
    """Rule: the table says which command it was, how it ended, and its last words."""
    with pytest.raises(StepError, match=r"^python\S* -c .*: exit code 3: no word$"):
        release_check.step(sys.executable, "-c", "raise SystemExit(3)", cwd=tmp_path)
    with pytest.raises(StepError, match=r"exit code 1: last$"):
        release_check.step(sys.executable, "-c", "raise SystemExit('first\\nlast')", cwd=tmp_path)
    with pytest.raises(StepError, match=r"no end after 0\.1 s$"):
        release_check.step(sys.executable, "-c", "import time; time.sleep(60)", cwd=tmp_path, wait=0.1)
    said = release_check.outcome(release_check.step, "sh", "-c", "exit 1", cwd=tmp_path)
    assert said.startswith("sh -c")
    assert release_check.table([Row("3.11", "wheel", said)]).splitlines()[-1] == f"| 3.11 | wheel | {said} |"


def test_nothing_of_the_repository_reaches_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: neither its path nor a setting of whoever checks does."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IDKMESH_PORT", "1")
    said = release_check.step(sys.executable, "-c", "import os; print(*os.environ)", cwd=tmp_path)
    assert not {name for name in said.split() if name.startswith(("IDKMESH_", "PYTHONPATH"))}


def test_the_script_can_be_run() -> None:
    """Rule: it is a program, and says what it does."""
    assert os.access(ROOT / "scripts" / "release-check", os.X_OK)
    command = [sys.executable, str(ROOT / "scripts" / "lib" / "release_check.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--allow-missing" in done.stdout
