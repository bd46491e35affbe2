"""What systemd itself says of a unit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.httpd.test_notify import pairs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="Debian's package systemd is missing"
)


def verified(units: Iterable[Path], folder: Path) -> tuple[int, str]:
    """Return the exit code and the complaints of ``systemd-analyze verify`` over copies of the units in ``folder``.

    This interpreter is in the place of what is not installed.
    """
    copies = []
    for path in units:
        text = path.read_text(encoding="utf-8")
        program = pairs(text)["ExecStart"].split()[0]
        assert program.endswith("/bin/idkmesh")
        copies.append(folder / path.name)
        copies[-1].write_text(text.replace(f"ExecStart={program}", f'ExecStart="{sys.executable}"'), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", *copies], check=False, capture_output=True, text=True)
    return done.returncode, done.stderr
