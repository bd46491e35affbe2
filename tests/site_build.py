"""Builds the documentation as ``scripts/check`` does."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


@functools.cache
def without_a_network() -> tuple[str, ...]:
    """Return the words before a command that give it no network; none where this machine does not let us."""
    program = shutil.which("unshare")
    words = (program or "", "--map-root-user", "--net")
    may = program is not None and subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0
    return words if may else ()


def build(folder: Path, tree: Path = ROOT) -> tuple[int, str]:
    """Build the site of ``tree`` into ``folder``, without a network; return the exit code and the warnings.

    Not with ``--quiet``: it hides warnings from the count that makes them faults.
    """
    command = [*without_a_network(), sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=tree, env=environ, check=False, capture_output=True, text=True, timeout=300)
    said = (done.stdout + done.stderr).splitlines()
    return done.returncode, "\n".join(line for line in said if not line.startswith("INFO "))
