"""Why a child could not be started. How one is ended is with the users: `tests/health/test_probes_command.py` first."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.child_process import SpawnError, spawn
from tests.health.probe_support import descriptors

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")

ENVIRON = {"PATH": os.defpath}


@pytest.mark.parametrize(
    ("argv", "options", "words"),
    [
        (("no-such-program",), {}, "no such program"),
        (("true",), {"cwd": "/no/such/folder"}, "its working directory /no/such/folder cannot be entered"),
        (("/no/such/program",), {"cwd": "/"}, "no such program"),
        (("true", "a\0b"), {}, "no valid arguments"),
        (("true",), {"uid": -1}, "-1 is no user of this system"),
        (("true",), {"uid": 2**32 - 1}, "4294967295 is no user of this system"),
        (("x" * 5000,), {}, "the system refuses it: File name too long"),
    ],
)
def test_words(argv: tuple[str, ...], options: dict[str, Any], words: str) -> None:
    """AR-3.3, HL-4.8: what could not be started is told in our words, and costs no descriptor."""
    before = descriptors()
    with pytest.raises(SpawnError) as told:
        spawn(argv, ENVIRON, **options)
    assert str(told.value) == words
    assert descriptors() == before


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_full_machine(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.8: that the machine has no room says nothing of the program."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(SpawnError, match=r"^the machine is full$"):
        spawn(("true",), ENVIRON)


def test_where_and_what_it_writes_to(tmp_path: Path) -> None:
    """AR-3.2: it runs in the folder that was said, and both outputs go where they were sent."""
    reading, writing = os.pipe()
    child = spawn(("sh", "-c", "pwd; pwd >&2"), ENVIRON, cwd=str(tmp_path), stdout=writing, stderr=writing)
    os.close(writing)
    with os.fdopen(reading) as output:
        assert output.read() == f"{tmp_path}\n" * 2
    assert child.wait(30)
    assert child.end() == 0
