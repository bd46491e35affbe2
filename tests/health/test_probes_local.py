"""`file`, `disk` and `python`: what this machine and its code say."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.health.model import Disk, File, Python
from idkmesh.health.probes import probe_for
from idkmesh.health.probes.disk import lacking
from idkmesh.health.probes.file import stale
from tests.health.probe_support import COULD_NOT_RUN, FAILED, OK, hangs, said, settled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.health.probe_support import Said

MODULE = """
import time, threading
gate = threading.Event()
calls = []
def true(): return True
def none(): calls.append(1)
def false(): return False
def one(): return 1
def text(): return "s3cret"
def fail(): raise LookupError("s3cret")
def leave(): raise SystemExit("s3cret")
def block(): gate.wait()
async def later(): return True
class Checks:
    @staticmethod
    def inner(): return True
number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the name of a module of checks that can be imported, and of none that has been."""
    name = f"checks_of_{tmp_path.name}".replace("-", "_").replace("[", "_").replace("]", "_")
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def test_file(tmp_path: Path) -> None:
    """HL-4.10: a file that exists is well, and without a limit any age is."""
    file = tmp_path / "file"
    assert said(File(path=str(file))) == (FAILED, "missing")
    assert said(File(path=str(file / "below"))) == (FAILED, "missing")
    file.touch()
    os.utime(file, (0, 0))
    assert said(File(path=str(file))) == (OK, "found")
    assert said(File(path=str(file / "below"))) == (FAILED, "missing")
    assert said(File(path=str(tmp_path))) == (FAILED, "a directory")
    assert said(File(path="/a\0b")) == (COULD_NOT_RUN, "no valid path")
    assert said(File(path="/" + "x" * 5000)) == (COULD_NOT_RUN, "no valid path")


def test_age(tmp_path: Path) -> None:
    """HL-4.10: with a limit a file is no older; one from the future is held to the same limit."""
    file = tmp_path / "file"
    file.touch()
    for ago, expected in {0: (OK, "found"), 100: (FAILED, "too old"), -100: (FAILED, "from the future")}.items():
        os.utime(file, (time.time() - ago,) * 2)
        assert said(File(path=str(file), max_age_ms=50_000)) == expected


@pytest.mark.parametrize(
    ("age", "expected"),
    [(0, None), (60, None), (60.001, "too old"), (-60, None), (-60.001, "from the future")],
)
def test_the_ends_of_the_age(age: float, expected: str | None) -> None:
    """HL-4.10: both ends are allowed."""
    assert stale(age, 60) == expected


def test_disk(tmp_path: Path) -> None:
    """HL-4.10: the file system of a path has so many bytes, and so much of a hundred, free."""
    path = str(tmp_path)
    assert said(Disk(path=path, min_free_bytes=1, min_free_percent=0.0)) == (OK, "room enough")
    assert said(Disk(path=path, min_free_bytes=1 << 60)) == (FAILED, "too few bytes free")
    assert said(Disk(path=path, min_free_percent=100.0)) == (FAILED, "too small a share free")
    assert said(Disk(path=path + "/none", min_free_bytes=1)) == (FAILED, "missing")
    assert said(Disk(path="/a\0b", min_free_bytes=1)) == (COULD_NOT_RUN, "no valid path")


@pytest.mark.parametrize(
    ("percent", "count", "total", "free", "expected"),
    [
        (5.0, None, 1000, 50, None),
        (5.0, None, 1000, 49, "too small a share free"),
        (None, 50, 1000, 50, None),
        (None, 50, 1000, 49, "too few bytes free"),
        (5.0, 50, 1000, 49, "too few bytes free"),
        (5.0, 10, 1000, 49, "too small a share free"),
        (5.0, None, 0, 0, "a file system without a size"),
    ],
)
def test_room(percent: float | None, count: int | None, total: int, free: int, expected: str | None) -> None:
    """HL-4.10: each minimum that is given holds, and both ends are allowed."""
    assert lacking(Disk(path="/", min_free_percent=percent, min_free_bytes=count), total, free) == expected


@pytest.mark.parametrize(
    ("spec", "module_of", "name"),
    [(File(path="/"), os, "stat"), (Disk(path="/", min_free_bytes=1), shutil, "disk_usage")],
)
def test_a_file_system_that_hangs(
    spec: File | Disk, module_of: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HL-4.11: a network file system that does not come back keeps one thread, and is asked again once it has."""
    gate, before, real = threading.Event(), threading.active_count(), getattr(module_of, name)
    monkeypatch.setattr(module_of, name, lambda path: (gate.wait(), real(path))[1])
    probe = probe_for(spec)
    try:
        assert said(probe, 0.1) == (FAILED, "timeout")
        assert said(probe, 0.1) == (COULD_NOT_RUN, "still waiting")
        assert (hangs(probe), threading.active_count()) == (True, before + 1)
    finally:
        gate.set()
    assert settled(lambda: threading.active_count() == before)
    assert said(probe)[1] in {"room enough", "a directory"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("true", (OK, "true")),
        ("none", (OK, "true")),
        ("Checks.inner", (OK, "true")),
        ("false", (FAILED, "false")),
        ("one", (FAILED, "returned int")),
        ("text", (FAILED, "returned str")),
        ("fail", (FAILED, "LookupError")),
        ("leave", (FAILED, "SystemExit")),
        ("later", (COULD_NOT_RUN, "a coroutine function: an ordinary one is called")),
        ("number", (COULD_NOT_RUN, "not callable")),
        ("nothing", (COULD_NOT_RUN, "no such callable")),
        ("", (COULD_NOT_RUN, "no such callable")),
    ],
)
def test_python(name: str, expected: Said, module: str) -> None:
    """HL-4.2, HL-4.10, HL-4.12: true or None is well; of an error its type is told, and not its text."""
    probe = probe_for(Python(target=f"{module}:{name}"))
    assert said(probe) == expected
    assert said(probe) == expected


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("1 / 0", "the import failed: ZeroDivisionError"),
        ("raise SystemExit(3)", "the import failed: SystemExit"),
        ("import no_such_module", "a module that it imports is missing"),
        ("def broken(:", "the import failed: SyntaxError"),
    ],
)
def test_an_import_that_fails(source: str, detail: str, module: str, tmp_path: Path) -> None:
    """HL-4.2: a module that cannot be imported says nothing of a dependency."""
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    assert said(Python(target=f"{module}:true")) == (COULD_NOT_RUN, detail)


