"""The folder of a demo: whose it is, when it goes, and who removes what a killed demo has left."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.console import CommandError
from idkmesh.demo.folder import LOCK, PREFIX, folder, processes_of, remove_left

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_it_is_for_one_user_and_goes_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DM-1.4, DM-5.1: mode 0700 in the place for temporary files; no trace of it afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with folder() as made:
        assert made.parent == tmp_path
        assert made.name.startswith(PREFIX)
        assert made.stat().st_mode & 0o777 == 0o700
        (made / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_takes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DM-5.3: one line says where it cannot be made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(CommandError, match=r"^cannot make a folder in .*/none: "), folder():
        pass


def left(place: Path, name: str, *, lock: bool = True) -> Path:
    """Make a folder as a killed demo leaves it."""
    made = place / f"{PREFIX}{name}"
    made.mkdir(0o700)
    (made / "matrix.yaml").write_text("x")
    if lock:
        (made / LOCK).touch(0o600)
    return made


def test_what_a_killed_demo_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DM-5.2: the next demo removes it; the folder of one that lives, and what is none of a demo's, stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = [left(tmp_path, name) for name in ("a", "b")]
    unlocked = left(tmp_path, "unlocked", lock=False)
    (tmp_path / f"{PREFIX}file").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    with folder() as held:
        assert remove_left() == gone
        assert held.exists()
    assert unlocked.exists()
    assert (elsewhere / LOCK).exists()
    assert [each for each in gone if each.exists()] == []


@contextlib.contextmanager
def running(folder: Path, *, named: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Run something that names a folder, or stands in it, until it is given a line."""
    words = [f"--token-file={folder}/tower.token"] if named else []
    command = [sys.executable, "-c", "print(flush=True); input()", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd="/" if named else folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="who runs is read from /proc")
@pytest.mark.parametrize("named", [True, False], ids=["named", "inside"])
def test_a_folder_in_which_something_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool) -> None:
    """DM-5.2: what a guard is about to end keeps its folder until then, whether it stands in it or names it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = left(tmp_path, "kept")
    with running(kept, named=named) as process:
        assert processes_of(kept) == [process.pid]
        assert remove_left() == []
        process.communicate(b"\n")
    assert remove_left() == [kept]


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="who runs is read from /proc")
@pytest.mark.parametrize("named", [True, False], ids=["named", "inside"])
def test_a_place_that_is_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool) -> None:
    """DM-5.2: what runs has the folder by its own name, by whichever name the place for temporary files is known."""
    place = tmp_path / "place"
    place.mkdir()
    link = tmp_path / "link"
    link.symlink_to(place)
    monkeypatch.setattr(tempfile, "tempdir", str(link))
    kept = left(place, "kept")
    with running(kept, named=named) as process:
        assert remove_left() == []
        process.communicate(b"\n")
    assert remove_left() == [kept]