@pytest.mark.parametrize(
    "target", ["no_such_module:true", "no_such_package.module:true", "os.no_such:true", ":true", ""]
)
def test_no_such_module(target: str) -> None:
    """HL-4.2: neither does one that is not there."""
    outcome, detail = said(Python(target=target))
    assert outcome is COULD_NOT_RUN
    assert detail in {"no such module", "the import failed: ValueError"}


def test_the_import_is_made_once_and_late(module: str) -> None:
    """HL-4.10: a module is imported by the first run, and the callable kept."""
    probe = probe_for(Python(target=f"{module}:none"))
    assert module not in sys.modules
    for count in (1, 2, 3):
        assert said(probe) == (OK, "true")
        assert len(sys.modules[module].calls) == count
    del sys.modules[module].none
    assert said(probe) == (OK, "true")


def test_a_callable_that_blocks(module: str) -> None:
    """HL-4.11: it keeps its one thread, is counted once, and is called again once it has come back."""
    probe, before = probe_for(Python(target=f"{module}:block")), threading.active_count()
    assert said(probe, 0.2) == (FAILED, "timeout")
    try:
        for _ in range(3):
            assert said(probe, 0.2) == (COULD_NOT_RUN, "still waiting")
        assert (hangs(probe), threading.active_count()) == (True, before + 1)
    finally:
        sys.modules[module].gate.set()
    assert settled(lambda: threading.active_count() == before)
    assert said(probe) == (OK, "true")


def test_an_import_that_blocks(module: str, tmp_path: Path) -> None:
    """HL-4.11: an import is somebody's code too."""
    source = "import threading; threading.Event().wait(0.5)\ndef true(): return True\n"
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    probe = probe_for(Python(target=f"{module}:true"))
    assert said(probe, 0.1) == (FAILED, "timeout")
    assert settled(lambda: said(probe) == (OK, "true"))


def test_close_changes_nothing_for_most() -> None:
    """HL-4.8: but for `command` there is nothing to end, and to close twice is no fault."""
    probe = probe_for(Disk(path="/", min_free_bytes=1))
    probe.close()
    probe.close()
    assert said(probe) == (OK, "room enough")
